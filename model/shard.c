#include "model/shard.h"

struct shard_range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t count) {
    while (unit > 1 && total / unit < count) unit /= 2;
    uint64_t units = (total + unit - 1) / unit;
    uint64_t first = units * rank / count * unit, end = units * (rank + 1) / count * unit;
    first = MIN(first, (uint64_t)total);
    end = MIN(end, (uint64_t)total);
    return (struct shard_range){(uint32_t)first, (uint32_t)(end - first)};
}

struct shard_range shard_layers(const struct shard *s, uint32_t layer_count) {
    struct shard_range range = {0, layer_count};
    if (!s || s->pp <= 1) return range;
    if (!s->stage_layers[0]) return shard_cut(layer_count, 1, s->stage, s->pp);
    for (uint32_t i = 0; i < s->stage; i++) range.first += s->stage_layers[i];
    range.count = s->stage_layers[s->stage];
    return range;
}

/*
 * With fewer ranks than KV heads each rank has whole groups. With more, rank r serves KV head r * kv_heads / tp, and
 * the ranks of one KV head divide its group.
 */
void shard_heads(const struct shard *s, const struct attention_spec *a, struct shard_range *heads,
                 struct shard_range *kv_heads) {
    uint32_t tp = shard_tp(s), rank = s ? s->rank : 0, group = a->heads / a->kv_heads;
    if (tp <= a->kv_heads) {
        *kv_heads = shard_cut(a->kv_heads, 1, rank, tp);
        *heads = (struct shard_range){kv_heads->first * group, kv_heads->count * group};
        return;
    }
    uint32_t kv = (uint32_t)((uint64_t)rank * a->kv_heads / tp), first = 0, sharers = 0;
    for (uint32_t r = 0; r < tp; r++) {
        bool same = (uint64_t)r * a->kv_heads / tp == kv;
        if (same && !sharers) first = r;
        sharers += same;
    }
    *kv_heads = (struct shard_range){kv, 1};
    *heads = shard_cut(group, 1, rank - first, sharers);
    heads->first += kv * group;
}

struct shard_range shard_width(const struct shard *s, uint32_t width) {
    return shard_cut(width, SHARD_WIDTH_UNIT, s ? s->rank : 0, shard_tp(s));
}

struct shard_range shard_vocab(const struct shard *s, uint32_t vocab) {
    return shard_cut(vocab, SHARD_VOCAB_UNIT, s ? s->rank : 0, shard_tp(s));
}

static bool fits(const struct shard *s, struct shard_range values) {
    return !s->block || (s->block != UINT32_MAX && values.first % s->block == 0 && values.count % s->block == 0);
}

/* The same answer on every rank: it is asked for all of them. */
static bool heads_fit(const struct shard *s, const struct attention_spec *a) {
    for (uint32_t rank = 0; rank < s->tp; rank++) {
        struct shard one = {.rank = rank, .tp = s->tp};
        struct shard_range heads, kv_heads;
        shard_heads(&one, a, &heads, &kv_heads);
        if (!fits(s, (struct shard_range){heads.first * a->head_dim, heads.count * a->head_dim})) return false;
    }
    return true;
}

static bool width_fits(const struct shard *s, uint32_t width) {
    for (uint32_t rank = 0; rank < s->tp; rank++) {
        struct shard one = {.rank = rank, .tp = s->tp};
        if (!fits(s, shard_width(&one, width))) return false;
    }
    return true;
}

bool shard_divides_mixer(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    const struct layer_spec *l = &spec->layers[layer];
    if (shard_tp(s) == 1 || l->mixer != MIXER_ATTENTION || !heads_fit(s, &l->attention)) return false;
    bool local_norm = l->attention.qk_norm == QK_NORM_NONE || l->attention.qk_norm == QK_NORM_HEAD;
    return shard_tp(s) > 1 && l->mixer == MIXER_ATTENTION && local_norm && !l->attention.alibi &&
           !l->attention.output_gate;
}

bool shard_divides_ffn(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    enum ffn_kind kind = spec->layers[layer].ffn.kind;
    return shard_tp(s) > 1 && (kind == FFN_GATED || kind == FFN_PLAIN) && width_fits(s, spec->layers[layer].ffn.width);
}

static int check_layers(const struct shard *s, const struct model_spec *spec, struct error *err) {
    struct shard_range range = shard_layers(s, spec->layer_count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MAX(s->pp, 1u); i++) sum += s->stage_layers[i];
    if (sum && sum != spec->layer_count)
        return error_set(err, ERR_INVALID, "the stages have %llu layers, the model %u", (unsigned long long)sum,
                         spec->layer_count);
    if (s->pp > 1 && spec->layers[0].mixer == MIXER_RWKV7)
        return error_set(err, ERR_UNSUPPORTED,
                         "RWKV-7 cannot be divided into stages: all layers use the first's values");
    if (range.count == 0 || s->pp > spec->layer_count)
        return error_set(err, ERR_UNSUPPORTED, "%u stages are too many for %u layers", s->pp, spec->layer_count);
    return 0;
}

static int cut_layer(const struct shard *s, const struct model_spec *spec, uint32_t layer, struct layer_spec *own,
                     struct error *err) {
    if (shard_divides_mixer(s, spec, layer)) {
        struct shard_range heads, kv_heads;
        if (shard_tp(s) > own->attention.heads)
            return error_set(err, ERR_UNSUPPORTED, "%u ranks are too many for %u heads", s->tp, own->attention.heads);
        shard_heads(s, &spec->layers[layer].attention, &heads, &kv_heads);
        if (!heads.count)
            return error_set(err, ERR_UNSUPPORTED, "%u ranks do not divide %u heads of %u groups", s->tp,
                             own->attention.heads, own->attention.kv_heads);
        own->attention.heads = heads.count;
        own->attention.kv_heads = kv_heads.count;
        own->mixer_partial = true;
    }
    if (!shard_divides_ffn(s, spec, layer)) return 0;
    if (own->ffn.width < s->tp)
        return error_set(err, ERR_UNSUPPORTED, "%u ranks are too many for a width of %u", s->tp, own->ffn.width);
    own->ffn.width = shard_width(s, own->ffn.width).count;
    own->ffn_partial = true;
    return 0;
}

int shard_spec(const struct shard *s, struct model_spec *spec, struct layer_spec **all_layers, struct error *err) {
    struct shard_range range = shard_layers(s, spec->layer_count);
    int rc = check_layers(s, spec, err);
    if (rc) return rc;
    if (spec->vocab < shard_tp(s)) return error_set(err, ERR_UNSUPPORTED, "more ranks than tokens");
    struct layer_spec *own = mem_calloc(range.count, sizeof *own);
    memcpy(own, spec->layers + range.first, range.count * sizeof *own);
    for (uint32_t i = 0; !rc && i < range.count; i++) rc = cut_layer(s, spec, range.first + i, &own[i], err);
    if (rc) {
        mem_free(own);
        return rc;
    }
    *all_layers = spec->layers;
    spec->layers = own;
    spec->layer_count = range.count;
    return 0;
}
