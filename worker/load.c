#include "worker/load.h"

#include <stdio.h>

#include "base/cache_folder.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "formats/gguf.h"
#include "model/load/token_score.h"
#include "model/read/pooling.h"
#include "model/run/rope.h"
#include "text/bundle.h"
#include "text/tokenizer/named_vocab.h"
#include "text/tokenizer/tokenizer.h"
#include "worker/flight_ring.h"

/* Bumped whenever a change to the kernels changes bits: part of the fingerprint. */
#define KERNEL_BUILD "18"

/* A pipeline has a plan in each stage, and one more so that none of them waits for the
 * scheduler. */
enum { STEPS_IN_FLIGHT = 2, POOL_SPIN_US = 60 };

/* Fewer are packed faster than anybody notices. */
enum { PACKED_BYTES_LEAST = 64 << 20 };

static void on_progress(void *ctx, uint64_t done, uint64_t total) {
    progress_tick(ctx);
}
static void on_layer(void *ctx) {
    progress_tick(ctx);
}

static int open_device(struct loaded *l, const struct worker_settings *s, struct error *err) {
    struct comm_place place = l->ranks.place;
    bool chosen = s->gpu >= 0 && s->device && *s->device;  /* settings made by hand leave it zero */
    static const char *const GEMM[] = {"own", "cublaslt"}; /* by the numbers of --gemm */
    static const char *const COMPUTE[] = {"auto", "f32", "bf16", "int8", "fp8", "fp8-prompts"};
    struct device_options options = {
        .kind = s->cpu      ? "cpu"
                : s->device ? model_device_kind(s->device, s->layers_on_gpu)
                            : "auto",
        .isa = s->isa,
        .compute = COMPUTE[s->compute],
        .thread_count = (int)s->threads,
        .spin_us = POOL_SPIN_US,
        .ordinal = chosen ? (int)s->gpu : (int)(place.stage * place.tp + place.rank),
        .gemm = GEMM[s->gemm]};
    if (!strcmp(options.kind, "auto") && !device_known("cuda"))
        log_info("computing on the CPU: this build has no code for GPUs");
    return device_open(&options, &l->dev, err);
}

/* By the numbers of --quantize. */
static const enum storage_type QUANTIZE[] = {STORAGE_NONE, STORAGE_F8_E4M3, STORAGE_I8, STORAGE_U4};

_Static_assert((int)POOLING_LAST == (int)WIRE_POOLING_LAST &&
                   (int)POOLING_MEAN == (int)WIRE_POOLING_MEAN &&
                   (int)POOLING_CLS == (int)WIRE_POOLING_CLS &&
                   (int)POOLING_MAX == (int)WIRE_POOLING_MAX,
               "both ends have the same numbers");

/* A model with a head of its own that scores, or that scores by two tokens. */
static int choose_scores(struct loaded *l, const char *dir, enum pooling pooling, uint32_t labels,
                         struct error *err) {
    enum score_activation activation;
    int rc = score_activation_read(dir, labels, &activation, err);
    l->vectors = (struct wire_vectors){.pooling = (enum wire_pooling)pooling,
                                       .width = labels,
                                       .whole_prompts = l->model.spec.bidirectional,
                                       .only = true,
                                       .scores = true,
                                       .bare = activation == SCORES_BARE,
                                       .softmax = activation == SCORES_SOFTMAX};
    return rc;
}

/* The ids of --score-tokens. */
static int read_score_tokens(const struct loaded *l, const char *words, struct token_score *out,
                             struct error *err) {
    struct bundle bundle;
    struct tokenizer *t;
    struct bytes word[2] = {{0}}, more;
    uint32_t ids[2] = {TOKEN_NONE, TOKEN_NONE};
    const char *rest = words;
    if (!list_next_trimmed(&rest, ',', &word[0]) || !list_next_trimmed(&rest, ',', &word[1]) ||
        list_next_trimmed(&rest, ',', &more))
        return error_set(err, ERR_INVALID,
                         "--score-tokens '%s' is no pair of tokens with a comma between", words);
    if (bundle_open(&bundle, buf_bytes(&l->bundle), err) || tokenizer_load_bundle(&bundle, &t, err))
        return err->code;
    for (int i = 0; i < 2; i++)
        ids[i] = tokenizer_find(t, word[i]);
    tokenizer_free(&t);
    *out = (struct token_score){ids[0], ids[1]};
    int lost = ids[0] == TOKEN_NONE ? 0 : 1;
    return ids[lost] == TOKEN_NONE
               ? error_set(err, ERR_INVALID, "--score-tokens: the model has no token '%.*s'",
                           (int)word[lost].len, (const char *)word[lost].data)
               : 0;
}

static bool is_gguf(const char *dir) {
    char *path = gguf_path_of(dir);
    bool found = path != NULL;
    mem_free(path);
    return found;
}

/* llama.cpp's rerankers that write: the head's rows of two tokens, of which the first one's share is
 * the score. Its sigmoid is that of their difference. */
static int score_yes_or_no(struct loaded *l, const char *dir, struct error *err) {
    struct head_layer *out = &l->model.weights.score.layers[0];
    CHECK(l->model.weights.score.count == 1 && out->out == 2 && !out->bias);
    for (uint32_t i = 0; i < out->in; i++)
        out->weight[i] -= out->weight[out->in + i];
    out->out = 1;
    return choose_scores(l, dir, POOLING_LAST, 1, err);
}

static int score_by_tokens(struct loaded *l, const char *dir, const struct token_score *tokens,
                           struct error *err) {
    int rc = token_score_head(&l->model, tokens, &l->head, err);
    return rc ? rc : choose_scores(l, dir, POOLING_LAST, 1, err);
}

/* What becomes of prompts that are to be embedded or scored: as the model's files or options say. */
static int choose_pooling(struct loaded *l, const struct worker_settings *s, struct error *err) {
    /* by the numbers of --pooling */
    static const enum pooling CHOICES[] = {POOLING_NONE, POOLING_NONE, POOLING_LAST,
                                           POOLING_MEAN, POOLING_CLS,  POOLING_MAX};
    struct pooling_spec spec = {.kind = CHOICES[s->pooling], .normalize = true};
    const struct score_spec *score = &l->model.spec.score;
    struct token_score tokens;
    if (s->score_tokens) {
        int rc = read_score_tokens(l, s->score_tokens, &tokens, err);
        return rc ? rc : score_by_tokens(l, s->model, &tokens, err);
    }
    if (score->kind == SCORE_LINEAR && score->label_count == 2 && is_gguf(s->model))
        return score_yes_or_no(l, s->model, err);
    if (score->kind)
        return choose_scores(l, s->model, score->pooling, score->label_count, err);
    int rc = s->pooling ? 0 : pooling_read(s->model, &spec, err);
    bool encoder = l->model.spec.bidirectional, headless = l->model.spec.headless;
    if (!rc && spec.by_tokens) {
        tokens = (struct token_score){(uint32_t)spec.true_token, (uint32_t)spec.false_token};
        return score_by_tokens(l, s->model, &tokens, err);
    }
    /* sentence-transformers' way with an encoder that has no modules */
    if (!rc && encoder && !s->pooling && spec.kind == POOLING_NONE)
        spec = (struct pooling_spec){.kind = POOLING_MEAN, .normalize = true};
    if (!rc && headless && spec.kind == POOLING_NONE)
        return error_set(err, ERR_INVALID,
                         "the model has no head, so it writes no text: say with --pooling what "
                         "becomes its embeddings");
    if (rc || spec.kind == POOLING_NONE)
        return rc;
    l->head = spec.head;
    uint32_t hidden = l->model.spec.hidden,
             width = l->head.count ? vector_head_width(&l->head) : hidden;
    if (l->head.count && l->head.layers[0].in != hidden)
        return error_set(err, ERR_INVALID,
                         "a module of the model's embeddings takes %u values; the model makes %u",
                         l->head.layers[0].in, hidden);
    if (width > WIRE_MAX_VECTOR)
        return error_set(err, ERR_UNSUPPORTED, "embeddings of %u values are more than %d", width,
                         WIRE_MAX_VECTOR);
    l->vectors = (struct wire_vectors){.pooling = (enum wire_pooling)spec.kind,
                                       .width = width,
                                       .normalize = spec.normalize,
                                       .whole_prompts = encoder,
                                       .only = headless};
    return 0;
}

/* Where packed weights are kept; NULL: nowhere. Returns owned. */
static char *open_packed_folder(const struct worker_settings *s) {
    char *folder = s->packed_bytes ? cache_folder_open(s->cache_dir, "packed weights") : NULL;
    if (folder && cache_folder_is_memory(folder)) {
        mem_free(folder);
        folder = NULL;
    }
    return folder;
}

/* The model's text files, with the vocabulary that --vocab says: a file, or a well-known one's name. */
static int pack_texts(struct loaded *l, const struct worker_settings *s, struct error *err) {
    struct buf path = {0};
    if (!s->vocab || file_exists(s->vocab))
        return bundle_pack_with(s->model, s->vocab, &l->bundle, err);
    const struct named_vocab *known = named_vocab_find(s->vocab);
    if (!known)
        return error_set(err, ERR_NOT_FOUND,
                         "--vocab '%s' is neither a file nor a vocabulary known by name: %s",
                         s->vocab, named_vocab_list());
    int rc = named_vocab_path(known, s->vocab_dir, &path, err);
    if (!rc)
        rc = bundle_pack_with(s->model, buf_text(&path), &l->bundle, err);
    buf_release(&path);
    return rc;
}

static int open_model(struct loaded *l, const struct worker_settings *s, struct error *err) {
    struct model_options model = {.dir = s->model,
                                  .config.strict = s->strict_config,
                                  .quantize = QUANTIZE[s->quantize],
                                  .layers_on_gpu = model_layers_wanted(s->layers_on_gpu),
                                  .progress = on_progress,
                                  .progress_ctx = l->progress,
                                  .packed_least = PACKED_BYTES_LEAST,
                                  .packed_most = s->packed_bytes,
                                  .packs_later = true};
    if (!ranks_are_alone(&l->ranks))
        model.shard = &l->ranks.shard;
    if (!s->model || !*s->model)
        return error_set(err, ERR_INVALID, "no model was given; use --model FOLDER");
    int rc = open_device(l, s, err);
    if (rc)
        return rc;
    if (model.layers_on_gpu && l->dev->kind == DEVICE_CPU)
        log_warn("there is no GPU for --layers-on-gpu %u: the processor computes all layers",
                 model.layers_on_gpu);
    l->stream = stream_new(l->dev);
    rc = pack_texts(l, s, err);
    char *packed_folder = rc ? NULL : open_packed_folder(s);
    model.packed_folder = packed_folder;
    if (!rc)
        rc = model_open(&l->model, &model, l->dev, l->stream, err);
    mem_free(packed_folder);
    if (!rc)
        rc = choose_pooling(l, s, err);
    if (!rc)
        rc = kv_geometry_of(&l->geometry, &l->model, KV_TYPES[s->kv_type],
                            (uint32_t)s->block_tokens, err);
    return rc;
}

/* Layers' states are as large as the model makes them: no more slots than a quarter of the free
 * memory holds. */
static uint32_t slot_count_for_memory(const struct loaded *l, uint32_t wanted,
                                      uint64_t memory_free) {
    uint64_t state_bytes = l->geometry.state_bytes;
    if (!state_bytes || !memory_free)
        return wanted;
    uint32_t most =
        (uint32_t)MIN((uint64_t)wanted, MAX(memory_free / 4 / state_bytes, (uint64_t)1));
    if (most < wanted)
        log_info("%u slots instead of %u: each keeps %llu MB of state", most, wanted,
                 (unsigned long long)(state_bytes >> 20));
    return most;
}

/* Copies of states at the ends of prompts: at most an eighth of the free memory, and two a slot,
 * whatever was asked for. A model whose keys depend on a prompt's length shares nothing, whatever
 * its states. */
static uint32_t snapshot_count_for_memory(const struct loaded *l, uint64_t bytes, uint32_t slots,
                                          uint64_t memory_free) {
    uint64_t state_bytes = l->geometry.state_bytes;
    if (!state_bytes || spec_depends_on_length(&l->model.spec))
        return 0;
    if (memory_free)
        bytes = MIN(bytes, memory_free / 8);
    return (uint32_t)MIN(bytes / state_bytes, 2 * (uint64_t)slots);
}

/* A rank's share of the part of the memory that may be taken; 0: no bound. */
static uint64_t memory_max(const struct loaded *l, double fraction) {
    double bytes = fraction * (double)l->dev->memory_bytes;
    if (!device_memory_free(l->dev))
        bytes /= (double)l->ranks.place.tp * l->ranks.place.pp;
    return (uint64_t)bytes;
}

/* Stages may lie on devices of different kinds, and all have to take the same steps. */
static uint32_t step_tokens(const struct loaded *l, const struct worker_settings *s) {
    if (s->max_step_tokens)
        return (uint32_t)s->max_step_tokens;
    return l->ranks.place.pp > 1 ? (uint32_t)DEVICE_STEP_TOKENS : l->dev->step_tokens;
}

static int allocate_memory(struct loaded *l, const struct worker_settings *s, struct error *err) {
    uint64_t memory_free = device_memory_available(l->dev),
             ranks = (uint64_t)l->ranks.place.tp * l->ranks.place.pp;
    /* all of them here; a byte of a full group stays one, since 0 says that nothing is known */
    if (!device_memory_free(l->dev))
        memory_free = (memory_free + ranks - 1) / ranks;
    uint32_t slots = slot_count_for_memory(l, (uint32_t)s->slots, memory_free),
             context = l->model.spec.max_context;
    if (s->max_context > context)
        log_warn("--max-context %lld is more than the model was made for; it is %u tokens",
                 (long long)s->max_context, context);
    if (s->max_context)
        context = MIN(context, (uint32_t)s->max_context);
    l->max_step_tokens = step_tokens(l, s);
    if (l->vectors.whole_prompts && context > l->max_step_tokens)
        log_warn("prompts are computed in one step each: none may be longer than "
                 "--max-step-tokens %u; the model was made for %u",
                 l->max_step_tokens, context);
    l->geometry.snapshot_count =
        snapshot_count_for_memory(l, s->snapshot_bytes, slots, memory_free);
    struct memory_plan plan;
    struct memory_request request = {.slot_count = slots,
                                     .max_step_tokens = l->max_step_tokens,
                                     .max_context = context,
                                     .block_count = (uint32_t)s->blocks,
                                     .kv_bytes = s->kv_bytes,
                                     .memory_free = memory_free,
                                     .sharers = (uint32_t)s->memory_sharers,
                                     .memory_max = memory_max(l, s->memory_fraction)};
    int rc = memory_plan_make(&plan, &l->model, &l->geometry, &request, err);
    if (!rc)
        rc = slots_init(&l->slots, &l->model, &l->geometry, slots, context, plan.block_count, err);
    if (!rc)
        rc = forward_init(&l->forward, &l->model, &l->slots, l->max_step_tokens, 2 * slots, err);
    if (!rc)
        rc = ranks_init(&l->ranks, &l->model, l->max_step_tokens, slots, l->progress, err);
    if (rc)
        return rc;
    l->forward.ranks = &ranks_calls;
    l->forward.ranks_ctx = &l->ranks;
    stepper_init(&l->stepper, &l->forward, slots, s->graphs);
    l->forward.progress = on_layer;
    l->forward.progress_ctx = l->progress;
    log_info("memory: weights %llu MB, KV cache %llu MB (%u blocks of %u tokens, %s), buffers %llu "
             "MB, slots %llu MB",
             (unsigned long long)(plan.weight_bytes >> 20),
             (unsigned long long)(plan.kv_bytes >> 20), plan.block_count, l->geometry.block_tokens,
             storage_name(l->geometry.type), (unsigned long long)(plan.activation_bytes >> 20),
             (unsigned long long)(plan.slot_bytes >> 20));
    return 0;
}

/* Whatever can change a bit of a continuation. */
static struct u128 fingerprint(const struct loaded *l, struct u128 revision) {
    char text[256], hex[U128_TEXT_MAX];
    u128_text(revision, hex);
    int n = snprintf(text, sizeof text, "%s|%d|%s|%s|%s|%s|%s|%s|tp%u|pp%u|%s|exact", hex,
                     (int)l->dev->kind, l->dev->isa, KERNEL_BUILD, compute_name(l->dev->compute),
                     l->dev->attention, storage_name(l->model.weights.main_type),
                     storage_name(l->geometry.type), l->ranks.place.tp, l->ranks.place.pp,
                     l->ranks.nccl_calls ? "nccl" : "shm");
    return hash128(text, (size_t)n, 0);
}

/* A state cannot be taken back to where a draft turned out to be wrong, and other ranks do not hear
 * which were. */
static uint32_t draft_max(const struct loaded *l) {
    bool able = l->dev->drafts && ranks_are_alone(&l->ranks) && !l->geometry.state_bytes &&
                !l->vectors.only;
    return able ? MIN((uint32_t)FLIGHT_DRAFTS_MAX, l->max_step_tokens) : 0;
}

static void describe(struct loaded *l, const struct worker_settings *s) {
    struct u128 ids[2] = {l->model.revision, bundle_hash(buf_bytes(&l->bundle))},
                revision = hash128(ids, sizeof ids, 0);
    worker_public_name(s, l->served_name);
    forward_rehearse(&l->forward, l->stream); /* before the fingerprint */
    /* Keys rotated by the length of their own prompt are no other prompt's. */
    bool own = l->geometry.state_bytes || spec_depends_on_length(&l->model.spec);
    l->group = (struct wire_kv_group){.kind = own ? WIRE_GROUP_RECURRENT : WIRE_GROUP_FULL,
                                      .block_tokens = l->geometry.block_tokens,
                                      .block_count = l->slots.kv.block_count,
                                      .block_bytes = l->geometry.block_bytes};
    l->about = (struct wire_hello){.model = bytes_str(l->served_name),
                                   .revision = revision,
                                   .bundle = ids[1],
                                   .bundle_bytes = l->bundle.len,
                                   .fingerprint = fingerprint(l, revision),
                                   .slot_count = l->slots.table.slot_count,
                                   .max_step_tokens = l->max_step_tokens,
                                   .max_context = l->slots.table.max_context,
                                   .logits_width = l->model.spec.vocab,
                                   .steps_in_flight = l->steps_in_flight,
                                   .class_sensitive = l->dev->kind != DEVICE_CPU,
                                   .snapshot_count = l->geometry.snapshot_count,
                                   .vectors = l->vectors,
                                   .drafts = draft_max(l),
                                   .groups = &l->group,
                                   .group_count = 1};
}

int worker_load(struct loaded *l, const struct worker_settings *settings,
                struct worker_progress *progress, struct error *err) {
    l->progress = progress;
    buf_init(&l->bundle, 0);
    int rc = ranks_place(&l->ranks, settings, err);
    uint32_t stages = l->ranks.place.pp;
    l->steps_in_flight = stages > 1 ? MIN(stages + 1, (uint32_t)STEPS_MAX) : STEPS_IN_FLIGHT;
    if (!rc)
        rc = open_model(l, settings, err);
    if (!rc)
        rc = allocate_memory(l, settings, err);
    if (rc)
        return rc;
    describe(l, settings);
    log_info("model '%s' on %s (%s, %u threads)", l->served_name, l->dev->name, l->dev->isa,
             l->dev->thread_count);
    return 0;
}

void loaded_release(struct loaded *l) {
    ranks_release(&l->ranks);
    stepper_release(&l->stepper);
    if (l->forward.model)
        forward_release(&l->forward);
    if (l->slots.dev)
        slots_release(&l->slots);
    if (l->model.dev)
        model_close(&l->model);
    stream_free(&l->stream);
    device_close(&l->dev);
    vector_head_release(&l->head);
    buf_release(&l->bundle);
}
