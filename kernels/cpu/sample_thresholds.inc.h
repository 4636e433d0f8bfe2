/* sample_thresholds.inc.h - step f of the sampler: which logits top_k, top_p, min_p and the others
 * keep (sample.inc.h says how a threshold is found without sorting). */

/* z = (l - max) / temperature. */
ALWAYS_INLINE vf z_of(const struct sample_row *r, vf logits) {
    vf z = v_sub(logits, v_set1(r->max));
    return r->state->temperature == 1 ? z : v_div(z, v_set1(r->state->temperature));
}

/* Smaller key: larger z. z is in [-inf, 0] (or -0). */
static inline uint32_t key_of(float z) {
    return float_bits(z) & 0x7fffffffu;
}

#define FINITE_KEY 0x7f7fffffu

/* floor(p * 2^40) for p = e^z; 0 below MASS_MIN (e^-28 2^40 = 0.76). */
#define MASS_MIN (-28.0f)
static void masses(const float *z, uint64_t *out, uint32_t count) {
    float p[VW];
    v_store(p, v_exp(v_load_n(z, count)));
    for (uint32_t i = 0; i < count; i++)
        out[i] = z[i] < MASS_MIN ? 0 : (uint64_t)(p[i] * 0x1p40f);
}

/* Values that a threshold is sought among. */
struct candidates {
    float *z;
    uint32_t count;
    uint64_t *histogram;
};

/* The smallest key k such that the weight of all candidates with key <= k (and <= limit) reaches
 * `want` >= 1. by_mass: weights are masses, else 1. Changes the candidates' order: those of the
 * prefix found come first, and the next pass looks at them alone. */
static uint32_t threshold_key(const struct candidates *c, bool by_mass, uint32_t limit,
                              uint64_t want) {
    static const struct { uint32_t shift, bits; } passes[3] = {{20, 11}, {9, 11}, {0, 9}};
    uint32_t prefix = 0, count = c->count;
    for (int pass = 0; pass < 3; pass++) {
        uint32_t shift = passes[pass].shift, bits = passes[pass].bits, size = 1u << bits, bin = 0,
                 within = 0;
        memset(c->histogram, 0, size * sizeof *c->histogram);
        for (uint32_t v = 0; v < count; v += VW) {
            uint32_t n = MIN(count - v, (uint32_t)VW);
            uint64_t mass[VW];
            if (by_mass)
                masses(c->z + v, mass, n);
            for (uint32_t i = 0; i < n; i++) {
                uint32_t key = key_of(c->z[v + i]);
                if (key <= limit)
                    c->histogram[key >> shift & (size - 1)] += by_mass ? mass[i] : 1;
            }
        }
        while (bin + 1 < size && c->histogram[bin] < want)
            want -= c->histogram[bin++];
        prefix = prefix << bits | bin;
        for (uint32_t v = 0; v < count; v++) {
            float z = c->z[v];
            if (key_of(z) >> shift != prefix)
                continue;
            c->z[v] = c->z[within];
            c->z[within++] = z;
        }
        count = within;
    }
    return prefix;
}

static uint64_t total_mass(const struct candidates *c, uint32_t limit) {
    uint64_t total = 0, mass[VW];
    for (uint32_t v = 0; v < c->count; v += VW) {
        uint32_t n = MIN(c->count - v, (uint32_t)VW);
        masses(c->z + v, mass, n);
        for (uint32_t i = 0; i < n; i++)
            total += key_of(c->z[v + i]) <= limit ? mass[i] : 0;
    }
    return total;
}

/* All z from `least` on, and perhaps some that are smaller by the rounding. */
static struct candidates gather(const struct sample_row *r, float least) {
    float *out = r->scratch->candidates, span = -least * r->state->temperature,
          bound = r->max - span - 1e-5f * (fabsf(r->max) + span) - 1e-30f;
    uint32_t count = 0;
    for (uint32_t v = 0; v < r->vocab; v += SAMPLE_BLOCK)
        for (uint32_t i = 0; r->scratch->block_max[v / SAMPLE_BLOCK] >= bound &&
                             i < MIN(r->vocab - v, (uint32_t)SAMPLE_BLOCK);
             i += VW)
            count += v_keep(out + count, load_logits(r, v + i), v_set1(bound));
    count = MIN(count, r->vocab); /* with bound -inf the lanes behind the last count, too */
    for (uint32_t v = 0; v < count; v += VW)
        v_store(out + v, z_of(r, v_load(out + v)));
    return (struct candidates){out, count, r->scratch->histogram};
}

/* At least the k best: the k-th best block's largest is not above the k-th best. */
static struct candidates gather_best(const struct sample_row *r, uint32_t k) {
    uint32_t blocks = (r->vocab + SAMPLE_BLOCK - 1) / SAMPLE_BLOCK;
    struct candidates c = {r->scratch->candidates, blocks, r->scratch->histogram};
    if (k > blocks)
        return gather(r, -INFINITY);
    for (uint32_t b = 0; b < blocks; b += VW)
        v_store(c.z + b, z_of(r, v_load(r->scratch->block_max + b)));
    return gather(r, -bits_float(threshold_key(&c, false, UINT32_MAX, k)));
}

/* Masses of all z above each cut; the last is of all that have one. */
static const float CUT[CUTS] = {-1.5f, -3, -5, -7.5f, -12, MASS_MIN};

/* The whole number below x in [0, 2^22), as lanes of u32. */
ALWAYS_INLINE vi whole(vf x, vf *rounded) {
    vf near = v_rint(x);
    *rounded = v_pick(vi_cast(v_sub(x, near)), v_sub(near, v_set1(1)), near);
    return vi_and(vi_cast(v_add(*rounded, v_set1(0x1p23f))), vi_set1(0x7fffff));
}

/* What masses() says, in two halves of 20 bits: a slice's sums of either fit 32. */
static void masses_unit(void *ctx, size_t unit_idx, int thread_idx) {
    const struct sample_row *r = ctx;
    uint32_t first = (uint32_t)unit_idx * SAMPLE_SLICE, end = MIN(first + SAMPLE_SLICE, r->vocab);
    vi high_sums[CUTS], low_sums[CUTS];
    for (int c = 0; c < CUTS; c++)
        high_sums[c] = low_sums[c] = vi_set1(0);
    for (uint32_t v = first; v < end; v += VW) {
        vf z = z_of(r, load_logits(r, v)), high, low,
           p = v_mul(v_zero_below(v_exp(z), z, MASS_MIN), v_set1(0x1p20f));
        vi high_int = whole(p, &high),
           low_int = whole(v_mul(v_sub(p, high), v_set1(0x1p20f)), &low);
        UNROLL
        for (int c = 0; c < CUTS; c++) {
            vi above =
                c == CUTS - 1 ? vi_set1(UINT32_MAX) : vi_sign(vi_cast(v_sub(v_set1(CUT[c]), z)));
            high_sums[c] = vi_add(high_sums[c], vi_and(high_int, above));
            low_sums[c] = vi_add(low_sums[c], vi_and(low_int, above));
        }
    }
    uint64_t *sums = r->scratch->slices[unit_idx].sums.masses;
    for (int c = 0; c < CUTS; c++) {
        uint32_t high[VW], low[VW];
        vi_store(high, high_sums[c]);
        vi_store(low, low_sums[c]);
        sums[c] = 0;
        for (int i = 0; i < VW; i++)
            sums[c] += ((uint64_t)high[i] << 20) + low[i];
    }
}

static uint64_t wanted_mass(float top_p, uint64_t total) {
    return MAX((uint64_t)((double)top_p * (double)total), (uint64_t)1);
}

/* top_p alone: candidates are what lies above the first cut that has the mass above it. */
static uint32_t nucleus_key(struct sample_row *r) {
    uint64_t sums[CUTS] = {0};
    each_slice(r, masses_unit);
    for (uint32_t s = 0; s < slice_count(r->vocab); s++)
        for (int c = 0; c < CUTS; c++)
            sums[c] += r->scratch->slices[s].sums.masses[c];
    uint64_t want = wanted_mass(r->state->top_p, sums[CUTS - 1]);
    int cut = 0;
    while (cut + 1 < CUTS && sums[cut] < want)
        cut++;
    struct candidates c = gather(r, CUT[cut]);
    uint32_t key = threshold_key(&c, true, FINITE_KEY, want); /* MIN would look for it twice */
    return MIN(FINITE_KEY, key);
}

/* The largest key that top_n_sigma keeps; the logits as they are before the temperature. */
static uint32_t sigma_key(const struct sample_row *r) {
    const struct slot_state *s = r->state;
    uint64_t sum = 0, squares = 0, count = 0;
    for (uint32_t v = 0; v < r->vocab; v++) {
        float below = MIN(r->max - r->logits[v], 2048.0f);
        uint64_t counts = r->logits[v] > -INFINITY, d = (uint64_t)(below * 512) * counts;
        sum += d;
        squares += d * d;
        count += counts;
    }
    double mean = (double)sum / (double)count,
           variance = (double)squares / (double)count - mean * mean;
    double sigma = sqrt(MAX(variance, 0.0)) / 512;
    float limit = (float)((double)s->top_n_sigma * sigma) / s->temperature;
    return MIN(key_of(limit), FINITE_KEY);
}

/* The largest key kept, none of them above `limit`. */
static uint32_t kept_key(struct sample_row *r, uint32_t limit) {
    const struct slot_state *s = r->state;
    struct candidates c;
    if (s->top_k && s->top_k < r->vocab) {
        c = gather_best(r, s->top_k);
        uint32_t key = threshold_key(&c, false, UINT32_MAX, s->top_k);
        limit = MIN(limit, key);
    } else if (s->top_p >= 1) {
        return limit;
    } else if (limit == FINITE_KEY) {
        return nucleus_key(r);
    } else {
        c = gather(r, -bits_float(limit));
    }
    if (s->top_p < 1) {
        uint64_t want = wanted_mass(s->top_p, total_mass(&c, limit));
        uint32_t key = threshold_key(&c, true, limit, want);
        limit = MIN(limit, key);
    }
    return limit;
}
