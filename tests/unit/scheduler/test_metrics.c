/* What /metrics tells is what the core and the link count, each under its own name. */
#include "scheduler/scheduler_metrics.h"

#include <stdio.h>

#include "check.h"

/* A value of its own for each count. */
static struct sched_counts counts_of_their_own(void) {
    struct sched_counts c = {.waiting = 101,
                             .resumed_waiting = 1000,
                             .running = 102,
                             .records = 103,
                             .replicas_ready = 104,
                             .gateways = 105,
                             .blocks_total = 106,
                             .blocks_used = 107,
                             .blocks_cached = 108,
                             .record_bytes = 109,
                             .steps = 110,
                             .prompt_tokens = 111,
                             .computed_tokens = 112,
                             .cached_tokens = 113,
                             .output_tokens = 114,
                             .wasted_rows = 115,
                             .preemptions = 116,
                             .evictions = 117,
                             .requests = 118,
                             .snapshots = 119,
                             .retransmits = 120,
                             .deaths = 121,
                             .attributable_deaths = 122,
                             .fences = 123,
                             .reregistrations = 124,
                             .stale_messages = 125};
    for (uint64_t i = 0; i < ARRAY_LEN(c.rejected); i++)
        c.rejected[i] = 200 + i;
    for (uint64_t i = 0; i < ARRAY_LEN(c.finished); i++)
        c.finished[i] = 300 + i;
    return c;
}

TEST(metrics_have_each_count_under_its_name) {
    static const struct {
        const char *sample;
        int value;
    } SAMPLES[] = {
        {"waiting", 1101},
        {"running", 102},
        {"records", 103},
        {"replicas_ready", 104},
        {"gateways", 105},
        {"blocks", 106},
        {"blocks_used", 107},
        {"blocks_cached", 108},
        {"record_bytes", 109},
        {"steps_total", 110},
        {"prompt_tokens_total", 111},
        {"step_tokens_total", 112},
        {"prefix_hit_tokens_total", 113},
        {"output_tokens_total", 114},
        {"wasted_rows_total", 115},
        {"preemptions_total", 116},
        {"evictions_total", 117},
        {"requests_total", 118},
        {"snapshots_total", 119},
        {"retransmits_total", 120},
        {"worker_deaths_total", 121},
        {"worker_faults_total", 122},
        {"fences_total", 123},
        {"reregistrations_total", 124},
        {"stale_messages_total", 125},
        {"late_turns_total", 400},
        {"rejects_total{reason=\"none\"}", 200},
        {"rejects_total{reason=\"overloaded\"}", 200 + WIRE_REJECT_OVERLOADED},
        {"rejects_total{reason=\"no_model\"}", 200 + WIRE_REJECT_NO_MODEL},
        {"rejects_total{reason=\"invalid\"}", 200 + WIRE_REJECT_INVALID},
        {"rejects_total{reason=\"too_long\"}", 200 + WIRE_REJECT_TOO_LONG},
        {"rejects_total{reason=\"deadline\"}", 200 + WIRE_REJECT_DEADLINE},
        {"rejects_total{reason=\"poison\"}", 200 + WIRE_REJECT_POISON},
        {"rejects_total{reason=\"draining\"}", 200 + WIRE_REJECT_DRAINING},
        {"rejects_total{reason=\"revision\"}", 200 + WIRE_REJECT_REVISION},
        {"rejects_total{reason=\"unsupported\"}", 200 + WIRE_REJECT_UNSUPPORTED},
        {"rejects_total{reason=\"unknown\"}", 200 + WIRE_REJECT_UNKNOWN},
        {"rejects_total{reason=\"moved\"}", 200 + WIRE_REJECT_MOVED},
        {"rejects_total{reason=\"tenant_requests\"}", 200 + WIRE_REJECT_TENANT_REQUESTS},
        {"rejects_total{reason=\"tenant_tokens\"}", 200 + WIRE_REJECT_TENANT_TOKENS},
        {"rejects_total{reason=\"old_workers\"}", 200 + WIRE_REJECT_OLD_WORKERS},
        {"finishes_total{reason=\"none\"}", 300 + WIRE_FINISH_NONE},
        {"finishes_total{reason=\"stop\"}", 300 + WIRE_FINISH_STOP},
        {"finishes_total{reason=\"length\"}", 300 + WIRE_FINISH_LENGTH},
        {"finishes_total{reason=\"cancelled\"}", 300 + WIRE_FINISH_CANCELLED},
        {"finishes_total{reason=\"error\"}", 300 + WIRE_FINISH_ERROR},
        {"finishes_total{reason=\"deadline\"}", 300 + WIRE_FINISH_DEADLINE},
        {"finishes_total{reason=\"constraint\"}", 300 + WIRE_FINISH_CONSTRAINT},
        {"frames_total{direction=\"in\"}", 500},
        {"frames_total{direction=\"out\"}", 501},
        {"frame_bytes_total{direction=\"in\"}", 502},
        {"frame_bytes_total{direction=\"out\"}", 503},
        {"bad_frames_total", 504},
        {"stale_frames_total", 505},
        {"refused_peers_total", 506},
        {"refused_frames_total", 507},
        {"refused_sends_total", 508},
        {"registrations_total", 509},
    };
    struct sched_counts counts = counts_of_their_own();
    struct link_stats stats = {.received_frames = 500,
                               .sent_frames = 501,
                               .received_bytes = 502,
                               .sent_bytes = 503,
                               .bad_frames = 504,
                               .stale_frames = 505,
                               .refused_peers = 506,
                               .refused_frames = 507,
                               .refused_sends = 508,
                               .registrations = 509};
    struct buf page = {0};
    scheduler_metrics_register();
    scheduler_metrics_publish(&counts, &stats, 400);
    metrics_write(&page);
    for (size_t i = 0; i < ARRAY_LEN(SAMPLES); i++) {
        char line[128];
        snprintf(line, sizeof line, "\ntrireme_scheduler_%s %d\n", SAMPLES[i].sample,
                 SAMPLES[i].value);
        if (!strstr(buf_text(&page), line))
            check_fail(__FILE__, __LINE__, "not there:%s", line);
    }
    buf_release(&page);
}
