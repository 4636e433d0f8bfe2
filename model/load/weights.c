#include "model/load/weights.h"

#include <stdio.h>

#include "base/fsutil.h"
#include "model/load/weight_memory.h"
#include "model/run/layer_kinds.h"

/* The prefix under which the files have the embedding (or the head, where that is tied and saved
 * alone). */
static const struct name_prefix *find_prefix(const struct loader *l) {
    const struct name_prefix *all =
        l->spec->names->prefixes ? l->spec->names->prefixes : NAME_PREFIXES;
    static const enum weight_role ROLES[] = {ROLE_EMBED, ROLE_FINAL_NORM, ROLE_MIXER_NORM,
                                             ROLE_MIXER_POST};
    for (size_t i = 0; i < ARRAY_LEN(ROLES); i++)
        for (const struct name_prefix *p = all; p->body; p++) {
            char name[TENSOR_NAME_MAX];
            if (role_name(l->spec->names, p, ROLES[i], 0, name) && safetensors_find(l->files, name))
                return p;
        }
    return all;
}

static const struct tensor *tensor_of(const struct loader *l, enum weight_role role,
                                      char name[TENSOR_NAME_MAX]) {
    return role_name(l->spec->names, l->prefix, role, 0, name) ? safetensors_find(l->files, name)
                                                               : NULL;
}

const struct tensor *weights_head_tensor(const struct model_spec *spec,
                                         const struct safetensors *files,
                                         const struct tensor **bias) {
    char name[TENSOR_NAME_MAX];
    struct loader l = {.spec = spec, .files = files};
    l.prefix = find_prefix(&l);
    *bias = spec->head_bias ? tensor_of(&l, ROLE_HEAD_BIAS, name) : NULL;
    const struct tensor *head = tensor_of(&l, ROLE_HEAD, name);
    return head || !spec->tied_head ? head : tensor_of(&l, ROLE_EMBED, name);
}

static int load_shared_bias(struct loader *l, uint32_t first) {
    if (!l->spec->head_bias)
        return 0;
    int rc = loader_vector(l, &l->w->head.bias, ROLE_HEAD_BIAS, 0, l->spec->vocab);
    if (!rc)
        l->w->head.bias += first;
    return rc;
}

/* A tied head may be stored under either name, or under both with equal bytes. */
static int load_head(struct loader *l) {
    char embed_name[TENSOR_NAME_MAX], head_name[TENSOR_NAME_MAX];
    const struct tensor *embed = tensor_of(l, ROLE_EMBED, embed_name),
                        *head = tensor_of(l, ROLE_HEAD, head_name);
    bool only_head = l->spec->tied_head && !embed && head;
    const struct product_segment e = {only_head ? ROLE_HEAD : ROLE_EMBED, 0, l->spec->vocab};
    const struct product_segment h = {l->spec->tied_head ? e.role : ROLE_HEAD, ROLE_HEAD_BIAS,
                                      l->spec->vocab};
    const struct cut cut = {.rows = shard_vocab(l->shard, l->spec->vocab)}; /* of both ends */
    int rc = 0;
    if (shard_is_first(l->shard))
        rc = loader_take(l, &l->w->embed, &e, &cut, 1, l->spec->embed_dim, false, 0, NULL);
    if (!rc && shard_is_last(l->shard) && !l->spec->headless) {
        bool shared = l->spec->tied_head && shard_is_first(l->shard);
        if (shared)
            l->w->head = l->w->embed;
        else
            rc = loader_take(l, &l->w->head, &h, &cut, 1, l->spec->embed_dim, l->spec->head_bias, 0,
                             NULL);
        if (!rc) /* a product, though the embedding's bytes are none */
            rc = loader_pack(l, &l->w->head, shared ? PACK_BESIDE : PACK_HERE);
        if (!rc && shared)
            rc = load_shared_bias(l, cut.rows.first);
    }
    loader_skip(l, ROLE_HEAD_BIAS, 0);
    if (embed)
        l->used[embed - l->files->tensors] = true;
    if (head && !l->spec->tied_head)
        l->used[head - l->files->tensors] = true;
    if (!l->spec->tied_head)
        return rc;
    if (rc || !head || !embed)
        return rc;
    if (head->byte_len != embed->byte_len || head->type != embed->type ||
        memcmp(head->data, embed->data, head->byte_len))
        return error_set(l->err, ERR_INVALID,
                         "config.json ties '%s' to '%s', but the file has two different ones",
                         head_name, embed_name);
    l->used[head - l->files->tensors] = true;
    return 0;
}

/* Positions with the row of the first segment added, which all tokens are of. */
static int load_typed_positions(struct loader *l) {
    const struct model_spec *spec = l->spec;
    uint32_t rows = spec->learned_positions, hidden = spec->hidden;
    const float *table = NULL;
    float *x = loader_values(l, ROLE_POSITIONS, 0, (uint32_t[]){rows, hidden, 0}),
          *types =
              x ? loader_values(l, ROLE_TOKEN_TYPES, 0, (uint32_t[]){spec->token_types, hidden, 0})
                : NULL;
    for (size_t i = 0; types && i < (size_t)rows * hidden; i++)
        x[i] += types[i % hidden];
    if (!types) {
        mem_free(x);
        x = NULL;
    }
    mem_free(types);
    int rc = loader_put(l, &table, x, (size_t)rows * hidden);
    l->w->positions = (struct matrix){.type = STORAGE_F32,
                                      .rows = rows,
                                      .cols = hidden,
                                      .segment_count = 1,
                                      .segments = {{.data = table, .rows = rows}}};
    return rc;
}

/* A layer of the score's head: its tensors become head memory. */
static int load_score_layer(struct loader *l, struct head_layer layer, enum weight_role weight,
                            enum weight_role bias, bool has_bias) {
    struct vector_head *h = &l->w->score;
    const uint32_t product[] = {layer.out, layer.in, 0}, vector[] = {layer.out, 0};
    layer.weight = loader_values(l, weight, 0, layer.norm ? vector : product);
    if (!layer.weight)
        return l->err->code;
    h->layers[h->count++] = layer;
    if (has_bias)
        h->layers[h->count - 1].bias = loader_values(l, bias, 0, vector);
    return has_bias && !h->layers[h->count - 1].bias ? l->err->code : 0;
}

static enum head_activation head_activation_of(enum activation activation) {
    switch (activation) {
    case ACTIVATION_SILU: return HEAD_SILU;
    case ACTIVATION_GELU: return HEAD_GELU;
    case ACTIVATION_RELU: return HEAD_RELU;
    default: return HEAD_GELU_TANH; /* spec_read lets no other through */
    }
}

static int load_score(struct loader *l) {
    const struct score_spec *score = &l->spec->score;
    uint32_t hidden = l->spec->hidden;
    struct head_layer dense = {.in = hidden,
                               .out = hidden,
                               .activation = score->kind == SCORE_TANH
                                                 ? HEAD_TANH
                                                 : head_activation_of(score->activation)},
                      norm = {.in = hidden, .out = hidden, .norm = true, .eps = score->norm.eps},
                      out = {.in = hidden, .out = score->label_count};
    int rc = 0;
    if (score->kind != SCORE_LINEAR)
        rc = load_score_layer(l, dense, ROLE_SCORE_DENSE, ROLE_SCORE_DENSE_BIAS, score->dense_bias);
    if (!rc && score->kind == SCORE_NORMED)
        rc = load_score_layer(l, norm, ROLE_SCORE_NORM, ROLE_SCORE_NORM_BIAS, score->norm.bias);
    return rc ? rc : load_score_layer(l, out, ROLE_SCORE_OUT, ROLE_SCORE_OUT_BIAS, score->out_bias);
}

static int load_ends(struct loader *l) {
    const struct model_spec *spec = l->spec;
    const struct product_segment positions = {ROLE_POSITIONS, 0, spec->learned_positions},
                                 types = {ROLE_TOKEN_TYPES, 0, spec->token_types},
                                 in = {ROLE_PROJECT_IN, 0, spec->hidden},
                                 out = {ROLE_PROJECT_OUT, 0, spec->embed_dim};
    int rc = load_head(l);
    if (!rc && spec_adds_types(spec))
        rc = loader_take(l, &l->w->types, &types, NULL, 1, spec->hidden, false, 0, NULL);
    if (!rc && spec->token_types && !spec_adds_types(spec))
        rc = load_typed_positions(l);
    else if (!rc && spec->learned_positions)
        rc = loader_matrix(l, &l->w->positions, &positions, 1, spec->hidden, false, 0);
    if (!rc && spec->embed_dim != spec->hidden) {
        rc = loader_matrix(l, &l->w->project_in, &in, 1, spec->embed_dim, false, 0);
        if (!rc)
            rc = loader_matrix(l, &l->w->project_out, &out, 1, spec->hidden, false, 0);
    }
    if (!rc && spec->score.kind)
        rc = load_score(l);
    if (!rc)
        rc = loader_norm(l, &l->w->embed_norm, &spec->embed_norm, ROLE_EMBED_NORM,
                         ROLE_EMBED_NORM_BIAS, 0, spec->hidden);
    if (!rc)
        rc = loader_norm(l, &l->w->final_norm, &spec->final_norm, ROLE_FINAL_NORM,
                         ROLE_FINAL_NORM_BIAS, 0, spec->hidden);
    return rc;
}

/* The mixers' norm times the scale of what one of them takes. */
static int load_scaled_norm(struct loader *l, uint32_t i, struct norm_weights *w, float scale) {
    float *x = loader_values(l, ROLE_MIXER_NORM, i, (uint32_t[]){l->spec->hidden, 0});
    for (uint32_t c = 0; x && c < l->spec->hidden; c++)
        x[c] *= scale;
    return loader_put(l, &w->weight, x, l->spec->hidden);
}

static int load_beside(struct loader *l, uint32_t i, struct layer_weights *w) {
    const struct layer_spec *spec = &l->spec->layers[i];
    int rc = load_scaled_norm(l, i, &w->mixer_norm, spec->mixer_in_scale);
    if (!rc)
        rc = load_scaled_norm(l, i, &w->beside_norm, spec->beside_in_scale);
    return rc ? rc : MIXERS[spec->beside]->load(l, i, &w->beside);
}

static int load_layer(struct loader *l, uint32_t i, struct layer_weights *w) {
    const struct layer_spec *spec = &l->spec->layers[i];
    uint32_t hidden = l->spec->hidden;
    int rc = spec->beside ? load_beside(l, i, w)
                          : loader_norm(l, &w->mixer_norm, &spec->mixer_norm, ROLE_MIXER_NORM,
                                        ROLE_MIXER_NORM_BIAS, i, hidden);
    if (!rc)
        rc = loader_norm(l, &w->mixer_post, &spec->mixer_post, ROLE_MIXER_POST,
                         ROLE_MIXER_POST_BIAS, i, hidden);
    if (!rc && spec->mixer)
        rc = MIXERS[spec->mixer]->load(l, i, &w->mixer);
    if (!rc)
        rc = loader_norm(l, &w->ffn_norm, &spec->ffn_norm, ROLE_FFN_NORM, ROLE_FFN_NORM_BIAS, i,
                         hidden);
    if (!rc)
        rc = loader_norm(l, &w->ffn_post, &spec->ffn_post, ROLE_FFN_POST, ROLE_FFN_POST_BIAS, i,
                         hidden);
    if (!rc && spec->ffn.kind)
        rc = FFNS[spec->ffn.kind]->load(l, i, &w->ffn);
    return rc;
}

/* The layers of other stages: whatever lies under their number. */
static void skip_layer(struct loader *l, uint32_t layer) {
    for (int role = 0; role < ROLE_COUNT; role++) {
        char name[TENSOR_NAME_MAX], number[16];
        if (role < (int)ROLE_MIXER_NORM ||
            !role_name(l->spec->names, l->prefix, (enum weight_role)role, layer, name))
            continue;
        snprintf(number, sizeof number, ".%u.", layer);
        const char *at = strstr(name, number);
        for (size_t i = 0; at && i < l->files->tensor_count; i++)
            if (!strncmp(l->files->tensors[i].name, name, (size_t)(at - name) + strlen(number)))
                l->used[i] = true;
        if (at)
            return;
    }
}

static int check_all_used(const struct loader *l) {
    for (size_t i = 0; i < l->files->tensor_count; i++)
        if (!l->used[i] && !name_is_ignored(l->spec->names, l->prefix, l->files->tensors[i].name) &&
            !name_is_beyond(l->spec->names, l->prefix, l->files->tensors[i].name,
                            l->spec->layer_count))
            return error_set(
                l->err, ERR_UNSUPPORTED,
                "the weights have '%s', which a %s model with this config.json does not use",
                l->files->tensors[i].name, l->spec->family);
    return 0;
}

int weights_load(struct model_weights *weights, const struct model_spec *spec,
                 const struct shard *shard, const struct safetensors *files, struct device *dev,
                 struct stream *stream, struct packed_file *packed, bool packs_later,
                 weights_progress_fn progress, void *ctx, struct error *err) {
    struct error local;
    struct loader l = {.w = weights,
                       .spec = spec,
                       .shard = shard,
                       .files = files,
                       .stream = stream,
                       .packed = packed,
                       .packs_later = packs_later && dev->kind == DEVICE_CPU,
                       .progress = progress,
                       .progress_ctx = ctx,
                       .err = err ? err : &local};
    struct shard_range own = shard_layers(shard, spec->layer_count);
    *weights = (struct model_weights){.dev = dev};
    weights->memory = mem_alloc(sizeof *weights->memory);
    weights->layers = mem_calloc(own.count, sizeof *weights->layers);
    l.used = mem_calloc(files->tensor_count + 1, sizeof *l.used);
    l.prefix = find_prefix(&l);
    for (size_t i = 0; i < files->tensor_count; i++)
        l.total += files->tensors[i].byte_len;
    int rc = load_ends(&l);
    for (uint32_t i = 0; !rc && i < spec->layer_count; i++) {
        if (i >= own.first && i - own.first < own.count)
            rc = load_layer(&l, i, &weights->layers[i - own.first]);
        else
            skip_layer(&l, i);
    }
    if (!rc)
        rc = check_all_used(&l);
    if (!rc && weights->main_type == STORAGE_NONE)
        weights->main_type = shard_is_first(shard) ? weights->embed.type : weights->head.type;
    mem_free(l.used);
    /* Matrices that were packed are not read there again; those that are used where they lie have
     * not been read yet. */
    if (dev->kind == DEVICE_CPU)
        safetensors_forget(files);
    if (rc)
        weights_release(weights);
    return rc;
}

bool weights_are_unpacked(const struct model_weights *w) {
    return w->memory && w->memory->packed_count < w->memory->unpacked.count;
}

bool weights_fetch_next(struct model_weights *w) {
    if (!w->memory || w->memory->fetched_count >= w->memory->unpacked.count)
        return false;
    const struct unpacked_segment *next = &w->memory->unpacked.items[w->memory->fetched_count++];
    const struct matrix *m = next->matrix;
    const struct matrix_segment *p = &m->segments[next->segment];
    file_map_fetch(p->data, storage_bytes(segment_type(m, p), m->cols) * p->rows);
    return true;
}

bool weights_pack_next(struct model_weights *w, struct stream *stream, struct packed_file *packed) {
    CHECK(weights_are_unpacked(w));
    const struct unpacked_segment *next = &w->memory->unpacked.items[w->memory->packed_count++];
    void *memory = device_alloc(w->dev, next->size);
    if (!memory) {
        w->memory->packed_count = w->memory->unpacked.count;
        return false;
    }
    vec_push(&w->memory->owned, memory);
    w->dev->ops->pack(stream, next->matrix, next->segment, memory);
    next->matrix->segments[next->segment].packed = memory;
    if (packed)
        packed_file_add(packed, memory, next->size);
    return true;
}

void weights_release(struct model_weights *w) {
    if (w->memory) {
        for (size_t i = 0; i < w->memory->owned.count; i++)
            device_free(w->dev, w->memory->owned.items[i]);
        for (size_t i = 0; i < w->memory->imported.count; i++)
            device_unimport(w->dev, w->memory->imported.items[i]);
        for (size_t i = 0; i < w->memory->heap.count; i++)
            mem_free(w->memory->heap.items[i]);
        vec_release(&w->memory->owned);
        vec_release(&w->memory->imported);
        vec_release(&w->memory->heap);
        vec_release(&w->memory->unpacked);
    }
    vector_head_release(&w->score);
    mem_free(w->memory);
    mem_free(w->layers);
    *w = (struct model_weights){0};
}
