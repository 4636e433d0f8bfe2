/*
 * settings.h - the options of `trireme worker`, as one table (base/option.h).
 */
#ifndef WORKER_SETTINGS_H
#define WORKER_SETTINGS_H

#include "base/option.h"

struct worker_settings {
    const char *model, *served_name, *connect, *instance, *run_dir, *name;
    const char *key_file, *allow_keys; /* for tcp */
    const char *device, *isa, *cache_dir, *vocab, *vocab_dir;
    int64_t layers_on_gpu; /* -1: all; see model_options.layers_on_gpu */
    int64_t threads, slots, blocks, block_tokens, max_step_tokens, max_context, min_step_ms,
        drain_ms, memory_sharers;
    uint64_t kv_bytes, snapshot_bytes, packed_bytes;
    double memory_fraction;   /* 0: not given */
    int kv_type;              /* of KV_TYPE_CHOICES (model/model.h) */
    int quantize;             /* "none|fp8|int8|int4" */
    int compute;              /* "auto|f32|bf16|int8|fp8|fp8-prompts" */
    int gemm;                 /* "own|cublaslt" */
    int pooling;              /* "auto|none|last|mean|cls|max" */
    const char *score_tokens; /* "yes,no"; NULL: as the model's files say */
    bool graphs;
    bool strict_config;
    bool sandbox, cpu;
    const char *admin_host;
    int64_t admin_port;
    int log_level, log_format;
    const char *replica, *stage_layers, *nccl, *comm_listen;
    int comm; /* "auto|shm|nccl|peer" */
    int64_t gpu;
    int64_t rank, tp, stage, pp, comm_form_ms, comm_timeout_ms;
};

extern const struct option_table worker_options;

enum { WORKER_NAME_MAX = 256 };
/* The model's public name: served_name, else the folder's name; a folder called "model" goes by its
 * parent's. */
void worker_public_name(const struct worker_settings *settings, char out[WORKER_NAME_MAX]);

#endif
