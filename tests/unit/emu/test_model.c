/* The bundled model on the emulated device against the CPU, teacher-forced; its bits against
 * chunking and graphs. */
#include "machine.h"
#include "rig.h"

static const char DEMO[] = TRIREME_SOURCE_DIR "/demo/model";

enum { PROMPT = 12, TOTAL = 72 };

/* The id of the rank-th best. */
static uint32_t best_but(const float *x, uint32_t count, uint32_t rank) {
    float *left = calloc(count, 4);
    memcpy(left, x, count * 4);
    for (; rank; rank--)
        left[machine_argmax(left, count)] = -INFINITY;
    uint32_t id = machine_argmax(left, count);
    free(left);
    return id;
}

enum { BEGIN = 3066, END = 3067 };

/* A text of the model's own: the rank-th best token after its beginning, then greedily on the CPU
 * until it ends or has *total tokens; and the logits of all its positions there. (Of random tokens
 * the model expects nothing: its logits are flat, and which is the largest says nothing.) */
static float *teacher(struct machine *cpu, uint32_t slot, uint32_t rank, uint32_t *tokens,
                      uint32_t *total) {
    uint32_t vocab = cpu->model.spec.vocab, have = 1;
    float *logits = calloc((size_t)*total * vocab, 4);
    tokens[0] = BEGIN;
    for (;; have++) {
        machine_admit(cpu, slot, tokens, have,
                      /* anew: the cache is written again, which costs little here */
                      (struct slot_state){0});
        if (!machine_step(cpu, slot, have, false, logits) || have == *total)
            break;
        const float *last = logits + (size_t)(have - 1) * vocab;
        tokens[have] = have == 1 ? best_but(last, vocab, rank) : machine_argmax(last, vocab);
        if (tokens[have] == END)
            break;
    }
    *total = have;
    return logits;
}

static void compare(enum storage_type act, double bound) {
    struct machine cpu, gpu;
    uint32_t tokens[TOTAL], same = 0, all = 0;
    double difference = 0, size = 0;
    if (!machine_open(&cpu, DEMO, "cpu", STORAGE_NONE, STORAGE_F32))
        return;
    if (!machine_open(&gpu, DEMO, "cuda", act, act))
        return;
    uint32_t vocab = cpu.model.spec.vocab;
    for (uint32_t slot = 0; slot < (is_long() ? 4u : act == STORAGE_F32 ? 1u : 2u); slot++) {
        uint32_t total = is_long() ? TOTAL : act == STORAGE_F32 ? 24 : 64;
        float *want = teacher(&cpu, slot, slot * 3, tokens, &total),
              *got = calloc((size_t)total * vocab, 4);
        machine_admit(&gpu, slot, tokens, total, (struct slot_state){0});
        EXPECT(machine_step(&gpu, slot, MIN((uint32_t)PROMPT, total), false, got));
        for (uint32_t at = PROMPT; at < total; at += 10)
            EXPECT(machine_step(&gpu, slot, MIN(10u, total - at), true, got + (size_t)at * vocab));
        for (size_t i = 0; i < (size_t)total * vocab; i++) {
            difference += pow((double)got[i] - want[i], 2);
            size += pow(want[i], 2);
        }
        for (uint32_t t = 0; t < total; t++, all++)
            same += machine_argmax(got + (size_t)t * vocab, vocab) ==
                    machine_argmax(want + (size_t)t * vocab, vocab);
        free(want);
        free(got);
    }
    double relative = sqrt(difference / size);
    if (!(relative <= bound) || same * 100 < all * 99)
        check_fail(__FILE__, __LINE__,
                   "%s: logits differ by %g of their size, argmax equal in %u of %u",
                   storage_name(act), relative, same, all);
    fprintf(stderr, "%s: logits differ by %g, argmax equal in %u of %u\n", storage_name(act),
            relative, same, all);
    machine_close(&cpu);
    machine_close(&gpu);
}

TEST(the_bundled_model_in_f32_has_the_cpus_logits) {
    compare(STORAGE_F32, 1e-4);
}
TEST(the_bundled_model_in_f16_has_the_cpus_logits) {
    if (is_long())
        compare(STORAGE_F16, 1e-2); /* its weights are bf16: plain products, slow here */
}
TEST(the_bundled_model_in_bf16_has_the_cpus_logits) {
    compare(STORAGE_BF16, 1e-2);
}

/* ---- activations in fp8 ---- */

/* How tests/goldens/quant/story.txt begins. */
enum { STORY = 64 };
static const uint32_t story[STORY] = {
    3066, 780, 1342, 258,  479,  11,   329, 258,  1384, 1497, 11,   373,  406, 258,  2316, 13,
    833,  503, 287,  1079, 11,   277,  345, 287,  509,  13,   430,  672,  344, 1079, 511,  333,
    893,  13,  723,  287,  258,  1287, 897, 1689, 25,   258,  972,  2877, 13,  278,  587,  439,
    355,  337, 415,  345,  1187, 13,   443, 1686, 490,  409,  1288, 11,   261, 2025, 13,   278};

/* Logits of the story with weights in fp8, all at once. NULL: no such device. */
static float *story_logits(const char *kind, const char *compute, bool output_class) {
    struct machine m;
    if (!machine_open_as(&m, DEMO, kind, strcmp(kind, "cpu") ? STORAGE_BF16 : STORAGE_NONE,
                         strcmp(kind, "cpu") ? STORAGE_BF16 : STORAGE_F32, STORAGE_F8_E4M3,
                         compute))
        return NULL;
    float *logits = calloc((size_t)STORY * m.model.spec.vocab, sizeof *logits);
    machine_admit(&m, 0, story, STORY, (struct slot_state){0});
    if (!machine_step(&m, 0, STORY, output_class, logits))
        check_fail(__FILE__, __LINE__, "no step");
    machine_close(&m);
    return logits;
}

static double log_of_sum(const float *logits, uint32_t count) {
    double most = logits[machine_argmax(logits, count)], sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += exp(logits[i] - most);
    return most + log(sum);
}

/* Of the predictions q from p, the mean over the story's positions. */
static double mean_kl(const float *p, const float *q, uint32_t vocab) {
    double all = 0;
    for (uint32_t t = 0; t < STORY; t++, p += vocab, q += vocab) {
        double p_sum = log_of_sum(p, vocab), q_sum = log_of_sum(q, vocab);
        for (uint32_t i = 0; i < vocab; i++)
            all += exp(p[i] - p_sum) * (p[i] - p_sum - q[i] + q_sum);
    }
    return all / STORY;
}

/* By numpy (tests/tools/fp8_activations.py, these 64 tokens): activations rounded to fp8 are 9.0e-5 from
 * those that are not, with the same weights; rounded to bf16 first, so that some fall to the other side,
 * 1.1e-4; bf16 alone 4.5e-7. So half of the first and twice the second: other roundings of the same
 * kind, and neither none nor two. */
static const double KL_LEAST = 4.5e-5, KL_MOST = 2.2e-4;

TEST(activations_in_fp8_cost_the_bundled_model_what_they_cost_in_numpy) {
    const uint32_t vocab = 3072;
    struct device *dev;
    struct error err;
    struct device_options options = {.kind = "cuda", .activation = STORAGE_BF16, .compute = "fp8"};
    if (device_open(&options, &dev, &err))
        SKIP("gpu", "it computes nothing in fp8");
    device_close(&dev);
    float *want = story_logits("cpu", "f32", false), *plain = story_logits("cuda", NULL, true),
          *prompt = story_logits("cuda", "fp8", false), *output = story_logits("cuda", "fp8", true),
          *only_prompt = story_logits("cuda", "fp8-prompts", false),
          *only_output = story_logits("cuda", "fp8-prompts", true);
    EXPECT(want && plain && prompt && output && only_prompt && only_output);
    const double costs[] = {mean_kl(want, plain, vocab), mean_kl(want, prompt, vocab),
                            mean_kl(want, output, vocab)};
    fprintf(stderr, "KL from the CPU's: not rounded %.2g, prompt %.2g, output %.2g\n", costs[0],
            costs[1], costs[2]);
    EXPECT(costs[0] < KL_LEAST / 4);
    EXPECT(costs[1] > KL_LEAST && costs[1] < KL_MOST);
    EXPECT(costs[2] > KL_LEAST && costs[2] < KL_MOST);
    EXPECT(same_bits(only_prompt, prompt, (size_t)STORY * vocab));
    EXPECT(same_bits(only_output, plain, (size_t)STORY * vocab));
    free(want);
    free(plain);
    free(prompt);
    free(output);
    free(only_prompt);
    free(only_output);
}

/* Prompt positions in chunks of any size, output positions one by one or many at once: the same
 * logits, bit by bit. */
TEST(chunks_do_not_change_a_bit) {
    static const uint32_t chunks[][2] = {{40, 16}, {13, 5}, {39, 1}};
    struct machine gpu;
    uint32_t tokens[TOTAL];
    for (uint32_t i = 0; i < TOTAL; i++)
        tokens[i] = (uint32_t)(check_random() % 3000);
    if (!machine_open(&gpu, DEMO, "cuda", STORAGE_BF16, STORAGE_BF16))
        return;
    uint32_t vocab = gpu.model.spec.vocab, prompt = 40, total = is_long() ? TOTAL : 48;
    float *first = calloc((size_t)TOTAL * vocab, 4), *again = calloc((size_t)TOTAL * vocab, 4);
    for (uint32_t c = 0; c < ARRAY_LEN(chunks); c++) {
        float *logits = c ? again : first;
        emu_set_order((int)c, c + 1);
        machine_admit(&gpu, c, tokens, total, (struct slot_state){0});
        for (uint32_t at = 0; at < prompt; at += chunks[c][0])
            EXPECT(machine_step(&gpu, c, MIN(chunks[c][0], prompt - at), false,
                                logits + (size_t)at * vocab));
        for (uint32_t at = prompt; at < total; at += chunks[c][1])
            EXPECT(machine_step(&gpu, c, MIN(chunks[c][1], total - at), true,
                                logits + (size_t)at * vocab));
        EXPECT(!c || same_bits(first, again, (size_t)total * vocab));
    }
    emu_set_order(0, 1);
    free(first);
    free(again);
    machine_close(&gpu);
}

void emu_set_blas_choice(int choice);

/* dev->isa of a device that multiplies prompt rows by cuBLASLt, after a rehearsal, and after a step
 * too where step is true. False: no such device. */
static bool isa_after(int choice, bool step, struct device *told) {
    static float logits[16 * 65536];
    static const uint32_t tokens[16] = {1, 2, 3};
    struct machine m;
    struct error err;
    struct device *dev;
    struct device_options options = {
        .kind = "cuda", .activation = STORAGE_BF16, .gemm = "cublaslt"};
    if (device_open(&options, &dev, &err))
        return false;
    device_close(&dev);
    setenv("TRIREME_GEMM", "cublaslt", 1);
    emu_set_blas_choice(choice);
    bool done = machine_open(&m, DEMO, "cuda", STORAGE_BF16, STORAGE_BF16);
    if (done) {
        forward_rehearse(&m.forward, m.stream);
        machine_admit(&m, 0, tokens, 16, (struct slot_state){0});
        done = m.model.spec.vocab <= 65536 && (!step || machine_step(&m, 0, 16, false, logits));
        *told = *m.dev;
        machine_close(&m);
    }
    unsetenv("TRIREME_GEMM");
    emu_set_blas_choice(0);
    return done;
}

/* The library chooses by more than its version: the GPU, its clocks, settings. Bits follow the
 * choice, so the fingerprint has it, and has it before the first step. */
TEST(algorithms_that_cublaslt_chose_are_part_of_what_tells_bits) {
    struct device first, again, other;
    if (!isa_after(0, false, &first))
        SKIP("gpu", "no cuBLASLt here");
    EXPECT(isa_after(0, true, &again) && isa_after(1, false, &other));
    EXPECT_STR(first.isa, again.isa);
    if (first.kind == DEVICE_EMULATED)
        EXPECT(strcmp(first.isa, other.isa) != 0);
    EXPECT(strchr(first.isa, '-') && strlen(first.isa) + 1 < sizeof first.isa);
}
