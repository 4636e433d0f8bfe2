/*
 * settings.h - the options of `trireme scheduler`.
 */
#ifndef SCHEDULER_SETTINGS_H
#define SCHEDULER_SETTINGS_H

#include "base/option.h"

struct scheduler_settings {
    const char *listen; /* endpoints, comma-separated */
    const char *run_dir, *secret_file, *admin_host;
    const char *key_file, *allow_keys;
    const char *lease, *lease_name; /* lease/lease.h; NULL: this one leads */
    const char *lease_user, *lease_password_file, *lease_authority, *lease_certificate, *lease_key;
    int64_t lease_ttl_ms;
    bool share_prefixes, sandbox;
    int64_t admin_port, queue_max, step_tokens, chunk_tokens, drafts, resume_credits, poison_deaths,
        tenant_streams;
    int64_t heartbeat_ms, silence_ms, queue_wait_ms, drain_ms, itl_target_ms, start_grace_ms,
        model_grace_ms, gateway_drop_ms, record_ttl_ms, stuck_ms;
    uint64_t record_bytes, table_bytes, bundle_bytes, tenant_stream_bytes;
    int log_level, log_format;
};

#endif
