#include "cli/scorer.h"

const enum storage_type SCORER_QUANTIZE[4] = {STORAGE_NONE, STORAGE_F8_E4M3, STORAGE_I8,
                                              STORAGE_U4};

enum { BLOCK_TOKENS = 32, ROOM_MIN = 256 };

const char *const SCORER_COMPUTE[6] = {"auto", "f32", "bf16", "int8", "fp8", "fp8-prompts"};

int scorer_open(struct scorer *s, const struct scorer_options *o, struct error *err) {
    bool f32 = o->compute && !strcmp(o->compute, "f32");
    struct device_options device = {.kind = o->device ? o->device : "auto",
                                    .isa = o->isa,
                                    .thread_count = o->thread_count,
                                    .activation = f32 ? STORAGE_F32 : STORAGE_NONE,
                                    .compute = o->compute};
    struct model_options model = {
        .dir = o->model, .quantize = o->quantize, .layers_on_gpu = o->layers_on_gpu};
    *s = (struct scorer){0};
    if (!o->model || !*o->model)
        return error_set(err, ERR_INVALID, "no model was given; use --model MODEL");
    int rc = device_open(&device, &s->dev, err);
    if (rc)
        return rc;
    s->stream = stream_new(s->dev);
    s->done = event_new(s->dev);
    rc = model_open(&s->model, &model, s->dev, s->stream, err);
    s->max_context = o->max_context ? o->max_context : s->model.spec.max_context;
    if (!rc && s->max_context > s->model.spec.max_context)
        rc = error_set(err, ERR_INVALID, "--max-context %u is more than the model's context of %u",
                       s->max_context, s->model.spec.max_context);
    if (!rc)
        rc = kv_geometry_of(&s->geometry, &s->model,
                            o->kv ? o->kv
                            : f32 ? STORAGE_F32
                                  : STORAGE_NONE,
                            BLOCK_TOKENS, err);
    if (!rc)
        s->host =
            device_alloc_host(s->dev, (size_t)HEAD_ROWS * s->model.spec.vocab * sizeof *s->host);
    if (!rc && !s->host)
        rc = error_set(err, ERR_MEMORY, "no memory for logits");
    if (rc)
        scorer_close(s);
    return rc;
}

static void release_room(struct scorer *s) {
    if (s->forward.model)
        forward_release(&s->forward);
    if (s->slots.dev)
        slots_release(&s->slots);
    s->token_room = s->step_room = 0;
}

void scorer_close(struct scorer *s) {
    if (!s->dev)
        return;
    release_room(s);
    device_free_host(s->dev, s->host);
    if (s->model.dev)
        model_close(&s->model);
    if (s->done)
        event_free(&s->done);
    stream_free(&s->stream);
    device_close(&s->dev);
    *s = (struct scorer){0};
}

static uint32_t room_for(uint32_t want, uint32_t limit) {
    uint64_t room = ROOM_MIN;
    while (room < want)
        room *= 2;
    return (uint32_t)MIN(room, (uint64_t)MAX(limit, want));
}

/* Takes memory for sequences of `tokens` and steps of `step`, unless there is enough. */
static int make_room(struct scorer *s, uint32_t tokens, uint32_t step, struct error *err) {
    if (tokens <= s->token_room && step <= s->step_room)
        return 0;
    uint32_t token_room = MAX(room_for(tokens, s->model.spec.max_context), s->token_room),
             step_room = MAX(room_for(step, SCORER_STEP_MAX), s->step_room),
             blocks = (token_room + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    release_room(s);
    int rc = slots_init(&s->slots, &s->model, &s->geometry, 1, token_room, blocks, err);
    if (!rc)
        rc = forward_init(&s->forward, &s->model, &s->slots, step_room, 2, err);
    if (rc) {
        release_room(s);
        return rc;
    }
    s->token_room = token_room;
    s->step_room = step_room;
    return 0;
}

static void admit(struct scorer *s, const uint32_t *ids, uint32_t count) {
    uint32_t n = s->slots.table.max_blocks, *blocks = mem_calloc(n, sizeof *blocks);
    struct slot_state state = {.token_count = count,
                               .max_total = s->slots.table.max_context,
                               .top_p = 1,
                               .repetition_penalty = 1};
    for (uint32_t i = 0; i < n; i++)
        blocks[i] = i;
    slots_admit(&s->slots, s->stream, 0,
                &(struct slot_admission){.state = &state,
                                         .tokens = ids,
                                         .blocks = blocks,
                                         .block_count = s->slots.table.max_blocks});
    mem_free(blocks);
}

static int wait_done(struct scorer *s, struct error *err) {
    event_record(s->done, s->stream);
    return event_wait(s->done) < 0 ? error_set(err, ERR_IO, "the device failed") : 0;
}

/* Positions [first, first + count) in one step. 1: on_rows wants no more. */
static int step(struct scorer *s, uint32_t first, uint32_t count, const uint32_t *rows,
                scorer_rows_fn on_rows, void *ctx, struct error *err) {
    struct step_run run = {.slot = 0, .row_first = 0, .token_count = count};
    struct step_input in = {.runs = &run,
                            .run_count = 1,
                            .row_count = count,
                            .sample_rows = rows,
                            .sample_count = count};
    forward_layers(&s->forward, s->stream, &in);
    for (uint32_t done = 0; done < count; done += HEAD_ROWS) {
        uint32_t n = MIN(count - done, (uint32_t)HEAD_ROWS);
        forward_logits(&s->forward, s->stream, done, n);
        stream_copy_out(s->stream, s->host, s->forward.logits,
                        (size_t)n * s->model.spec.vocab * sizeof *s->host);
        int rc = wait_done(s, err);
        if (rc)
            return rc;
        if (!on_rows(ctx, first + done, s->host, n))
            return 1;
    }
    return 0;
}

static int check_run(const struct scorer *s, const uint32_t *ids, size_t count,
                     const uint32_t *chunks, size_t chunk_count, uint32_t *longest,
                     struct error *err) {
    uint64_t total = chunk_count ? 0 : count;
    if (count == 0)
        return error_set(err, ERR_INVALID, "there are no ids");
    if (count > s->max_context)
        return error_set(err, ERR_INVALID, "%zu ids are more than the %scontext of %u", count,
                         s->max_context < s->model.spec.max_context ? "" : "model's ",
                         s->max_context);
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= s->model.spec.vocab)
            return error_set(err, ERR_INVALID, "id %u is outside the vocabulary of %u", ids[i],
                             s->model.spec.vocab);
    *longest = chunk_count ? 0 : (uint32_t)count;
    for (size_t i = 0; i < chunk_count; i++) {
        if (chunks[i] == 0)
            return error_set(err, ERR_INVALID, "a chunk of 0 tokens");
        total += chunks[i];
        *longest = MAX(*longest, chunks[i]);
    }
    if (total != count)
        return error_set(err, ERR_INVALID, "chunks add up to %llu, but there are %zu ids",
                         (unsigned long long)total, count);
    *longest = MIN(*longest, (uint32_t)SCORER_STEP_MAX);
    return 0;
}

int scorer_run(struct scorer *s, const uint32_t *ids, size_t count, const uint32_t *chunks,
               size_t chunk_count, scorer_rows_fn on_rows, void *ctx, struct error *err) {
    uint32_t longest = 0, rows[SCORER_STEP_MAX], at = 0;
    CHECK(s->dev && on_rows && (chunks || !chunk_count));
    int rc = check_run(s, ids, count, chunks, chunk_count, &longest, err);
    if (!rc)
        rc = make_room(s, (uint32_t)count, longest, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < SCORER_STEP_MAX; i++)
        rows[i] = i;
    admit(s, ids, (uint32_t)count);
    for (size_t i = 0; !rc && at < count; i++)
        for (uint32_t left = chunk_count ? chunks[i] : (uint32_t)count; !rc && left;) {
            uint32_t n = MIN(left, (uint32_t)SCORER_STEP_MAX);
            rc = step(s, at, n, rows, on_rows, ctx, err);
            at += n;
            left -= n;
        }
    CHECK(rc || at == count); /* every position was seen, unless on_rows stopped the run */
    slots_remove(&s->slots, s->stream, 0);
    return MIN(rc, 0);
}
