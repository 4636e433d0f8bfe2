/*
 * Tiny random Llamas of real head sizes (tests/goldens/models/head*.json) in bf16: on the device
 * against the CPU, teacher-forced over the prompt and its continuation, and against the logits
 * transformers gives.
 *
 * ||difference|| / ||reference|| <= 1e-2, and the largest logit is the same one in 99 % of all
 * positions. LONG=1: beside the goldens' own weights those of four other seeds are compared with
 * the CPU.
 */
#include "machine.h"
#include "model/golden.h"

struct tally {
    uint32_t same, all, models;
};

static float *logits_on(const char *kind, const char *dir, const struct model_golden *g,
                        uint32_t prompt) {
    enum storage_type act = strcmp(kind, "cpu") ? STORAGE_BF16 : STORAGE_NONE;
    struct machine m;
    uint32_t total = g->token_count + g->greedy_count;
    float *out = calloc((size_t)total * g->vocab, sizeof *out);
    if (machine_open(&m, dir, kind, act, act ? act : STORAGE_F32)) {
        machine_admit(&m, 1, g->tokens, total, (struct slot_state){.prompt_count = prompt});
        bool ok = machine_step(&m, 1, prompt, false, out);
        for (uint32_t at = prompt; ok && at < total; at += 8)
            ok = machine_step(&m, 1, MIN(8u, total - at), true, out + (size_t)at * g->vocab);
    }
    machine_close(&m);
    return out;
}

static double relative(const float *got, const float *want, size_t count) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)got[i] - want[i], 2);
        size += pow(want[i], 2);
    }
    return sqrt(difference / size);
}

/* seed 0: the golden's own, and its logits are compared too. */
static void check_model(const char *path, uint64_t seed, struct tally *tally) {
    struct model_golden g;
    char dir[] = "/tmp/trireme-golden-XXXXXX";
    bool read = mkdtemp(dir) && model_golden_read(&g, path);
    if (read && seed)
        g.seed = seed;
    if (!read || !golden_put_model(&g, dir, STORAGE_BF16)) {
        check_fail(__FILE__, __LINE__, "%s cannot be read or written", path);
        return;
    }
    uint32_t total = g.token_count + g.greedy_count;
    float *want = logits_on("cpu", dir, &g, g.token_count),
          *got = logits_on("cuda", dir, &g, g.token_count);
    double to_cpu = relative(got, want, (size_t)total * g.vocab),
           to_golden =
               seed ? 0 : golden_error(got, g.bf16_logits, g.bf16_rows, g.bf16_row_count, g.vocab);
    uint32_t same = 0;
    for (uint32_t t = 0; t < total; t++)
        same += machine_argmax(got + (size_t)t * g.vocab, g.vocab) ==
                machine_argmax(want + (size_t)t * g.vocab, g.vocab);
    fprintf(stderr,
            "%s: differs by %.3g from the CPU, by %.3g from the golden; argmax equal in %u of %u\n",
            g.name, to_cpu, to_golden, same, total);
    if (!(to_cpu <= 1e-2 && to_golden <= 1e-2))
        check_fail(__FILE__, __LINE__, "%s: differs by %.3g from the CPU, by %.3g from the golden",
                   g.name, to_cpu, to_golden);
    *tally = (struct tally){tally->same + same, tally->all + total, tally->models + 1};
    free(want);
    free(got);
    golden_drop_dir(dir);
    model_golden_free(&g);
}

static void check_models(uint64_t seed) {
    static const char folder[] = TRIREME_SOURCE_DIR "/tests/goldens/models";
    struct tally tally = {0};
    struct dirent *e;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "head", 4) || !strstr(e->d_name, ".json"))
            continue;
        char *path = path_join(folder, e->d_name);
        check_model(path, seed, &tally);
        mem_free(path);
    }
    if (d)
        closedir(d);
    EXPECT(tally.models >= 8);
    if (tally.same * 100 < tally.all * 99)
        check_fail(__FILE__, __LINE__, "argmax equal in only %u of %u positions", tally.same,
                   tally.all);
}

TEST(llamas_of_every_head_size_have_the_logits_of_the_cpu_and_of_the_reference) {
    check_models(0);
}

TEST(other_weights_give_the_logits_of_the_cpu) {
    const char *set = getenv("LONG");
    for (uint64_t seed = 2; set && *set == '1' && seed < 6; seed++)
        check_models(seed);
}
