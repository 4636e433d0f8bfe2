/*
 * Every golden of tests/goldens/models against what transformers computes in float32: logits of one
 * prefill, of single tokens, of mixed chunks (bitwise equal among each other), the greedy
 * continuation, weights in bf16, and a mutation of each option the golden uses.
 *
 * Tolerances of ||difference|| / ||reference||: 1e-4 in f32 (rounding through a few layers), 1e-2
 * with bf16 weights and an f16 cache. A mutated model must miss by more than ten times the first.
 *
 * TRIREME_GOLDEN=NAME runs one golden.
 */
#include "golden.h"
#include "mutations.h"
#include "routing.h"

static const double TOLERANCE = 1e-4, TOLERANCE_BF16 = 1e-2;

static bool open_rig(struct rig *r, const struct model_golden *g, const char *dir, const char *isa,
                     enum storage_type kv) {
    struct error err = {0};
    rig_slots = 4;
    rig_context = 256;
    if (rig_open(r, dir, isa, 1, kv, 16, &err))
        return true;
    check_fail(__FILE__, __LINE__, "%s: %s", g->name, err.text);
    rig_close(r);
    return false;
}

static void check_chunks(struct rig *r, const struct model_golden *g, const float *whole) {
    static const uint32_t chunks[] = {1, 0, 7};
    for (uint32_t c = 0; c < ARRAY_LEN(chunks); c++) {
        float *cut = golden_logits(r, g->tokens, g->token_count, c, chunks[c]);
        if (memcmp(cut, whole, (size_t)g->token_count * g->vocab * sizeof *cut))
            check_fail(__FILE__, __LINE__, "%s: chunks of %u give other bits", g->name, chunks[c]);
        free(cut);
    }
}

static void check_greedy(struct rig *r, const struct model_golden *g) {
    uint32_t slot = 2, sampled;
    rig_admit(r, slot, g->tokens, g->token_count,
              (struct slot_state){.prompt_count = g->token_count});
    for (uint32_t i = 0; i < g->greedy_count; i++) {
        while (rig_step(r, &slot, 1, 16, &sampled) == 0)
            continue;
        rig_sample(r, &sampled, 1);
        if (r->out.tokens[0] == g->tokens[g->token_count + i])
            continue;
        check_fail(__FILE__, __LINE__, "%s: greedy token %u is %u, not %u", g->name, i,
                   r->out.tokens[0], g->tokens[g->token_count + i]);
        break;
    }
    slots_remove(&r->slots, r->stream, slot);
}

static double error_of(struct rig *r, const struct model_golden *g) {
    float *logits = golden_logits(r, g->tokens, g->token_count, 3, RIG_ROWS);
    double error = golden_error(logits, g->logits, g->rows, g->row_count, g->vocab);
    free(logits);
    return error;
}

/* On the instruction set `isa`; everything where `whole`, else one prefill. */
static void check_f32(const struct model_golden *g, const char *dir, const char *isa, bool all) {
    struct rig r;
    if (!open_rig(&r, g, dir, isa, STORAGE_F32))
        return;
    float *whole = golden_logits(&r, g->tokens, g->token_count, 3, RIG_ROWS);
    double error = golden_error(whole, g->logits, g->rows, g->row_count, g->vocab);
    if (!(error <= TOLERANCE))
        check_fail(__FILE__, __LINE__, "%s, %s: relative error %.3g", g->name, isa, error);
    if (all)
        check_chunks(&r, g, whole);
    if (all && error <= TOLERANCE)
        check_greedy(&r, g);
    free(whole);
    rig_close(&r);
}

/* Keeps the golden's bf16 rows up to the first position that the two runs sent to different
 * experts: what comes behind sees its keys and values. */
static uint32_t rows_routed_alike(struct model_golden *g, const struct routing *a,
                                  const struct routing *b) {
    uint32_t kept = 0, alike = 0, first = g->token_count;
    for (uint32_t t = g->token_count; t-- > 0;) {
        alike += a->rows[t] == b->rows[t];
        if (a->rows[t] != b->rows[t])
            first = t;
    }
    while (kept < g->bf16_row_count && g->bf16_rows[kept] < first)
        kept++;
    if (alike * 100 < g->token_count * 95 || kept * 2 < g->bf16_row_count)
        check_fail(__FILE__, __LINE__,
                   "%s: %u of %u positions go to the same experts, the first %u do", g->name, alike,
                   g->token_count, first);
    return kept;
}

/* Mixtures: with the cache in f32 the routing is the reference's; an f16 cache may send a position
 * elsewhere. */
static void check_bf16(struct model_golden *g, const char *dir) {
    struct rig r, exact;
    struct routing routed, wanted;
    if (!golden_put_model(g, dir, STORAGE_BF16) || !open_rig(&r, g, dir, NULL, STORAGE_NONE))
        return;
    if (!open_rig(&exact, g, dir, NULL, STORAGE_F32))
        return;
    routing_note(&routed, &r);
    routing_note(&wanted, &exact);
    float *logits = golden_logits(&r, g->tokens, g->token_count, 3, 16);
    free(golden_logits(&exact, g->tokens, g->token_count, 3, 16));
    g->bf16_row_count = rows_routed_alike(g, &routed, &wanted);
    rig_close(&exact);
    double error = golden_error(logits, g->bf16_logits, g->bf16_rows, g->bf16_row_count, g->vocab);
    if (!(error <= TOLERANCE_BF16))
        check_fail(__FILE__, __LINE__, "%s, bf16 weights: relative error %.3g", g->name, error);
    free(logits);
    rig_close(&r);
}

/* All of them in the release; where memory is watched, which says nothing about them, a fifth. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { MUTATION_STRIDE = 5 };
#else
enum { MUTATION_STRIDE = 1 };
#endif

static void check_mutations(const struct model_golden *g, const char *dir) {
    uint32_t applied = 0;
    for (size_t i = strlen(g->name) % MUTATION_STRIDE; i < ARRAY_LEN(MUTATIONS);
         i += MUTATION_STRIDE) {
        struct rig r;
        if (!open_rig(&r, g, dir, NULL, STORAGE_F32))
            return;
        if (MUTATIONS[i].apply(&r.model)) {
            double error = error_of(&r, g);
            applied++;
            if (error <= 10 * TOLERANCE)
                check_fail(__FILE__, __LINE__, "%s does not notice '%s': relative error %.3g",
                           g->name, MUTATIONS[i].name, error);
        }
        rig_close(&r);
    }
    if (MUTATION_STRIDE == 1 && applied < 3)
        check_fail(__FILE__, __LINE__, "%s: only %u mutations apply", g->name, applied);
}

typedef void (*golden_check)(struct model_golden *g, const char *dir);

/* Calls check for each golden with a folder that has its model in f32; the count. */
static int each_golden(golden_check check) {
    static const char folder[] = TRIREME_SOURCE_DIR "/tests/goldens/models";
    const char *only = getenv("TRIREME_GOLDEN");
    DIR *d = opendir(folder);
    struct dirent *e;
    int count = 0;
    while (d && (e = readdir(d))) {
        size_t stem = strcspn(e->d_name, ".");
        if (!strstr(e->d_name, ".json") ||
            (only && (strlen(only) != stem || strncmp(only, e->d_name, stem))))
            continue;
        struct model_golden g;
        char *path = path_join(folder, e->d_name), dir[] = "/tmp/trireme-family-XXXXXX";
        if (!mkdtemp(dir))
            abort();
        if (model_golden_read(&g, path) && golden_put_model(&g, dir, STORAGE_F32))
            check(&g, dir);
        else
            check_fail(__FILE__, __LINE__, "%s cannot be read or written", e->d_name);
        golden_drop_dir(dir);
        model_golden_free(&g);
        mem_free(path);
        count++;
    }
    if (d)
        closedir(d);
    return count;
}

static void logits_of(struct model_golden *g, const char *dir) {
    check_f32(g, dir, NULL, true);
    check_f32(g, dir, "scalar", false);
    check_f32(g, dir, "ref", false);
}

TEST(logits_and_greedy_tokens_equal_the_reference) {
    EXPECT(each_golden(logits_of) > 0);
}
TEST(bf16_weights_stay_near_the_reference) {
    EXPECT(each_golden(check_bf16) > 0);
}
static void mutations_of(struct model_golden *g, const char *dir) {
    check_mutations(g, dir);
}
TEST(a_wrong_option_is_noticed) {
    EXPECT(each_golden(mutations_of) > 0);
}
