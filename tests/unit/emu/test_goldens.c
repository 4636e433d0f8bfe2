/*
 * The goldens of tests/goldens/models on the emulated device, in f32: logits of one prefill and of mixed chunks within
 * the tolerance of the CPU's test. Short: a few kinds of layer. LONG=1: all. TRIREME_GOLDEN=NAME: one.
 */
#include <dirent.h>

#include "model/golden.h"

static const double TOLERANCE = 1e-4;
enum { CONTEXT = 256, BLOCK = 16, ROWS = 96, SLOTS = 2 };

struct machine {
    struct device *dev;
    struct stream *stream;
    struct event *event;
    struct model model;
    struct slots slots;
    struct forward forward;
};

static bool machine_open(struct machine *m, const char *dir, struct error *err) {
    struct kv_geometry geometry;
    struct device_options options = {.kind = "cuda", .activation = STORAGE_F32};
    struct model_options model = {.dir = dir};
    *m = (struct machine){0};
    if (device_open(&options, &m->dev, err)) return false;
    m->stream = stream_new(m->dev);
    m->event = event_new(m->dev);
    return !model_open(&m->model, &model, m->dev, m->stream, err) &&
           !kv_geometry_of(&geometry, &m->model, STORAGE_F32, BLOCK, err) &&
           !slots_init(&m->slots, &m->model, &geometry, SLOTS, CONTEXT, SLOTS * CONTEXT / BLOCK, err) &&
           !forward_init(&m->forward, &m->model, &m->slots, ROWS, SLOTS, err);
}
static void machine_close(struct machine *m) {
    if (m->forward.model) forward_release(&m->forward);
    if (m->slots.dev) slots_release(&m->slots);
    if (m->model.dev) model_close(&m->model);
    if (m->event) event_free(&m->event);
    stream_free(&m->stream);
    device_close(&m->dev);
}

/* All positions' logits, [count, vocab], computed in chunks; every other chunk as output class. */
static float *logits_of(struct machine *m, uint32_t slot, const uint32_t *tokens, uint32_t count, uint32_t chunk) {
    uint32_t blocks[CONTEXT / BLOCK], rows[ROWS], vocab = m->model.spec.vocab;
    float *out = calloc((size_t)count * vocab, sizeof *out);
    for (uint32_t i = 0; i < CONTEXT / BLOCK; i++) blocks[i] = i * SLOTS + slot;
    for (uint32_t i = 0; i < ROWS; i++) rows[i] = i;
    struct slot_state state = {
        .token_count = count, .max_total = CONTEXT, .top_p = 1, .repetition_penalty = 1, .logprobs = -1};
    struct slot_admission a = {.state = &state, .tokens = tokens, .blocks = blocks, .block_count = CONTEXT / BLOCK};
    slots_admit(&m->slots, m->stream, slot, &a);
    for (uint32_t at = 0, n, k = 0; at < count; at += n, k++) {
        n = MIN(chunk, count - at);
        struct step_run run = {slot, 0, n};
        struct step_input in = {&run, 1, n, k % 2 ? n : 0, rows, n};
        forward_layers(&m->forward, m->stream, &in);
        for (uint32_t first = 0; first < n; first += HEAD_ROWS) {
            uint32_t part = MIN(n - first, (uint32_t)HEAD_ROWS);
            forward_logits(&m->forward, m->stream, first, part);
            stream_copy_out(m->stream, out + (size_t)(at + first) * vocab, m->forward.logits,
                            (size_t)part * vocab * sizeof *out);
            event_record(m->event, m->stream);
            if (event_wait(m->event)) check_fail(__FILE__, __LINE__, "the emulated device failed");
        }
    }
    slots_remove(&m->slots, m->stream, slot);
    return out;
}

static void check_golden(const char *name) {
    struct model_golden g;
    struct machine m;
    struct error err = {0};
    char path[256], dir[] = "/tmp/trireme-emugold-XXXXXX";
    static const uint32_t chunks[] = {ROWS, 37};
    snprintf(path, sizeof path, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", name);
    if (!mkdtemp(dir) || !model_golden_read(&g, path) || !golden_put_model(&g, dir, STORAGE_F32)) {
        check_fail(__FILE__, __LINE__, "%s cannot be read or written", name);
        return;
    }
    if (!machine_open(&m, dir, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
    } else {
        for (uint32_t c = 0; c < ARRAY_LEN(chunks); c++) {
            float *logits = logits_of(&m, c, g.tokens, g.token_count, chunks[c]);
            double error = golden_error(logits, g.logits, g.rows, g.row_count, g.vocab);
            if (!(error <= TOLERANCE))
                check_fail(__FILE__, __LINE__, "%s, chunks of %u: relative error %.3g", name, chunks[c], error);
            free(logits);
        }
    }
    machine_close(&m);
    golden_drop_dir(dir);
    model_golden_free(&g);
}

TEST(goldens_hold_on_the_emulated_device) {
    static const char *const FEW[] = {"llama3", "mixtral", "gpt_oss", "deepseek_v3"};
    const char *set = getenv("LONG"), *only = getenv("TRIREME_GOLDEN");
    if (only) {
        check_golden(only);
        return;
    }
    DIR *d = set && *set == '1' ? opendir(TRIREME_SOURCE_DIR "/tests/goldens/models") : NULL;
    struct dirent *e;
    for (size_t i = 0; !d && i < ARRAY_LEN(FEW); i++) check_golden(FEW[i]);
    while (d && (e = readdir(d))) {
        char name[200];
        size_t stem = strcspn(e->d_name, ".");
        if (strcmp(e->d_name + stem, ".json")) continue;
        snprintf(name, sizeof name, "%.*s", (int)stem, e->d_name);
        check_golden(name);
    }
    if (d) closedir(d);
}
