#include "model/run/rope.h"

#include <math.h>

/* ---- from config ---- */

/* Where rotary options of one layer type stand: objects (-1: none) and the top. */
struct rope_source {
    struct spec_reader *r;
    int64_t object; /* of rope_parameters (or its part for the layer type) or rope_scaling */
};

static double option(const struct rope_source *s, const char *name, double fallback) {
    return s->object > 0 ? config_double(s->r->config, (uint32_t)s->object, name, fallback)
                         : fallback;
}

/* transformers writes a theta (and a kind) beside the tables of the layer types, and reads those of
 * the tables. A table without one is left to be refused, as its reader refuses it. */
static void pass_over_flat(struct config *c, uint32_t tables, uint32_t table) {
    if (config_double(c, table, "rope_theta", -1) < 0)
        return;
    config_consume(c, tables, "rope_theta");
    config_consume(c, tables, "rope_type");
}

static struct rope_source find_source(struct spec_reader *r, const char *layer_type, bool local) {
    struct config *c = r->config;
    struct rope_source s = {.r = r, .object = config_object(c, r->top, "rope_parameters")};
    int64_t scaling = config_object(c, r->top, "rope_scaling");
    /* windowed layers with a table of their own: never scaled */
    if (scaling > 0)
        s.object = local ? -1 : scaling;
    if (s.object > 0) {
        int64_t object = layer_type ? config_object(c, (uint32_t)s.object, layer_type) : -1;
        /* one table for layers that have two: transformers ignores it */
        if (object <= 0 && scaling <= 0 && r->family->local_rope && layer_type)
            config_fail(c, ERR_UNSUPPORTED, "'rope_parameters' has no '%s'", layer_type);
        if (object > 0) {
            pass_over_flat(c, (uint32_t)s.object, (uint32_t)object);
            s.object = object;
        }
    }
    return s;
}

static enum rope_kind read_kind(const struct rope_source *s) {
    static const struct {
        const char *name;
        enum rope_kind kind;
    } KINDS[] = {{"default", ROPE_DEFAULT}, {"linear", ROPE_LINEAR},   {"llama3", ROPE_LLAMA3},
                 {"yarn", ROPE_YARN},       {"dynamic", ROPE_DYNAMIC}, {"longrope", ROPE_LONG},
                 {"su", ROPE_LONG}};
    if (s->object <= 0)
        return ROPE_DEFAULT;
    const char *old = config_text(s->r->config, (uint32_t)s->object, "type", "default"),
               *name = config_text(s->r->config, (uint32_t)s->object, "rope_type", old);
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
        if (!strcmp(name, KINDS[i].name))
            return KINDS[i].kind;
    read_unsupported(s->r, "rope_type", name);
    return ROPE_NONE;
}

/* An odd count is rounded up, as the references do by making a frequency for each two dims
 * begun. */
static uint32_t read_dims(const struct rope_source *s, uint32_t head_dim, bool *odd) {
    double family = s->r->family->rotary_factor ? s->r->family->rotary_factor : 1,
           top = read_double(s->r, "partial_rotary_factor", family),
           factor = option(s, "partial_rotary_factor", top);
    int64_t given = read_int(s->r, "rotary_dim", 0);
    if (given)
        factor = (double)given / head_dim;
    if (!(factor > 0 && factor <= 1)) {
        config_fail(s->r->config, ERR_INVALID, "'partial_rotary_factor' is out of range");
        return 2;
    }
    uint32_t dims = given ? (uint32_t)given : (uint32_t)(head_dim * factor);
    *odd = dims % 2;
    if (dims == 0 || dims + *odd > head_dim)
        config_fail(s->r->config, ERR_UNSUPPORTED, "%u rotated dimensions of %u are not supported",
                    dims, head_dim);
    return dims + *odd;
}

static void read_llama3(const struct rope_source *s, struct rope_spec *rope) {
    rope->low_freq_factor = option(s, "low_freq_factor", 0);
    rope->high_freq_factor = option(s, "high_freq_factor", 0);
    if (!(rope->low_freq_factor > 0 && rope->high_freq_factor >= rope->low_freq_factor &&
          rope->original_context >= 1))
        config_fail(s->r->config, ERR_INVALID,
                    "rotary 'low_freq_factor', 'high_freq_factor' or "
                    "'original_max_position_embeddings' is missing or "
                    "out of order");
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static void read_yarn(const struct rope_source *s, struct rope_spec *rope) {
    double mscale = option(s, "mscale", 0), all = option(s, "mscale_all_dim", 0);
    rope->beta_fast = option(s, "beta_fast", 32);
    rope->beta_slow = option(s, "beta_slow", 1);
    if (rope->beta_fast == 0)
        rope->beta_fast = 32;
    if (rope->beta_slow == 0)
        rope->beta_slow = 1;
    rope->no_truncate =
        s->object > 0 && !config_bool(s->r->config, (uint32_t)s->object, "truncate", true);
    rope->scale = mscale != 0 && all != 0
                      ? yarn_mscale(rope->factor, mscale) / yarn_mscale(rope->factor, all)
                      : yarn_mscale(rope->factor, 1);
    if (!(rope->beta_fast > 0 && rope->beta_slow > 0 && rope->original_context >= 1))
        config_fail(s->r->config, ERR_INVALID, "rotary 'beta_fast' or 'beta_slow' is out of range");
}

static void read_long(const struct rope_source *s, struct rope_spec *rope) {
    double values[SPEC_HEAD_DIM_MAX / 2];
    float **lists[] = {&rope->short_factor, &rope->long_factor};
    static const char *const NAMES[] = {"short_factor", "long_factor"};
    for (int i = 0; i < 2; i++) {
        uint32_t n =
            config_doubles(s->r->config, (uint32_t)s->object, NAMES[i], values, ARRAY_LEN(values));
        if (n != rope->dims / 2) {
            config_fail(s->r->config, ERR_INVALID, "rotary '%s' has %u numbers, not %u", NAMES[i],
                        n, rope->dims / 2);
            return;
        }
        *lists[i] = mem_calloc(n, sizeof **lists[i]);
        for (uint32_t k = 0; k < n; k++) {
            (*lists[i])[k] = (float)values[k];
            if (!(values[k] > 0))
                config_fail(s->r->config, ERR_INVALID, "rotary '%s' is out of range", NAMES[i]);
        }
    }
    rope->scale = rope->factor <= 1 ? 1 : sqrt(1 + log(rope->factor) / log(rope->original_context));
}

/* The context the model was first trained with: beside the rotary options it counts more than among
 * them. */
static double read_original(const struct rope_source *s) {
    double longest = (double)read_int(s->r, "max_position_embeddings", 0),
           inside = option(s, "original_max_position_embeddings", longest);
    return (double)read_int(s->r, "original_max_position_embeddings", (int64_t)inside);
}

static void read_scaled(const struct rope_source *s, struct rope_spec *rope) {
    double longest = (double)read_int(s->r, "max_position_embeddings", 0);
    bool by_ratio = rope->kind == ROPE_YARN || rope->kind == ROPE_LONG;
    rope->original_context = rope->kind == ROPE_DYNAMIC ? longest : read_original(s);
    if (rope->kind == ROPE_DYNAMIC || rope->kind == ROPE_LINEAR)
        option(s, "original_max_position_embeddings", 0);
    rope->factor =
        option(s, "factor",
               by_ratio && rope->original_context >= 1 ? longest / rope->original_context : 0);
    if (!(rope->factor > 0 && rope->factor <= 1e6) || (rope->kind != ROPE_LONG && rope->factor < 1))
        config_fail(s->r->config, ERR_INVALID, "rotary 'factor' is missing or out of range");
    else if (rope->kind == ROPE_LLAMA3)
        read_llama3(s, rope);
    else if (rope->kind == ROPE_YARN)
        read_yarn(s, rope);
    else if (rope->kind == ROPE_LONG)
        read_long(s, rope);
    double attention = option(s, "attention_factor", 0);
    /* DeepSeek-R1-0528-Qwen3-8B has it, with which it was tuned; vLLM multiplies as we do, and transformers
     * passes it over */
    double times = rope->kind == ROPE_YARN ? option(s, "attn_factor", 1) : 1;
    if (attention < 0 || !(times > 0))
        config_fail(s->r->config, ERR_INVALID, "rotary '%s' is out of range",
                    attention < 0 ? "attention_factor" : "attn_factor");
    if (by_ratio)
        rope->scale = attention > 0 ? attention : rope->scale * times;
}

static bool same_list(const float *a, const float *b, uint32_t count) {
    return a == b || (a && b && !memcmp(a, b, count * sizeof *a));
}

static bool same_rope(const struct rope_spec *a, const struct rope_spec *b) {
    struct rope_spec x = *a, y = *b;
    x.short_factor = x.long_factor = y.short_factor = y.long_factor = NULL;
    return x.kind == y.kind && x.dims == y.dims && x.odd == y.odd &&
           x.interleaved == y.interleaved && x.theta == y.theta && x.factor == y.factor &&
           x.low_freq_factor == y.low_freq_factor && x.high_freq_factor == y.high_freq_factor &&
           x.original_context == y.original_context && x.beta_fast == y.beta_fast &&
           x.beta_slow == y.beta_slow && x.no_truncate == y.no_truncate && x.scale == y.scale &&
           same_list(a->short_factor, b->short_factor, a->dims / 2) &&
           same_list(a->long_factor, b->long_factor, a->dims / 2);
}

/* Takes the table. */
static int add(struct spec_reader *r, struct rope_spec *rope, uint32_t *idx) {
    struct model_spec *spec = r->spec;
    bool have = false;
    for (*idx = 0; !have && *idx < spec->rope_count; *idx += !have)
        have = same_rope(&spec->ropes[*idx], rope);
    if (!have && spec->rope_count < SPEC_ROPES_MAX && !config_failed(r->config)) {
        spec->ropes[spec->rope_count++] = *rope;
        return 0;
    }
    mem_free(rope->short_factor);
    mem_free(rope->long_factor);
    return have ? r->config->error.code
                : config_fail(r->config, ERR_UNSUPPORTED, "more than %d kinds of rotation",
                              SPEC_ROPES_MAX);
}

int rope_none(struct spec_reader *r, uint32_t *idx) {
    struct rope_spec rope = {.kind = ROPE_NONE, .scale = 1};
    return add(r, &rope, idx);
}

int rope_read(struct spec_reader *r, uint32_t head_dim, const char *layer_type, uint32_t *idx) {
    bool local = r->family->local_rope && layer_type && !strcmp(layer_type, "sliding_attention");
    struct rope_source s = find_source(r, layer_type, local);
    double theta = read_double(r, "rope_theta", 10000);
    if (r->family->local_rope) {
        double local_theta = read_double(r, "rope_local_base_freq", theta);
        if (local)
            theta = local_theta;
    }
    bool odd = false;
    uint32_t dims = read_dims(&s, head_dim, &odd);
    if (s.object > 0) { /* of images' positions: a text's are the same in every section */
        config_consume(r->config, (uint32_t)s.object, "mrope_section");
        config_consume(r->config, (uint32_t)s.object, "mrope_interleaved");
    }
    struct rope_spec rope = {.kind = read_kind(&s),
                             .dims = dims,
                             .odd = odd,
                             .interleaved = r->family->rope_interleaved ||
                                            read_rule(r, r->family->rope_interleaved_when),
                             .theta = option(&s, "rope_theta", theta),
                             .factor = 1,
                             .scale = 1};
    if (!(rope.theta >= 1 && rope.theta <= 1e12))
        config_fail(r->config, ERR_INVALID, "'rope_theta' is out of range");
    if (rope.kind > ROPE_DEFAULT && !config_failed(r->config))
        read_scaled(&s, &rope);
    if (rope.kind == ROPE_DYNAMIC) /* stretches as far as it is meant to */
        r->spec->max_context =
            (uint32_t)fmin(rope.original_context * rope.factor, SPEC_CONTEXT_MAX);
    return add(r, &rope, idx);
}

/* "llama_4_scaling_beta" beside the context that the model was first trained with. */
void rope_read_query_scale(struct spec_reader *r, struct attention_spec *a) {
    struct rope_source s = find_source(r, NULL, false);
    double beta = option(&s, "llama_4_scaling_beta", 0),
           original = option(&s, "original_max_position_embeddings", 0);
    if (beta != 0 && !(original >= 1 && original < INT32_MAX && fabs(beta) < 1e6))
        config_fail(
            r->config, ERR_INVALID,
            "rotary 'llama_4_scaling_beta' or 'original_max_position_embeddings' is out of range");
    a->temperature = (float)beta;
    a->temperature_floor = (float)original;
}

/* ---- frequencies ---- */

/* theta^(2 i / dims) with the roundings of the reference implementations: the exponent and the
 * power in f32. */
static float wavelength(double theta, uint32_t i, uint32_t dims) {
    return (float)pow(theta, (double)((float)(2 * i) / (float)dims));
}

static double llama3_frequency(const struct rope_spec *rope, double f) {
    double wave = 2 * M_PI / f, low = rope->original_context / rope->low_freq_factor,
           high = rope->original_context / rope->high_freq_factor;
    if (wave < high)
        return f;
    if (wave > low || low == high)
        return f / rope->factor;
    double smooth = (rope->original_context / wave - rope->low_freq_factor) /
                    (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * f / rope->factor + smooth * f;
}

static double yarn_bound(const struct rope_spec *rope, double rotations) {
    return rope->dims * log(rope->original_context / (rotations * 2 * M_PI)) /
           (2 * log(rope->theta));
}

static double yarn_frequency(const struct rope_spec *rope, uint32_t i, double f) {
    double low = yarn_bound(rope, rope->beta_fast), high = yarn_bound(rope, rope->beta_slow);
    if (!rope->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, rope->dims - 1.0);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return f / rope->factor * ramp + f * (1 - ramp);
}

void rope_inv_freq(const struct rope_spec *rope, uint32_t tokens, float *inv_freq) {
    const float *factors = tokens > rope->original_context ? rope->long_factor : rope->short_factor;
    double theta = rope->theta, n = fmax(tokens, rope->original_context);
    uint32_t dims = rope->dims - rope->odd;
    if (rope->kind == ROPE_DYNAMIC && dims > 2)
        theta *= pow(rope->factor * n / rope->original_context - (rope->factor - 1),
                     dims / (dims - 2.0));
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        float power = wavelength(theta, i, dims), f = 1.0f / power;
        switch (rope->kind) {
        case ROPE_LINEAR: f /= (float)rope->factor; break;
        case ROPE_LLAMA3: f = (float)llama3_frequency(rope, f); break;
        case ROPE_YARN: f = (float)yarn_frequency(rope, i, f); break;
        case ROPE_LONG: f = 1.0f / (factors[i] * power); break;
        default: break;
        }
        inv_freq[i] = f;
    }
}

bool rope_depends_on_length(const struct rope_spec *rope) {
    return rope->kind == ROPE_DYNAMIC || rope->kind == ROPE_LONG;
}

bool spec_depends_on_length(const struct model_spec *spec) {
    for (uint32_t i = 0; i < spec->rope_count; i++)
        if (rope_depends_on_length(&spec->ropes[i]) &&
            spec->max_context > spec->ropes[i].original_context)
            return true;
    return false;
}
