/*
 * Greedy tokens of real tiny models equal an independent reference (numpy, float64), for every
 * instruction set, chunk size and batch; and logits are bitwise equal however a sequence is cut or
 * batched.
 */
#include "rig.h"

struct kind {
    const char *dir, *golden;
};
static const struct kind SHARED[] = {
    {"weights/tinystories-656k", "weights/tinystories-656k/golden_greedy.json"},
    {"weights/stories260k-hf-derived", "weights/stories260k/golden_greedy.json"}};

/* All cases at once (`copies` times each), chunked; every one must give its golden tokens, the
 * first `limit` of them. */
static bool greedy_equal(struct rig *r, const struct golden *g, uint32_t copies, uint32_t chunk,
                         uint32_t limit) {
    uint32_t list[RIG_SLOTS], sampled[RIG_SLOTS], made[RIG_SLOTS] = {0}, n = 0;
    for (uint32_t k = 0; k < copies; k++)
        for (size_t i = 0; i < g->cases.count && n < RIG_SLOTS; i++, n++) {
            list[n] = n;
            rig_admit(r, n, g->cases.items[i].prompt.items,
                      (uint32_t)g->cases.items[i].prompt.count, (struct slot_state){0});
        }
    bool equal = true;
    for (uint32_t left = n; left && equal;) {
        uint32_t samples = rig_step(r, list, left, chunk, sampled);
        rig_sample(r, sampled, samples);
        for (uint32_t i = 0; i < samples; i++) {
            const struct golden_case *c = &g->cases.items[sampled[i] % g->cases.count];
            equal = equal && r->out.status[i] == SAMPLE_TOKEN &&
                    r->out.tokens[i] == c->greedy.items[made[sampled[i]]];
            made[sampled[i]]++;
        }
        uint32_t keep = 0;
        for (uint32_t i = 0; i < left; i++)
            if (made[list[i]] < MIN(limit, g->cases.items[list[i] % g->cases.count].greedy.count))
                list[keep++] = list[i];
        left = keep;
    }
    for (uint32_t i = 0; i < n; i++)
        slots_remove(&r->slots, r->stream, i);
    return equal;
}

static void check_goldens(const char *isa, int threads, const char *dir, const char *golden_path) {
    static const uint32_t chunks[] = {512, 7, 16, 1};
    struct rig r;
    struct error err = {0};
    struct golden g = {0};
    if (!rig_open(&r, dir, isa, threads, STORAGE_NONE, 32, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", isa, err.text);
    else if (!golden_read(&g, golden_path))
        check_fail(__FILE__, __LINE__, "cannot read %s", golden_path);
    else
        for (size_t i = 0; i < ARRAY_LEN(chunks); i++) {
            /* In full for one chunk size; sixteen-fold for the next two; the beginning for the
             * others. */
            uint32_t copies = i == 1 || i == 2 ? 16 : 1, limit = i == 0 ? UINT32_MAX : 24;
            if (!greedy_equal(&r, &g, copies, chunks[i], limit))
                check_fail(__FILE__, __LINE__,
                           "%s, %s: chunk %u, %u copies: other tokens than the golden", dir, isa,
                           chunks[i], copies);
        }
    golden_free(&g);
    rig_close(&r);
}

static void check_all_isas(const char *dir, const char *golden_path) {
    const char *isas[CPU_ISAS_MAX];
    size_t n = device_cpu_isas(isas);
    for (size_t i = 0; i < n; i++)
        check_goldens(isas[i], 2, dir, golden_path);
}

TEST(greedy_tokens_equal_the_reference_for_each_isa_chunk_and_batch) {
    for (size_t i = 0; i < ARRAY_LEN(SHARED); i++) {
        const char *found = check_shared(SHARED[i].dir);
        if (!found)
            SKIP("shared", "weights/ of the test data");
        char dir[512], golden[512];
        snprintf(dir, sizeof dir, "%s", found);
        snprintf(golden, sizeof golden, "%s", check_shared(SHARED[i].golden));
        check_all_isas(dir, golden);
    }
}

TEST(reference_operations_give_the_golden_tokens) {
    const char *found = check_shared(SHARED[1].dir);
    if (!found)
        SKIP("shared", "weights/ of the test data");
    char dir[512];
    struct rig r;
    struct error err = {0};
    struct golden g = {0};
    snprintf(dir, sizeof dir, "%s", found);
    EXPECT(rig_open(&r, dir, "ref", 1, STORAGE_NONE, 32, &err));
    EXPECT(golden_read(&g, check_shared(SHARED[1].golden)));
    EXPECT(greedy_equal(&r, &g, 1, 16, 24));
    golden_free(&g);
    rig_close(&r);
}

/* ---- the bundled model ---- */

/* A step is decided when the reference's margin exceeds what the cache's rounding may move a logit
 * by; the first that is not ends the comparison. */
static uint32_t decided(const struct golden_case *c, float margin) {
    uint32_t n = 0;
    while (n < c->greedy.count && n < c->margins.count && c->margins.items[n] > margin)
        n++;
    return n;
}

static void check_bundled(const char *isa, enum storage_type kv, float margin) {
    static const char dir[] = TRIREME_SOURCE_DIR "/demo/model",
                      path[] = TRIREME_SOURCE_DIR "/demo/golden/golden.json";
    struct rig r;
    struct error err = {0};
    struct golden g = {0};
    uint32_t compared = 0;
    if (!rig_open(&r, dir, isa, 2, kv, 32, &err))
        check_fail(__FILE__, __LINE__, "%s: %s", isa, err.text);
    else if (!golden_read(&g, path))
        check_fail(__FILE__, __LINE__, "cannot read %s", path);
    for (size_t i = 0; i < g.cases.count; i++) {
        struct golden one = {0};
        vec_push(&one.cases, g.cases.items[i]);
        uint32_t limit = decided(&g.cases.items[i], margin);
        compared += limit;
        if (limit && !greedy_equal(&r, &one, 1, 16, limit))
            check_fail(__FILE__, __LINE__, "%s, cache %s: case %zu: other tokens than the golden",
                       isa, storage_name(kv), i);
        vec_release(&one.cases);
    }
    if (compared < 100)
        check_fail(__FILE__, __LINE__, "only %u tokens were compared", compared);
    golden_free(&g);
    rig_close(&r);
}

TEST(the_bundled_model_gives_its_golden_tokens) {
    const char *isas[CPU_ISAS_MAX];
    size_t n = device_cpu_isas(isas);
    for (size_t i = 0; i < n; i++) {
        check_bundled(isas[i], STORAGE_F32, 1e-3f);
        check_bundled(isas[i], STORAGE_NONE, 0.02f);
    }
}
