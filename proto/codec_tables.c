#include "proto/codec_tables.h"

#include "proto/codec.h"
#include "trireme.pb-c.h"

/* Bounds that messages.h leaves to the frame's length. */
enum {
    ITEMS_MAX = 1 << 20,  /* rows of Ack and Deltas */
    FLOATS_MAX = 1 << 24, /* vectors, logprobs */
    MEDIA_MAX = 4096,
    STATE_MAX = 1 << 20, /* sampler_state */
    STEP_CREDIT_MAX = 64,
    RANKS_MAX = 1024,
    BLOCK_TOKENS_MAX = 1 << 20,
    HEARTBEAT_MS_MAX = 60 * 1000,
    SILENCE_MS_MAX = 3600 * 1000
};

/* offsetof that also checks the member's type. */
#define AT(s, f, type)                                                                                                 \
    (offsetof(struct s, f) +                                                                                           \
     0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((struct s *)0)->f), type) ? 1 : -1]))
#define AT_4_BYTES(s, f) (offsetof(struct s, f) + 0 * sizeof(char[sizeof(((struct s *)0)->f) == 4 ? 1 : -1]))
#define ROW(no, kind, at, f, lo, hi)                                                                                   \
    { .name = #f, .number = no, .type = kind, .offset = (uint16_t)(at), .min = lo, .max = hi }

#define BOOL(no, s, f)         ROW(no, FIELD_BOOL, AT(s, f, bool), f, 0, 1)
#define ENUM(no, s, f, lo, hi) ROW(no, FIELD_U32, AT_4_BYTES(s, f), f, lo, hi)
#define U32(no, s, f, lo, hi)  ROW(no, FIELD_U32, AT(s, f, uint32_t), f, lo, hi)
#define ANY32(no, s, f)        U32(no, s, f, 0, UINT32_MAX)
#define I32(no, s, f, lo, hi)  ROW(no, FIELD_I32, AT(s, f, int32_t), f, (uint64_t)(int64_t)(lo), (uint64_t)(int64_t)(hi))
#define U64(no, s, f, hi)      ROW(no, FIELD_U64, AT(s, f, uint64_t), f, 0, hi)
#define ANY64(no, s, f)        U64(no, s, f, UINT64_MAX)
#define F32(no, s, f)          ROW(no, FIELD_F32, AT(s, f, float), f, 0, 0)
#define U128(no, s, f)         ROW(no, FIELD_U128, AT(s, f, struct u128), f, 0, 0)
#define TEXT(no, s, f, hi)     ROW(no, FIELD_TEXT, AT(s, f, struct bytes), f, 0, hi)
#define BLOB(no, s, f, hi)     ROW(no, FIELD_BLOB, AT(s, f, struct bytes), f, 0, hi)
#define TOKENS(no, s, f, hi)   ROW(no, FIELD_U32S, AT(s, f, struct tokens), f, 0, hi)
#define U32S(no, s, f, hi)     ROW(no, FIELD_U32S, AT(s, f, struct u32s), f, 0, hi)
#define F32S(no, s, f, hi)     ROW(no, FIELD_F32S, AT(s, f, struct f32s), f, 0, hi)
#define U128S(no, s, f, hi)    ROW(no, FIELD_U128S, AT(s, f, struct u128s), f, 0, hi)
#define STRUCT(no, s, f, t)                                                                                            \
    {                                                                                                                  \
        .name = #f, .number = no, .type = FIELD_STRUCT, .offset = (uint16_t)AT(s, f, struct wire_##t),                 \
        .table = &t##_table                                                                                            \
    }
#define STRUCTS(no, s, f, n, t, lo, hi)                                                                                \
    {                                                                                                                  \
        .name = #f, .number = no, .type = FIELD_STRUCTS, .offset = (uint16_t)AT(s, f, const struct wire_##t *),        \
        .count_offset = (uint16_t)AT(s, n, size_t), .min = lo, .max = hi, .table = &t##_table                          \
    }
#define TABLE(n, check_fn)                                                                                             \
    static const struct wire_table n##_table = {.name = #n,                                                            \
                                                .size = sizeof(struct wire_##n),                                       \
                                                .descriptor = &pb__##n##__descriptor,                                  \
                                                .fields = n##_fields,                                                  \
                                                .field_count = ARRAY_LEN(n##_fields),                                  \
                                                .check = check_fn}

static const struct wire_field kv_group_fields[] = {
    ENUM(1, wire_kv_group, kind, WIRE_GROUP_FULL, WIRE_GROUP_RECURRENT),
    U32(2, wire_kv_group, block_tokens, 1, BLOCK_TOKENS_MAX),
    U32(3, wire_kv_group, block_count, 0, WIRE_MAX_BLOCKS),
    U32(4, wire_kv_group, window_tokens, 0, WIRE_MAX_TOKENS),
    ANY64(5, wire_kv_group, block_bytes),
};
TABLE(kv_group, wire_check_group);

static const struct wire_field hello_fields[] = {
    ENUM(1, wire_hello, role, WIRE_ROLE_GATEWAY, WIRE_ROLE_SCHEDULER),
    U128(2, wire_hello, instance),
    ANY32(3, wire_hello, pid),
    TEXT(4, wire_hello, name, WIRE_MAX_TEXT),
    ANY64(5, wire_hello, features),
    TEXT(6, wire_hello, version, WIRE_MAX_TEXT),
    U64(7, wire_hello, epoch_number, UINT64_MAX / 2), /* so that + 1 always fits */
    U128(8, wire_hello, epoch_instance),
    U128(20, wire_hello, replica),
    U32(21, wire_hello, rank, 0, RANKS_MAX - 1),
    U32(22, wire_hello, tp, 0, RANKS_MAX),
    U32(23, wire_hello, stage, 0, RANKS_MAX - 1),
    U32(24, wire_hello, pp, 0, RANKS_MAX),
    ANY32(25, wire_hello, incarnation),
    ENUM(26, wire_hello, state, 0, WIRE_STATE_DRAINING),
    TEXT(27, wire_hello, model, WIRE_MAX_TEXT),
    U128(28, wire_hello, revision),
    U128(29, wire_hello, bundle),
    U64(30, wire_hello, bundle_bytes, WIRE_MAX_BUNDLE),
    U128(31, wire_hello, fingerprint),
    U32(32, wire_hello, slot_count, 0, WIRE_MAX_SLOTS),
    U32(33, wire_hello, max_step_tokens, 0, WIRE_MAX_TOKENS),
    U32(34, wire_hello, max_context, 0, WIRE_MAX_TOKENS),
    U32(35, wire_hello, logits_width, 0, INT32_MAX),
    U32(36, wire_hello, steps_in_flight, 0, STEP_CREDIT_MAX),
    BOOL(37, wire_hello, class_sensitive),
    U32(38, wire_hello, snapshot_count, 0, WIRE_MAX_BLOCKS),
    STRUCTS(50, wire_hello, groups, group_count, kv_group, 0, WIRE_MAX_GROUPS),
    U32S(51, wire_hello, held_blocks, WIRE_MAX_BLOCKS),
    U128S(52, wire_hello, held_hashes, WIRE_MAX_BLOCKS),
    BLOB(53, wire_hello, comm_id, WIRE_COMM_ID_MAX),
};
TABLE(hello, wire_check_hello);

static const struct wire_field welcome_fields[] = {
    U32(1, wire_welcome, heartbeat_ms, 1, HEARTBEAT_MS_MAX),
    U32(2, wire_welcome, silence_ms, 1, SILENCE_MS_MAX),
    ANY64(3, wire_welcome, features),
    U128(4, wire_welcome, replica),
    BLOB(5, wire_welcome, comm_id, WIRE_MAX_TEXT),
};
TABLE(welcome, wire_check_welcome);

static const struct wire_field heartbeat_fields[] = {
    ENUM(1, wire_heartbeat, state, WIRE_STATE_LOADING, WIRE_STATE_DRAINING),
    ANY64(2, wire_heartbeat, progress),
    ANY64(3, wire_heartbeat, plan_number),
    U32(4, wire_heartbeat, step_tokens, 0, WIRE_MAX_TOKENS),
    ANY32(5, wire_heartbeat, step_age_ms),
    BOOL(6, wire_heartbeat, waiting),
};
TABLE(heartbeat, NULL);

static const struct wire_field model_status_fields[] = {
    TEXT(1, wire_model_status, model, WIRE_MAX_TEXT),
    U128(2, wire_model_status, revision),
    U128(3, wire_model_status, bundle),
    U64(4, wire_model_status, bundle_bytes, WIRE_MAX_BUNDLE),
    U32(5, wire_model_status, max_context, 0, WIRE_MAX_TOKENS),
    U32(6, wire_model_status, logits_width, 0, INT32_MAX),
    ANY32(7, wire_model_status, replicas_ready),
    ANY32(8, wire_model_status, replicas_known),
};
TABLE(model_status, NULL);

static const struct wire_field status_fields[] = {
    STRUCTS(1, wire_status, models, model_count, model_status, 0, WIRE_MAX_MODELS),
    ANY32(2, wire_status, waiting),
    ANY32(3, wire_status, running),
    ANY32(4, wire_status, waiting_max),
    BOOL(5, wire_status, draining),
};
TABLE(status, NULL);

static const struct wire_field bundle_get_fields[] = {
    U128(1, wire_bundle_get, bundle),
    U64(2, wire_bundle_get, offset, WIRE_MAX_BUNDLE),
};
TABLE(bundle_get, NULL);

static const struct wire_field bundle_chunk_fields[] = {
    U128(1, wire_bundle_chunk, bundle),
    U64(2, wire_bundle_chunk, offset, WIRE_MAX_BUNDLE),
    U64(3, wire_bundle_chunk, total, WIRE_MAX_BUNDLE),
    BLOB(4, wire_bundle_chunk, data, WIRE_BUNDLE_CHUNK_BYTES),
};
TABLE(bundle_chunk, wire_check_bundle_chunk);

static const struct wire_field sampling_fields[] = {
    F32(1, wire_sampling, temperature),
    F32(2, wire_sampling, top_p),
    F32(3, wire_sampling, min_p),
    ANY32(4, wire_sampling, top_k),
    F32(5, wire_sampling, repetition_penalty),
    F32(6, wire_sampling, presence_penalty),
    F32(7, wire_sampling, frequency_penalty),
    ANY64(8, wire_sampling, seed),
    I32(9, wire_sampling, logprobs, -1, WIRE_MAX_TOP_LOGPROBS),
    U32(10, wire_sampling, min_tokens, 0, WIRE_MAX_TOKENS),
    U32S(11, wire_sampling, bias_ids, WIRE_MAX_LOGIT_BIAS),
    F32S(12, wire_sampling, bias_values, WIRE_MAX_LOGIT_BIAS),
};
TABLE(sampling, wire_check_sampling);

static const struct wire_field choice_fields[] = {
    U32(1, wire_choice, choice, 0, WIRE_MAX_CHOICES - 1),
    TOKENS(2, wire_choice, emitted, WIRE_MAX_TOKENS),
    BOOL(3, wire_choice, finished),
};
TABLE(choice, NULL);

static const struct wire_field media_fields[] = {
    U32(1, wire_media, position, 0, WIRE_MAX_TOKENS),
    U32(2, wire_media, token_count, 0, WIRE_MAX_TOKENS),
    U128(3, wire_media, hash),
    BLOB(4, wire_media, blob, WIRE_MAX_FRAME),
};
TABLE(media, NULL);

static const struct wire_field submit_fields[] = {
    U128(1, wire_submit, request),
    ANY32(2, wire_submit, attempt),
    ENUM(3, wire_submit, kind, WIRE_GENERATE, WIRE_EMBED),
    TEXT(4, wire_submit, model, WIRE_MAX_TEXT),
    U128(5, wire_submit, revision),
    U128(6, wire_submit, fingerprint),
    TEXT(7, wire_submit, adapter, WIRE_MAX_TEXT),
    TOKENS(8, wire_submit, prompt, WIRE_MAX_TOKENS),
    STRUCT(9, wire_submit, sampling, sampling),
    U32S(10, wire_submit, stop_tokens, WIRE_MAX_STOP_TOKENS),
    U32(11, wire_submit, max_tokens, 1, WIRE_MAX_TOKENS),
    STRUCTS(12, wire_submit, choices, choice_count, choice, 1, WIRE_MAX_CHOICES),
    ENUM(13, wire_submit, grammar_kind, WIRE_GRAMMAR_NONE, WIRE_GRAMMAR_JSON),
    TEXT(14, wire_submit, grammar, WIRE_MAX_GRAMMAR),
    ANY32(15, wire_submit, deadline_ms),
    I32(16, wire_submit, priority, INT32_MIN, INT32_MAX),
    U128(17, wire_submit, tenant),
    BLOB(18, wire_submit, cache_salt, WIRE_MAX_TEXT),
    BLOB(19, wire_submit, presentation, WIRE_MAX_PRESENTATION),
    BOOL(20, wire_submit, resumed),
    BOOL(21, wire_submit, resumable),
    STRUCTS(22, wire_submit, media, media_count, media, 0, MEDIA_MAX),
    BLOB(23, wire_submit, sampler_state, STATE_MAX),
};
TABLE(submit, wire_check_submit);

static const struct wire_field reject_fields[] = {
    U128(1, wire_reject, request),
    ANY32(2, wire_reject, attempt),
    ENUM(3, wire_reject, code, WIRE_REJECT_OVERLOADED, WIRE_REJECT_UNKNOWN),
    ANY32(4, wire_reject, retry_after_ms),
    TEXT(5, wire_reject, text, WIRE_MAX_TEXT),
};
TABLE(reject, NULL);

static const struct wire_field cancel_fields[] = {
    U128(1, wire_cancel, request),
    ANY32(2, wire_cancel, attempt),
    ANY32(3, wire_cancel, choice),
};
TABLE(cancel, wire_check_cancel);

static const struct wire_field pause_fields[] = {
    U128(1, wire_pause, request),
    ANY32(2, wire_pause, attempt),
    BOOL(3, wire_pause, paused),
};
TABLE(pause, NULL);

static const struct wire_field ack_fields[] = {
    U128S(1, wire_ack, requests, ITEMS_MAX),
    U32S(2, wire_ack, attempts, ITEMS_MAX),
    U32S(3, wire_ack, choices, ITEMS_MAX),
    U32S(4, wire_ack, counts, ITEMS_MAX),
};
TABLE(ack, wire_check_ack);

static const struct wire_field resend_fields[] = {
    U128(1, wire_resend, request),
    ANY32(2, wire_resend, attempt),
    U32(3, wire_resend, choice, 0, WIRE_MAX_CHOICES - 1),
    U32(4, wire_resend, index, 0, WIRE_MAX_TOKENS),
};
TABLE(resend, NULL);

static const struct wire_field attach_fields[] = {
    U128(1, wire_attach, request),
    ANY32(2, wire_attach, attempt),
    U128(3, wire_attach, tenant),
    U32S(4, wire_attach, choices, WIRE_MAX_CHOICES),
    U32S(5, wire_attach, indexes, WIRE_MAX_CHOICES),
};
TABLE(attach, wire_check_attach);

static const struct wire_field logprobs_fields[] = {
    U32S(1, wire_logprobs, tops, ITEMS_MAX),
    U32S(2, wire_logprobs, ids, FLOATS_MAX),
    F32S(3, wire_logprobs, values, FLOATS_MAX),
};
TABLE(logprobs, NULL);

static const struct wire_field deltas_fields[] = {
    U128S(1, wire_deltas, requests, ITEMS_MAX),      U32S(2, wire_deltas, attempts, ITEMS_MAX),
    U32S(3, wire_deltas, choices, ITEMS_MAX),        U32S(4, wire_deltas, indexes, ITEMS_MAX),
    U32S(5, wire_deltas, token_counts, ITEMS_MAX),   U32S(6, wire_deltas, finishes, ITEMS_MAX),
    U32S(7, wire_deltas, cached_counts, ITEMS_MAX),  U32S(8, wire_deltas, flags, ITEMS_MAX),
    TOKENS(9, wire_deltas, tokens, FLOATS_MAX),      STRUCT(10, wire_deltas, logprobs, logprobs),
    U128S(11, wire_deltas, fingerprints, ITEMS_MAX),
};
TABLE(deltas, wire_check_deltas);

static const struct wire_field admit_fields[] = {
    U32(1, wire_admit, slot, 0, WIRE_MAX_SLOTS - 1),
    ANY64(2, wire_admit, sequence),
    U128(3, wire_admit, request),
    U32(4, wire_admit, choice, 0, WIRE_MAX_CHOICES - 1),
    TOKENS(5, wire_admit, tokens, WIRE_MAX_TOKENS),
    U32(6, wire_admit, prompt_count, 0, WIRE_MAX_TOKENS),
    U32(7, wire_admit, computed_count, 0, WIRE_MAX_TOKENS),
    U32S(8, wire_admit, block_groups, WIRE_MAX_BLOCKS),
    U32S(9, wire_admit, block_ids, WIRE_MAX_BLOCKS),
    STRUCT(10, wire_admit, sampling, sampling),
    U32S(11, wire_admit, stop_tokens, WIRE_MAX_STOP_TOKENS),
    U32(12, wire_admit, max_total, 0, WIRE_MAX_TOKENS),
    ANY32(13, wire_admit, adapter_slot),
    U128(14, wire_admit, grammar),
    STRUCTS(15, wire_admit, media, media_count, media, 0, MEDIA_MAX),
};
TABLE(admit, wire_check_admit);

static const struct wire_field plan_fields[] = {
    ANY64(1, wire_plan, number),
    ANY32(2, wire_plan, incarnation),
    U32S(3, wire_plan, release_slots, WIRE_MAX_SLOTS),
    STRUCTS(4, wire_plan, admits, admit_count, admit, 0, WIRE_MAX_SLOTS),
    U32S(5, wire_plan, op_kinds, WIRE_MAX_BLOCKS),
    U32S(6, wire_plan, op_groups, WIRE_MAX_BLOCKS),
    U32S(7, wire_plan, op_sources, WIRE_MAX_BLOCKS),
    U32S(8, wire_plan, op_targets, WIRE_MAX_BLOCKS),
    U32S(9, wire_plan, new_block_rows, WIRE_MAX_BLOCKS),
    U32S(10, wire_plan, new_block_groups, WIRE_MAX_BLOCKS),
    U32S(11, wire_plan, new_block_ids, WIRE_MAX_BLOCKS),
    U32S(12, wire_plan, row_slots, WIRE_MAX_SLOTS),
    U32S(13, wire_plan, row_token_counts, WIRE_MAX_SLOTS),
    U32S(14, wire_plan, row_drafts, WIRE_MAX_SLOTS),
    U32S(15, wire_plan, sealed_ids, WIRE_MAX_BLOCKS),
    U128S(16, wire_plan, sealed_hashes, WIRE_MAX_BLOCKS),
    BLOB(17, wire_plan, comm_id, WIRE_COMM_ID_MAX),
};
TABLE(plan, wire_check_plan);

static const struct wire_field step_result_fields[] = {
    ANY64(1, wire_step_result, plan_number),
    ANY32(2, wire_step_result, incarnation),
    U32S(3, wire_step_result, slots, WIRE_MAX_SLOTS),
    U32S(4, wire_step_result, token_counts, WIRE_MAX_SLOTS),
    U32S(5, wire_step_result, finishes, WIRE_MAX_SLOTS),
    TOKENS(6, wire_step_result, tokens, ITEMS_MAX),
    STRUCT(7, wire_step_result, logprobs, logprobs),
    U32S(8, wire_step_result, ops_done, WIRE_MAX_BLOCKS),
    F32S(9, wire_step_result, vectors, FLOATS_MAX),
    U32(10, wire_step_result, vector_width, 0, FLOATS_MAX),
    ANY64(11, wire_step_result, compute_us),
};
TABLE(step_result, wire_check_step_result);

static const struct wire_field prepare_fields[] = {
    ENUM(1, wire_prepare, resource, WIRE_RESOURCE_GRAMMAR, WIRE_RESOURCE_MEDIA),
    ANY32(2, wire_prepare, subkind),
    U128(3, wire_prepare, hash),
    BLOB(4, wire_prepare, source, WIRE_MAX_FRAME),
};
TABLE(prepare, NULL);

static const struct wire_field ready_fields[] = {
    ENUM(1, wire_ready, resource, WIRE_RESOURCE_GRAMMAR, WIRE_RESOURCE_MEDIA),
    U128(2, wire_ready, hash),
};
TABLE(ready, NULL);

static const struct wire_field failed_fields[] = {
    ENUM(1, wire_failed, resource, WIRE_RESOURCE_GRAMMAR, WIRE_RESOURCE_MEDIA),
    U128(2, wire_failed, hash),
    TEXT(3, wire_failed, text, WIRE_MAX_TEXT),
};
TABLE(failed, NULL);

static const struct wire_field drain_fields[] = {ANY32(1, wire_drain, deadline_ms)};
TABLE(drain, NULL);

static const struct wire_field fence_fields[] = {
    U128(1, wire_fence, instance),
    ANY32(2, wire_fence, pid),
};
TABLE(fence, NULL);

static const struct wire_field exited_fields[] = {
    U128(1, wire_exited, instance),
    ENUM(2, wire_exited, cause, WIRE_EXIT_UNKNOWN, WIRE_EXIT_FENCED),
    ANY32(3, wire_exited, value),
    BOOL(4, wire_exited, fault),
};
TABLE(exited, NULL);

static const struct wire_field blocks_lost_fields[] = {ANY32(1, wire_blocks_lost, incarnation)};
TABLE(blocks_lost, NULL);

#define KIND_ROW(kind, name) [kind] = &name##_table,
static const struct wire_table *const TABLES[WIRE_KIND_MAX] = {WIRE_MESSAGES(KIND_ROW)};

const struct wire_table *wire_table_of(uint32_t kind) { return kind < WIRE_KIND_MAX ? TABLES[kind] : NULL; }
