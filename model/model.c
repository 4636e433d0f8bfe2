#include "model/model.h"

#include <sys/stat.h>

#include "base/buf.h"
#include "base/cache_folder.h"
#include "base/hash.h"
#include "base/log.h"
#include "model/load/loader_quantized.h"
#include "model/load/packed_file.h"
#include "model/load/storage_map.h"
#include "model/read/gguf_model.h"
#include "model/read/oxidizr.h"
#include "model/run/forward.h"
#include "model/run/layer_kinds.h"
#include "model/run/rope.h"

int model_config_text(const char *dir, const struct safetensors *files,
                      const struct spec_options *o, struct buf *text, struct error *err) {
    char *path = path_join(dir, "config.json");
    bool bare = !file_exists(path) && oxidizr_is(files, (struct bytes){0});
    int rc = bare ? 0 : file_read(path, CONFIG_BYTES_MAX, text, err);
    mem_free(path);
    if (!rc && oxidizr_is(files, buf_bytes(text)))
        rc = oxidizr_read(files, text, o, err);
    return rc;
}

static int open_folder(struct model *m, const struct model_options *o, struct buf *config,
                       struct error *err) {
    int rc = safetensors_open(&m->files, o->dir, err);
    if (!rc)
        rc = model_config_text(o->dir, &m->files, &o->config, config, err);
    if (!rc)
        rc = spec_read_text(&m->spec, buf_bytes(config), &o->config, err);
    return rc ? rc : quantized_open(&m->quantized, &m->files, buf_bytes(config), err);
}

/* config: the text that stands for config.json. The model keeps the files; metadata is let go. */
static int open_gguf(struct model *m, const char *path, const struct spec_options *o,
                     struct buf *config, struct error *err) {
    struct gguf g;
    int rc = gguf_open(&g, path, err);
    if (rc)
        return rc;
    const struct gguf_arch *arch = gguf_arch_of(&g, err);
    struct spec_options made = *o;
    struct bytes kept; /* of a folder that was converted: says more than the metadata can */
    if (!arch)
        rc = err->code;
    else if (gguf_string(&g, GGUF_FILE_KEY "config.json", &kept))
        buf_add_bytes(config, kept);
    else {
        made.common_names = true;
        rc = gguf_config_text(&g, arch, config, err);
    }
    if (!rc)
        rc = spec_read_text(&m->spec, buf_bytes(config), &made, err);
    if (!rc)
        gguf_adjust_spec(&m->spec, arch);
    m->files = g.set;
    g.set = (struct safetensors){0};
    gguf_close(&g);
    return rc;
}

int model_open_files(struct model *m, const struct model_options *o, struct buf *config,
                     struct error *err) {
    char *gguf = gguf_path_of(o->dir);
    int rc = gguf ? open_gguf(m, gguf, &o->config, config, err) : open_folder(m, o, config, err);
    mem_free(gguf);
    if (!rc && o->quantize)
        rc = quantized_online(&m->quantized, &m->files, &m->spec, o->quantize, o->progress,
                              o->progress_ctx, err);
    return rc;
}

static int make_rope_tables(struct model *m, struct stream *stream, struct error *err) {
    float host[SPEC_HEAD_DIM_MAX / 2];
    for (uint32_t i = 0; i < m->spec.rope_count; i++) {
        size_t size = m->spec.ropes[i].dims / 2 * sizeof(float);
        if (m->spec.ropes[i].kind == ROPE_NONE)
            continue;
        rope_inv_freq(&m->spec.ropes[i], 1, host);
        m->inv_freq[i] = device_alloc(m->dev, size);
        if (!m->inv_freq[i])
            return error_set(err, ERR_MEMORY, "no memory for rotary tables");
        stream_copy_in(stream, m->inv_freq[i], host, size);
    }
    return 0;
}

/* For shard.block: what all matrices of the files can be cut between, blocks of a storage type or
 * what shares a scale. */
static uint32_t block_of(const struct safetensors *files) {
    uint64_t all = 1;
    for (size_t i = 0; i < files->tensor_count && all < UINT32_MAX; i++) {
        const struct tensor *t = &files->tensors[i];
        enum storage_type type = storage_of(t);
        uint64_t unit = type == STORAGE_NONE ? 1 : storage_block(type), a = all, b;
        if (t->scales)
            unit = quantized_column_unit(t, t->dims[t->dim_count - 1]);
        for (b = unit; b;) { /* the greatest common divisor */
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        all = MIN(all / a * unit, (uint64_t)UINT32_MAX);
    }
    return all > 1 ? (uint32_t)all : 0;
}

const char *model_device_kind(const char *kind, int64_t layers_on_gpu) {
    bool gpu = !strcmp(kind, "auto") || !strcmp(kind, "cuda");
    return layers_on_gpu == 0 && gpu ? "cpu" : kind;
}

int model_check_layers_on_gpu(uint32_t wanted, uint32_t layer_count, struct error *err) {
    if (!wanted || wanted >= layer_count)
        return 0;
    return error_set(
        err, ERR_UNSUPPORTED,
        "%u of the model's %u layers cannot be on a GPU by themselves: give %u or more "
        "for all of them, 0 for none, or --pp 2 --stage-devices cuda,cpu to divide them",
        wanted, layer_count, layer_count);
}

/* Of the files that stand behind the model, as a person would tell them apart. */
static void hash_files(struct hasher *h, const struct safetensors *files) {
    for (size_t i = 0; i < files->file_count; i++) {
        struct stat st = {0};
        (void)!stat(files->files[i].path, &st);
        uint64_t what[] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_size,
                           (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
        hasher_add(h, what, sizeof what);
    }
}

/* Packed weights of an earlier start, where such are kept. */
static void open_packed(struct model *m, const struct model_options *o) {
    struct u128 build = program_build();
    if (!o->packed_folder || m->dev->kind != DEVICE_CPU || u128_is_zero(build))
        return;
    struct hasher *h = hasher_new();
    hasher_add(h, &m->revision, sizeof m->revision);
    hash_files(h, &m->files);
    hasher_add(h, &m->shard, sizeof m->shard);
    hasher_add(h, &o->quantize, sizeof o->quantize);
    hasher_add(h, &m->dev->compute, sizeof m->dev->compute);
    hasher_add(h, m->dev->isa, strlen(m->dev->isa) + 1);
    hasher_add(h, m->dev->packed_order, strlen(m->dev->packed_order) + 1);
    struct packed_file_config config = {.folder = o->packed_folder,
                                        .source = hasher_end(h),
                                        .bytes_least = o->packed_least,
                                        .bytes_most = o->packed_most,
                                        .thread_count = (int)m->dev->thread_count};
    hasher_add(h, &build, sizeof build);
    config.key = hasher_end(h);
    hasher_free(&h);
    m->packed = packed_file_open(&config);
}

int model_open(struct model *model, const struct model_options *options, struct device *dev,
               struct stream *stream, struct error *err) {
    struct buf config;
    *model = (struct model){.dev = dev};
    buf_init(&config, 0);
    int rc = model_open_files(model, options, &config, err);
    if (!rc && model->spec.unread)
        log_warn("config.json has fields that are not read and are passed over: %s",
                 model->spec.unread);
    if (!rc && dev->kind != DEVICE_CPU)
        rc = model_check_layers_on_gpu(options->layers_on_gpu, model->spec.layer_count, err);
    struct model_spec whole = model->spec;
    struct layer_spec *all_layers = NULL;
    const struct shard *shard = options->shard ? &model->shard : NULL;
    if (shard)
        model->shard = *options->shard;
    if (shard)
        model->shard.block = block_of(&model->files);
    if (!rc && shard)
        rc = shard_spec(shard, &model->spec, &all_layers, err);
    if (!rc) {
        model->revision = model_revision(buf_bytes(&config), &model->files);
        open_packed(model, options);
        rc = weights_load(&model->weights, &whole, shard, &model->files, dev, stream, model->packed,
                          options->packs_later, options->progress, options->progress_ctx, err);
    }
    mem_free(all_layers);
    if (!rc)
        rc = make_rope_tables(model, stream, err);
    if (!rc && model->packed && !weights_are_unpacked(&model->weights))
        packed_file_keep(model->packed);
    buf_release(&config);
    if (rc)
        model_close(model);
    return rc;
}

bool model_pack_next(struct model *m, struct stream *stream) {
    if (!weights_are_unpacked(&m->weights))
        return false;
    bool packed = weights_pack_next(&m->weights, stream, m->packed);
    if (!packed || weights_are_unpacked(&m->weights))
        return packed;
    safetensors_forget(&m->files); /* what was packed is not read there again */
    if (m->packed)
        packed_file_keep(m->packed);
    return true;
}

bool model_fetch_next(struct model *m) {
    return weights_fetch_next(&m->weights);
}

void model_close(struct model *m) {
    for (int i = 0; i < SPEC_ROPES_MAX; i++)
        device_free(m->dev, m->inv_freq[i]);
    packed_file_free(&m->packed); /* it reads weights while it writes */
    weights_release(&m->weights);
    safetensors_close(&m->files);
    quantized_close(&m->quantized);
    spec_release(&m->spec);
    *m = (struct model){0};
}

/* ---- identity ---- */

enum { REVISION_SAMPLE = 4096 };
#define REVISION_WHOLE ((uint64_t)64 << 20)

static void hash_file(struct hasher *h, const struct safetensors *files, uint32_t file_idx) {
    const struct safetensors_file *f = &files->files[file_idx];
    uint64_t len = f->map.len;
    hasher_add(h, &len, sizeof len);
    if (len < REVISION_WHOLE) {
        hasher_add(h, f->map.data, f->map.len);
        return;
    }
    hasher_add(h, f->header.data, f->header.len);
    for (size_t i = 0; i < files->tensor_count; i++) {
        const struct tensor *t = &files->tensors[i];
        if (t->file_idx != file_idx)
            continue;
        size_t sample_len = (size_t)MIN(t->byte_len, (uint64_t)REVISION_SAMPLE);
        hasher_add(h, t->data, sample_len);
        hasher_add(h, t->data + t->byte_len - sample_len, sample_len);
    }
}

struct u128 model_revision(struct bytes config, const struct safetensors *files) {
    struct hasher *h = hasher_new();
    hasher_add(h, config.data, config.len);
    for (size_t i = 0; i < files->file_count; i++)
        hash_file(h, files, (uint32_t)i);
    struct u128 revision = hasher_end(h);
    hasher_free(&h);
    return revision;
}

/* ---- memory ---- */

/* Bytes of a slot's state; fills in where each layer's part begins. */
static size_t state_offsets(const struct model *model, struct kv_geometry *out) {
    size_t used = 0;
    for (uint32_t i = 0; i < model->spec.layer_count; i++) {
        const struct layer_spec *layer = &model->spec.layers[i];
        const struct layer_kind *kinds[] = {MIXERS[layer->beside ? layer->beside : layer->mixer],
                                            FFNS[layer->ffn.kind]};
        size_t *offsets[] = {out->mixer_states, out->ffn_states};
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            offsets[k][i] = used;
            if (kinds[k] && kinds[k]->state_bytes)
                used += (kinds[k]->state_bytes(&model->spec, layer) + 63) / 64 * 64;
        }
    }
    return used;
}

const enum storage_type KV_TYPES[6] = {STORAGE_NONE, STORAGE_F32,     STORAGE_F16,
                                       STORAGE_BF16, STORAGE_F8_E4M3, STORAGE_I8};

int kv_geometry_of(struct kv_geometry *out, const struct model *model, enum storage_type type,
                   uint32_t block_tokens, struct error *err) {
    const struct ops *ops = model->dev->ops;
    if (type == STORAGE_NONE && model->dev->kind != DEVICE_CPU)
        type = model->dev->activation_type;
    if (type == STORAGE_NONE)
        type = model->weights.main_type == STORAGE_F32 ? STORAGE_F32 : STORAGE_F16;
    *out = (struct kv_geometry){.type = type, .block_tokens = block_tokens};
    for (uint32_t i = 0; i < model->spec.layer_count; i++) {
        const struct layer_spec *layer = &model->spec.layers[i];
        const struct layer_kind *kinds[] = {MIXERS[layer->mixer], FFNS[layer->ffn.kind]};
        for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
            if (!kinds[k] || !kinds[k]->supports)
                continue;
            int rc = kinds[k]->supports(model->dev, layer, model->weights.main_type, type,
                                        block_tokens, err);
            if (rc)
                return rc;
        }
        out->layer_offsets[i] = out->block_bytes;
        if (kinds[0] && kinds[0]->kv_bytes)
            out->block_bytes += kinds[0]->kv_bytes(ops, layer, type, block_tokens);
    }
    out->state_bytes = state_offsets(model, out);
    /* a model without keys and values still counts blocks */
    if (out->block_bytes == 0)
        out->block_bytes = 64;
    return 0;
}

/* What a bound on all memory leaves for keys and values. */
static uint64_t room_within(uint64_t memory_max, const struct memory_plan *plan) {
    uint64_t taken = plan->weight_bytes + plan->activation_bytes + plan->slot_bytes;
    return memory_max > taken ? memory_max - taken : 0;
}

int memory_plan_make(struct memory_plan *plan, const struct model *model,
                     const struct kv_geometry *kv, const struct memory_request *request,
                     struct error *err) {
    uint64_t blocks_a_slot = (request->max_context + kv->block_tokens - 1) / kv->block_tokens,
             limit = 0, count = request->block_count;
    *plan = (struct memory_plan){
        .weight_bytes = model->weights.byte_count,
        .activation_bytes = forward_bytes(model, request->max_step_tokens, request->max_context),
        .slot_bytes =
            slots_bytes(request->slot_count, request->max_context, model->spec.vocab, kv)};
    uint64_t buffers = plan->activation_bytes + plan->slot_bytes, left = request->memory_free;
    if (left)
        left = left > buffers ? left - buffers : 1;
    limit = model->dev->kind == DEVICE_CPU
                ? request->memory_free / MAX(4, 2 * (uint64_t)request->sharers)
                : left - left / 10;
    if (!count && request->kv_bytes)
        count = request->kv_bytes / kv->block_bytes;
    if (!count && !request->kv_bytes) {
        count = blocks_a_slot * request->slot_count;
        if (request->memory_max)
            count = MIN(count, room_within(request->memory_max, plan) / kv->block_bytes);
        else if (request->memory_free)
            count = MIN(count, MAX(limit / kv->block_bytes, blocks_a_slot));
    }
    count = MIN(count, (uint64_t)1 << 24);
    plan->block_count = (uint32_t)count;
    plan->kv_bytes = count * kv->block_bytes;
    uint64_t states = (request->slot_count + (uint64_t)kv->snapshot_count) * kv->state_bytes,
             need = plan->kv_bytes + plan->activation_bytes + states;
    if (count == 0)
        return error_set(err, ERR_INVALID, "no room for a single KV block of %zu bytes; raise --%s",
                         kv->block_bytes, request->memory_max ? "memory-fraction" : "kv-bytes");
    if (request->memory_free && need > request->memory_free)
        return error_set(err, ERR_LIMIT,
                         "does not fit: %llu MB for the KV cache, %llu MB for buffers and %llu MB "
                         "for states, but %llu "
                         "MB are free; lower --blocks, --kv-bytes, --slots or --max-step-tokens",
                         (unsigned long long)(plan->kv_bytes >> 20),
                         (unsigned long long)(plan->activation_bytes >> 20),
                         (unsigned long long)(states >> 20),
                         (unsigned long long)(request->memory_free >> 20));
    return 0;
}
