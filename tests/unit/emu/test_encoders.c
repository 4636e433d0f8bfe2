/*
 * Encoders of tests/goldens/embeddings (BERT with pairs' types, XLM-RoBERTa, ModernBERT with its
 * windows, EmbeddingGemma) on the emulated device: the last states of several texts of one step are the
 * CPU's, in f32, f16 and bf16, and have the same bits for a text alone. What becomes of them, pooling, dense layers and scores, is the host's on every device (worker/pooling.h,
 * vector_head.h).
 */
#include "machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Of the size of the states: as in test_goldens, as in test_model. bf16, whose rounding is eight times
 * that of f16, may be off by twice as much beside it: random norms make EmbeddingGemma's states err by
 * 4.5e-2. */
static const double TOLERANCE = 1e-4, TOLERANCE_F16 = 1e-2;
enum { TEXTS = 3, LONGEST = 40 }; /* longer than windows and blocks */
static const uint32_t LENGTHS[TEXTS] = {LONGEST, 1, 23};

/* Text i begins at row_first(i) of the step that has all. */
static uint32_t row_first(uint32_t text) {
    uint32_t row = 0;
    for (uint32_t i = 0; i < text; i++)
        row += LENGTHS[i];
    return row;
}

/* States [rows, hidden] of texts [from, to) in one step. */
static float *states_of(struct machine *m, uint32_t from, uint32_t to) {
    const struct model_spec *spec = &m->model.spec;
    struct step_run runs[TEXTS];
    uint32_t rows[MACHINE_ROWS], first_counts[TEXTS], count = 0;
    for (uint32_t i = from; i < to; i++) {
        uint32_t tokens[LONGEST];
        for (uint32_t t = 0; t < LENGTHS[i]; t++)
            tokens[t] = (t * 37 + i * 11 + 5) % spec->vocab;
        machine_admit(m, i, tokens, LENGTHS[i], (struct slot_state){0});
        runs[i - from] = (struct step_run){i, count, LENGTHS[i]};
        first_counts[i - from] = LENGTHS[i] / 3;
        count += LENGTHS[i];
    }
    for (uint32_t t = 0; t < count; t++)
        rows[t] = t;
    float *out = calloc((size_t)count * spec->hidden, sizeof *out);
    forward_layers(
        &m->forward, m->stream,
        &(struct step_input){.runs = runs,
                             .run_count = to - from,
                             .row_count = count,
                             .first_counts = m->forward.row_types ? first_counts : NULL});
    forward_states(&m->forward, m->stream, rows, count, out);
    machine_wait(m);
    for (uint32_t i = from; i < to; i++)
        slots_remove(&m->slots, m->stream, i);
    return out;
}

static double distance(const float *got, const float *want, size_t count) {
    double error = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += (double)want[i] * want[i];
    }
    return sqrt(error / size);
}

static float *states_on(const char *dir, const char *kind, enum storage_type act, bool alone,
                        size_t *count) {
    struct machine m;
    float *all = NULL;
    if (machine_open(&m, dir, kind, act, act)) {
        const size_t hidden = m.model.spec.hidden;
        *count = row_first(TEXTS) * hidden;
        all = states_of(&m, 0, TEXTS);
        for (uint32_t i = 0; i < TEXTS && alone; i++) {
            float *one = states_of(&m, i, i + 1);
            if (memcmp(one, all + row_first(i) * hidden, LENGTHS[i] * hidden * sizeof *one))
                check_fail(__FILE__, __LINE__, "%s, %s: text %u alone has other bits", dir,
                           storage_name(act), i);
            free(one);
        }
    }
    machine_close(&m);
    return all;
}

static void check_encoder(const char *name) {
    char dir[512];
    size_t count = 0;
    snprintf(dir, sizeof dir, TRIREME_SOURCE_DIR "/tests/goldens/embeddings/%s", name);
    float *want = states_on(dir, "cpu", STORAGE_F32, false, &count),
          *plain = states_on(dir, "cuda", STORAGE_F32, false, &count),
          *f16 = states_on(dir, "cuda", STORAGE_F16, false, &count),
          *bf16 = states_on(dir, "cuda", STORAGE_BF16, true, &count);
    if (want && plain && f16 && bf16) {
        const double error = distance(plain, want, count), error_f16 = distance(f16, want, count),
                     error_bf16 = distance(bf16, want, count);
        if (!(error <= TOLERANCE && error_f16 <= TOLERANCE_F16 && error_bf16 <= 16 * error_f16))
            check_fail(__FILE__, __LINE__, "%s: off by %.3g in f32, %.3g in f16, %.3g in bf16",
                       name, error, error_f16, error_bf16);
    }
    free(want);
    free(plain);
    free(f16);
    free(bf16);
}

TEST(encoders_have_the_states_of_the_cpu) {
    static const char *const NAMES[] = {"bert-rank", "xlm-roberta-cls", "modernbert-rank",
                                        "gemma-dense"};
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        check_encoder(NAMES[i]);
}
