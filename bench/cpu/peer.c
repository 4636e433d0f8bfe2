/*
 * peer - what llama.cpp reaches with a model on this machine's CPU; not part of the build: run.sh
 * compiles it against the peer's own header and libraries.
 *
 *     peer speeds MODEL THREADS LIBRARIES       one line of JSON, as bench_kernels speeds
 *     peer long MODEL THREADS TOKENS LIBRARIES  the same of one long prompt, and steps behind it
 *     peer quantize FROM TO TYPE LIBRARIES      TYPE as in TYPES, by the peer's own quantizer
 *
 * LIBRARIES is the folder with its kernels for each kind of processor, of which it takes the best by
 * itself. Measured as ours: from nothing to a first token, a prompt of 512 at once, then steps in
 * which each of some sequences grows by a token; medians. TRIREME_BENCH_CPU_TIME=1: processor time.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama.h"

enum { PROMPT = 512, STEPS = 5, PROMPT_ROUNDS = 1 };

static const struct {
    const char *name;
    enum llama_ftype type;
} TYPES[] = {{"Q4_0", LLAMA_FTYPE_MOSTLY_Q4_0},       {"Q5_0", LLAMA_FTYPE_MOSTLY_Q5_0},
             {"Q8_0", LLAMA_FTYPE_MOSTLY_Q8_0},       {"Q4_K_M", LLAMA_FTYPE_MOSTLY_Q4_K_M},
             {"Q5_K_M", LLAMA_FTYPE_MOSTLY_Q5_K_M},   {"Q6_K", LLAMA_FTYPE_MOSTLY_Q6_K},
             {"IQ4_XS", LLAMA_FTYPE_MOSTLY_IQ4_XS},   {"IQ4_NL", LLAMA_FTYPE_MOSTLY_IQ4_NL},
             {"MXFP4", LLAMA_FTYPE_MOSTLY_MXFP4_MOE}, {"F16", LLAMA_FTYPE_MOSTLY_F16}};

static void only_errors(enum ggml_log_level level, const char *text, void *ctx) {
    (void)ctx;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int fail(const char *what) {
    fprintf(stderr, "peer: %s\n", what);
    return 1;
}

static double now(void) {
    struct timespec t;
    clock_gettime(getenv("TRIREME_BENCH_CPU_TIME") ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC,
                  &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *seconds, int count) {
    qsort(seconds, (size_t)count, sizeof *seconds, by_size);
    return seconds[count / 2];
}

static struct llama_context *open_context(struct llama_model *model, int threads, int sequences) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)(sequences == 1 ? 2 * PROMPT : 64 * sequences);
    p.n_batch = p.n_ubatch = PROMPT;
    p.n_seq_max = (uint32_t)sequences;
    p.n_threads = p.n_threads_batch = threads;
    return llama_init_from_model(model, p);
}

/* `count` tokens, each of its own sequence, or all of one; the time they take, or -1. A sequence has
 * another token at each step, as one that is sampled has: a mixture would meet the same experts. */
static double step(struct llama_context *c, int count, bool one_sequence, int position) {
    struct llama_batch b = llama_batch_init(count, 0, 1);
    for (int i = 0; i < count; i++) {
        b.token[i] = one_sequence ? (position + i) % 1000 : (31 * position + i) % 1000;
        b.pos[i] = one_sequence ? position + i : position;
        b.n_seq_id[i] = 1;
        b.seq_id[i][0] = one_sequence ? 0 : i;
        b.logits[i] = !one_sequence || i == count - 1;
    }
    b.n_tokens = count;
    double start = now();
    int rc = llama_decode(c, b);
    llama_synchronize(c);
    double seconds = rc ? -1 : now() - start;
    llama_batch_free(b);
    return seconds;
}

/* Tokens a second; -1 when the peer refuses. */
static double decode_speed(struct llama_model *model, int threads, int sequences) {
    struct llama_context *c = open_context(model, threads, sequences);
    double seconds[STEPS];
    bool ok = c && step(c, sequences, false, 0) >= 0;
    for (int i = 0; ok && i < STEPS; i++)
        ok = (seconds[i] = step(c, sequences, false, i + 1)) >= 0;
    llama_free(c);
    return ok ? sequences / median(seconds, STEPS) : -1;
}
static double prefill_speed(struct llama_model *model, int threads) {
    struct llama_context *c = open_context(model, threads, 1);
    double seconds[PROMPT_ROUNDS];
    bool ok = c && step(c, 16, true, 0) >= 0;
    for (int i = 0; ok && i < PROMPT_ROUNDS; i++) {
        llama_memory_clear(llama_get_memory(c), true);
        ok = (seconds[i] = step(c, PROMPT, true, 0)) >= 0;
    }
    llama_free(c);
    return ok ? PROMPT / median(seconds, PROMPT_ROUNDS) : -1;
}

static double first_token(struct llama_model *model, int threads) {
    struct llama_context *c = open_context(model, threads, 1);
    double seconds = c ? step(c, 1, true, 0) : -1;
    llama_free(c);
    return seconds;
}

static int print_speeds(const char *path, int threads) {
    static const int batches[] = {1, 4, 8, 16, 32};
    double start = now();
    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(path, p);
    if (!model || first_token(model, threads) < 0)
        return fail("the model cannot be loaded");
    printf("{\"start\":%.3f", now() - start);
    printf(",\"prefill\":%.3f", prefill_speed(model, threads));
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        printf(",\"batch_%d\":%.3f", batches[i], decode_speed(model, threads, batches[i]));
    printf("}\n");
    llama_model_free(model);
    return 0;
}

/* With flash attention. */
static int print_long(const char *path, int threads, int count) {
    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(path, p);
    if (!model)
        return fail("the model cannot be loaded");
    struct llama_context_params q = llama_context_default_params();
    q.n_ctx = (uint32_t)count + 64;
    q.n_batch = q.n_ubatch = PROMPT;
    q.n_threads = q.n_threads_batch = threads;
    q.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    struct llama_context *c = llama_init_from_model(model, q);
    double seconds[STEPS], total = 0, part = 0;
    bool ok = c && step(c, PROMPT / 4, true, 0) >= 0; /* not counted */
    if (ok)
        llama_memory_clear(llama_get_memory(c), true);
    for (int done = 0; ok && done < count; done += PROMPT, total += part)
        ok = (part = step(c, done + PROMPT < count ? PROMPT : count - done, true, done)) >= 0;
    for (int i = 0; ok && i < STEPS; i++)
        ok = (seconds[i] = step(c, 1, true, count + i)) >= 0;
    if (!ok)
        return fail("the model cannot be run");
    printf("{\"prefill\":%.3f,\"decode\":%.3f}\n", count / total, 1 / median(seconds, STEPS));
    llama_free(c);
    llama_model_free(model);
    return 0;
}

static int quantize(const char *from, const char *to, const char *type) {
    struct llama_model_quantize_params p = llama_model_quantize_default_params();
    size_t i = 0;
    while (i < sizeof TYPES / sizeof *TYPES && strcmp(TYPES[i].name, type))
        i++;
    if (i == sizeof TYPES / sizeof *TYPES)
        return fail("a type that is not known here");
    p.ftype = TYPES[i].type;
    p.allow_requantize = true;
    return llama_model_quantize(from, to, &p) ? fail("cannot quantize") : 0;
}

int main(int argc, char **argv) {
    bool speeds = argc == 5 && !strcmp(argv[1], "speeds"),
         is_long = argc == 6 && !strcmp(argv[1], "long"),
         quantizes = argc == 6 && !strcmp(argv[1], "quantize");
    if (!speeds && !quantizes && !is_long)
        return fail("speeds MODEL THREADS LIBRARIES | long MODEL THREADS TOKENS LIBRARIES | "
                    "quantize FROM TO TYPE LIBRARIES");
    llama_log_set(only_errors, NULL);
    ggml_backend_load_all_from_path(argv[argc - 1]);
    llama_backend_init();
    if (is_long)
        return print_long(argv[2], atoi(argv[3]), atoi(argv[4]));
    return speeds ? print_speeds(argv[2], atoi(argv[3])) : quantize(argv[2], argv[3], argv[4]);
}
