#include "model/run/shard.h"

#include "model/run/layer_kinds.h"

struct shard_range shard_cut(uint32_t total, uint32_t unit, uint32_t rank, uint32_t count) {
    while (unit > 1 && total / unit < count)
        unit /= 2;
    uint64_t units = (total + unit - 1) / unit;
    uint64_t first = units * rank / count * unit, end = units * (rank + 1) / count * unit;
    first = MIN(first, (uint64_t)total);
    end = MIN(end, (uint64_t)total);
    return (struct shard_range){(uint32_t)first, (uint32_t)(end - first)};
}

struct shard_range shard_layers(const struct shard *s, uint32_t layer_count) {
    struct shard_range range = {0, layer_count};
    if (!s || s->pp <= 1)
        return range;
    if (!s->stage_layers[0])
        return shard_cut(layer_count, 1, s->stage, s->pp);
    for (uint32_t i = 0; i < s->stage; i++)
        range.first += s->stage_layers[i];
    range.count = s->stage_layers[s->stage];
    return range;
}

/*
 * With fewer ranks than groups each rank has whole ones. With more, rank r serves group r * groups
 * / tp, and the ranks of one group divide its heads.
 */
void shard_groups(const struct shard *s, uint32_t head_count, uint32_t group_count,
                  struct shard_range *heads, struct shard_range *groups) {
    uint32_t tp = shard_tp(s), rank = s ? s->rank : 0, size = head_count / group_count;
    if (tp <= group_count) {
        *groups = shard_cut(group_count, 1, rank, tp);
        *heads = (struct shard_range){groups->first * size, groups->count * size};
        return;
    }
    uint32_t group = (uint32_t)((uint64_t)rank * group_count / tp), first = 0, sharers = 0;
    for (uint32_t r = 0; r < tp; r++) {
        bool same = (uint64_t)r * group_count / tp == group;
        if (same && !sharers)
            first = r;
        sharers += same;
    }
    *groups = (struct shard_range){group, 1};
    *heads = shard_cut(size, 1, rank - first, sharers);
    heads->first += group * size;
}

void shard_heads(const struct shard *s, const struct attention_spec *a, struct shard_range *heads,
                 struct shard_range *kv_heads) {
    shard_groups(s, a->heads, a->kv_heads, heads, kv_heads);
}

struct shard_range shard_width(const struct shard *s, uint32_t width) {
    return shard_cut(width, SHARD_WIDTH_UNIT, s ? s->rank : 0, shard_tp(s));
}

struct shard_range shard_vocab(const struct shard *s, uint32_t vocab) {
    return shard_cut(vocab, SHARD_VOCAB_UNIT, s ? s->rank : 0, shard_tp(s));
}

struct shard_range shard_latent(const struct shard *s, uint32_t heads) {
    return shard_cut(heads, 1, s ? s->rank : 0, shard_tp(s));
}

/* Channels, cut where blocks of the storage type end if they can be. */
static struct shard_range cut_channels(const struct shard *s, uint32_t count) {
    uint32_t unit = SHARD_CHANNEL_UNIT;
    if (s && s->block != UINT32_MAX)
        unit = MAX(unit, s->block);
    return shard_cut(count, unit, s ? s->rank : 0, shard_tp(s));
}

struct shard_range shard_expert(const struct shard *s, uint32_t width) {
    return cut_channels(s, width);
}

/* As ssm_heads.h has it. */
static bool has_heads(enum mixer_kind kind) {
    return kind == MIXER_MAMBA2 || kind == MIXER_MAMBA3;
}

struct shard_state shard_state(const struct shard *s, const struct layer_spec *layer) {
    const struct recurrent_spec *r = &layer->recurrent;
    enum mixer_kind kind = r->kind;
    struct shard_state own = {.channels = {0}};
    if (has_heads(kind) || kind == MIXER_DELTA)
        shard_groups(s, r->heads, r->groups, &own.heads, &own.groups);
    else if (kind == MIXER_RGLRU || kind == MIXER_RWKV6 || kind == MIXER_RWKV7)
        own.heads = shard_cut(r->heads, 1, s ? s->rank : 0, shard_tp(s));
    else
        own.channels = cut_channels(s, r->width);
    if (own.heads.count)
        own.channels =
            (struct shard_range){own.heads.first * r->head_dim, own.heads.count * r->head_dim};
    return own;
}

/* ---- what is divided ---- */

/* A part that is none, or that begins or ends within a block, cannot be. */
static bool fits(const struct shard *s, struct shard_range values) {
    return values.count && (!s->block || (s->block != UINT32_MAX && values.first % s->block == 0 &&
                                          values.count % s->block == 0));
}

/* Whether groups of the norm before the last product would have channels of several ranks. */
static bool norm_spans(const struct shard *s, const struct layer_spec *l) {
    const struct recurrent_spec *r = &l->recurrent;
    struct shard one = *s;
    if (!has_heads(r->kind) || !r->ssm.inner_norm)
        return false;
    for (one.rank = 0; one.rank < s->tp; one.rank++) {
        struct shard_range own = shard_state(&one, l).channels;
        if (own.first % r->ssm.norm_group || own.count % r->ssm.norm_group)
            return true;
    }
    return false;
}

bool shard_norm_spans(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    return shard_divides_state(s, spec, layer) && norm_spans(s, &spec->layers[layer]);
}

/* The columns of the mixer's last product that a rank would have. */
static struct shard_range mixer_columns(const struct shard *s, const struct layer_spec *layer,
                                        enum mixer_kind kind) {
    struct shard_range heads, kv_heads;
    if (kind == MIXER_ATTENTION) {
        shard_heads(s, &layer->attention, &heads, &kv_heads);
        return (struct shard_range){heads.first * layer->attention.head_dim,
                                    heads.count * layer->attention.head_dim};
    }
    if (kind == MIXER_LATENT) {
        heads = shard_latent(s, layer->latent.heads);
        return (struct shard_range){heads.first * layer->latent.value,
                                    heads.count * layer->latent.value};
    }
    return shard_state(s, layer).channels;
}

/* The same answer on every rank: it is asked for all of them. */
static bool divides(const struct shard *s, const struct layer_spec *l, enum mixer_kind kind) {
    if (shard_tp(s) == 1 || kind == MIXER_NONE)
        return false;
    /* a key head's value heads lie apart */
    if (kind == MIXER_DELTA && l->recurrent.delta.tiled)
        return false;
    if (mixer_has_state(kind) && norm_spans(s, l) &&
        l->recurrent.ssm.inner_norm != INNER_NORM_GATE_FIRST)
        return false;
    struct shard one = *s;
    for (one.rank = 0; one.rank < s->tp; one.rank++)
        if (!fits(s, mixer_columns(&one, l, kind)))
            return false;
    return true;
}

bool shard_divides_mixer(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    return divides(s, &spec->layers[layer], spec->layers[layer].mixer);
}

bool shard_divides_state(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    return divides(s, &spec->layers[layer], spec->layers[layer].recurrent.kind);
}

static bool ffn_fits(const struct shard *s, const struct layer_spec *l) {
    if (l->ffn.kind != FFN_MOE)
        return fits(s, shard_width(s, l->ffn.width));
    return fits(s, shard_expert(s, l->moe.width)) &&
           (!l->moe.shared_width || fits(s, shard_expert(s, l->moe.shared_width)));
}

bool shard_divides_ffn(const struct shard *s, const struct model_spec *spec, uint32_t layer) {
    const struct layer_spec *l = &spec->layers[layer];
    if (shard_tp(s) == 1 || l->ffn.kind == FFN_NONE)
        return false;
    struct shard one = *s;
    for (one.rank = 0; one.rank < s->tp; one.rank++)
        if (!ffn_fits(&one, l))
            return false;
    return true;
}

/* ---- a rank's own spec ---- */

static int check_layers(const struct shard *s, const struct model_spec *spec, struct error *err) {
    struct shard_range range = shard_layers(s, spec->layer_count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < MAX(s->pp, 1u); i++)
        sum += s->stage_layers[i];
    if (sum && sum != spec->layer_count)
        return error_set(err, ERR_INVALID, "the stages have %llu layers, the model %u",
                         (unsigned long long)sum, spec->layer_count);
    const struct layer_kind *first = MIXERS[spec->layers[0].mixer];
    if (s->pp > 1 && first && first->uses_first)
        return error_set(err, ERR_UNSUPPORTED,
                         "%s cannot be divided into stages: all layers use the first's values",
                         first->name);
    if (range.count == 0 || s->pp > spec->layer_count)
        return error_set(err, ERR_UNSUPPORTED, "%u stages are too many for %u layers", s->pp,
                         spec->layer_count);
    return 0;
}

static void cut_state(const struct shard *s, struct layer_spec *own) {
    struct recurrent_spec *r = &own->recurrent;
    struct shard_state state = shard_state(s, own);
    if (norm_spans(s, own)) {
        r->ssm.norm_width = r->width;
        r->ssm.norm_first = state.channels.first;
    }
    r->width = state.channels.count;
    r->heads = state.heads.count;
    r->groups = state.groups.count;
}

static void cut_attention(const struct shard *s, struct attention_spec *a) {
    struct shard_range heads, kv_heads, others;
    struct shard before = *s;
    shard_heads(s, a, &heads, &kv_heads);
    if (a->qk_norm == QK_NORM_WHOLE) {
        before.rank -= s->rank != 0;
        shard_heads(&before, a, &(struct shard_range){0}, &others);
        a->norm_first = s->rank == 0 || others.first != kv_heads.first;
        a->norm_heads = a->heads;
        a->norm_kv_heads = a->kv_heads;
    }
    a->heads = heads.count;
    a->kv_heads = kv_heads.count;
}

static void cut_mixer(const struct shard *s, struct layer_spec *own) {
    if (own->mixer == MIXER_ATTENTION) {
        cut_attention(s, &own->attention);
    } else if (own->mixer == MIXER_LATENT) {
        own->latent.heads = shard_latent(s, own->latent.heads).count;
    } else {
        cut_state(s, own);
    }
    own->mixer_partial = true;
}

static void cut_ffn(const struct shard *s, struct layer_spec *own) {
    if (own->ffn.kind == FFN_MOE) {
        own->moe.width = shard_expert(s, own->moe.width).count;
        if (own->moe.shared_width)
            own->moe.shared_width = shard_expert(s, own->moe.shared_width).count;
    } else {
        own->ffn.width = shard_width(s, own->ffn.width).count;
    }
    own->ffn_partial = true;
}

static void cut_layer(const struct shard *s, const struct model_spec *spec, uint32_t layer,
                      struct layer_spec *own) {
    if (shard_divides_mixer(s, spec, layer))
        cut_mixer(s, own);
    if (own->beside && shard_divides_state(s, spec, layer)) {
        cut_state(s, own);
        own->beside_partial = true;
    }
    if (shard_divides_ffn(s, spec, layer))
        cut_ffn(s, own);
}

/* More ranks than attention has heads are a mistake. */
static int check_heads(const struct shard *s, const struct layer_spec *l, struct error *err) {
    const struct attention_spec *a = &l->attention;
    struct shard one = *s;
    if (shard_tp(s) == 1 || l->mixer != MIXER_ATTENTION)
        return 0;
    for (one.rank = 0; one.rank < s->tp; one.rank++)
        if (!mixer_columns(&one, l, l->mixer).count)
            return error_set(err, ERR_UNSUPPORTED,
                             "%u ranks are too many for %u heads of %u groups", s->tp, a->heads,
                             a->kv_heads);
    return 0;
}

int shard_spec(const struct shard *s, struct model_spec *spec, struct layer_spec **all_layers,
               struct error *err) {
    struct shard_range range = shard_layers(s, spec->layer_count);
    int rc = check_layers(s, spec, err);
    if (rc)
        return rc;
    if (spec->vocab < shard_tp(s))
        return error_set(err, ERR_UNSUPPORTED, "more ranks than tokens");
    struct layer_spec *own = mem_calloc(range.count, sizeof *own);
    memcpy(own, spec->layers + range.first, range.count * sizeof *own);
    for (uint32_t i = 0; !rc && i < range.count; i++) {
        rc = check_heads(s, &own[i], err);
        if (!rc)
            cut_layer(s, spec, range.first + i, &own[i]);
    }
    if (rc) {
        mem_free(own);
        return rc;
    }
    *all_layers = spec->layers;
    spec->layers = own;
    spec->layer_count = range.count;
    return 0;
}

uint32_t shard_sum_width(const struct model_spec *spec) {
    uint32_t most = MAX(spec->hidden, spec->embed_dim);
    for (uint32_t i = 0; i < spec->layer_count; i++) {
        const struct recurrent_spec *r = &spec->layers[i].recurrent;
        most = MAX(most, r->ssm.norm_width);
        if (spec->layers[i].attention.norm_heads)
            most = MAX(most, 4u); /* two in f32 */
        if (spec->layers[i].mixer == MIXER_MAMBA1)
            most = MAX(most, r->mamba1.rank + 2 * r->state_size);
    }
    return most;
}
