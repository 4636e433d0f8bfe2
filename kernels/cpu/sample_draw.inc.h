/* sample_draw.inc.h - step g of the sampler: noise on the logits that are kept, and the largest of
 * them (sample.inc.h says which blocks are passed over). */

/* A row's counter and keys, for lanes of two counters each: a product of 32 x 32 bits fills both
 * halves, its upper one goes where the next product reads. */
struct noise {
    vi counter[4], keys[10][2];
};
static const uint32_t EVEN_COUNTERS[16] = {0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14};

static void noise_init(struct noise *n, const struct slot_state *s) {
    n->counter[0] = vi_load(EVEN_COUNTERS);
    n->counter[1] = vi_set1(s->token_count);
    n->counter[2] = vi_set1(s->choice);
    n->counter[3] = vi_set1(NOISE_SAMPLE);
    for (uint32_t i = 0; i < 10; i++) {
        n->keys[i][0] = vi_set1((uint32_t)s->seed + i * PHILOX_W0);
        n->keys[i][1] = vi_set1((uint32_t)(s->seed >> 32) + i * PHILOX_W1);
    }
}

/* philox.h's rounds; c[0] is the counter's first word, the words come out in its even lanes. */
ALWAYS_INLINE void noise_rounds(const struct noise *n, vi *c) {
    vi m0 = vi_set1(PHILOX_M0), m1 = vi_set1(PHILOX_M1);
    for (int k = 1; k < 4; k++)
        c[k] = n->counter[k];
    UNROLL
    for (int i = 0; i < 10; i++) {
        vi p0 = vi_mul_even(m0, c[0]), p1 = vi_mul_even(m1, c[2]);
        c[0] = vi_xor(vi_xor(vi_odd(p1), c[1]), n->keys[i][0]);
        c[2] = vi_xor(vi_xor(vi_odd(p0), c[3]), n->keys[i][1]);
        c[1] = p1;
        c[3] = p0;
    }
}

/* words[k][i]: of token first + 4 i + k. Returns whether any is `most` or less. */
static bool noise_words(const struct noise *n, uint32_t first, uint32_t most,
                        uint32_t words[4][SAMPLE_BLOCK / 4]) {
    bool any = false;
    for (uint32_t i = 0; i < SAMPLE_BLOCK / 4; i += VW) {
        vi even[4], odd[4];
        even[0] = vi_add(n->counter[0], vi_set1(first / 4 + i));
        odd[0] = vi_add(even[0], vi_set1(1));
        noise_rounds(n, even);
        noise_rounds(n, odd);
        UNROLL
        for (int k = 0; k < 4; k++) {
            vi word = vi_pair(even[k], odd[k]);
            vi_store(words[k] + i, word);
            any |= vi_any_at_most(word, most);
        }
    }
    return any;
}

/* Of VW blocks from `block` on: the largest w of philox.h that could win or draw level, 1/1000 more
 * for the rounding; 0 where nothing is kept. */
static void chances(const struct sample_row *r, uint32_t block, float best, float out[VW]) {
    vf z = z_of(r, v_load(r->scratch->block_max + block));
    float keys[VW], p[VW];
    v_store(keys, z);
    v_store(out, v_mul(v_exp(v_sub(z, v_set1(best))), v_set1(1.001f)));
    if (r->state->min_p > 0)
        v_store(p, v_mul(v_exp(z), v_set1(1.001f)));
    for (uint32_t i = 0; i < VW; i++)
        if (key_of(keys[i]) > r->limit || (r->state->min_p > 0 && p[i] < r->state->min_p))
            out[i] = 0;
}

/* One token whose noise has these bits. The lowest of equals wins. */
static void draw_token(const struct sample_row *r, uint32_t token, uint32_t bits,
                       struct best *best) {
    float z[VW], p[VW];
    v_store(z, z_of(r, v_set1(r->logits[token])));
    if (key_of(z[0]) > r->limit)
        return;
    v_store(p, v_exp(v_set1(z[0])));
    if (r->state->min_p > 0 && p[0] < r->state->min_p)
        return;
    float noisy = z[0] + gumbel_of_bits(bits);
    if (noisy > best->value || (noisy == best->value && token < best->id))
        *best = (struct best){noisy, token};
}

static void draw_block(const struct sample_row *r, const struct noise *n, uint32_t first,
                       float chance, struct best *best) {
    uint32_t words[4][SAMPLE_BLOCK / 4],
        most = chance < 1 ? (uint32_t)(chance * 0x1p32f) : UINT32_MAX;
    if (!noise_words(n, first, most, words))
        return;
    for (uint32_t i = 0; i < MIN(r->vocab - first, (uint32_t)SAMPLE_BLOCK); i++)
        if (words[i % 4][i / 4] <= most)
            draw_token(r, first + i, words[i % 4][i / 4], best);
}

static void draw_unit(void *ctx, size_t unit_idx, int thread_idx) {
    struct sample_row *r = ctx;
    uint32_t first = (uint32_t)unit_idx * SAMPLE_SLICE, end = MIN(first + SAMPLE_SLICE, r->vocab);
    struct best best = r->best;
    struct noise noise;
    float chance[VW];
    noise_init(&noise, r->state);
    for (uint32_t v = first; v < end; v += SAMPLE_BLOCK) {
        uint32_t block = v / SAMPLE_BLOCK;
        if (block % VW == 0)
            chances(r, block, best.value, chance);
        if (!(chance[block % VW] * 0x1p32f >= 0.5f))
            continue;
        float before = best.value;
        draw_block(r, &noise, v, chance[block % VW], &best);
        if (best.value > before)
            chances(r, block / VW * VW, best.value, chance);
    }
    r->scratch->slices[unit_idx].best = best;
}

/* f, g. */
static uint32_t draw(struct sample_row *r) {
    const struct slot_state *s = r->state;
    uint32_t largest = r->best.id;
    r->limit = kept_key(r, s->top_n_sigma > 0 ? sigma_key(r) : FINITE_KEY);
    r->best = (struct best){-INFINITY, UINT32_MAX};
    draw_token(r, largest, noise_bits(s->seed, s->choice, s->token_count, largest, NOISE_SAMPLE),
               &r->best);
    each_slice(r, draw_unit);
    for (uint32_t i = 0; i < slice_count(r->vocab); i++) {
        struct best b = r->scratch->slices[i].best;
        if (b.value > r->best.value || (b.value == r->best.value && b.id < r->best.id))
            r->best = b;
    }
    return r->best.id;
}
