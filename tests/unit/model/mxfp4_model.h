/*
 * mxfp4_model.h - a tiny GPT-OSS whose experts are MXFP4, as blocks and scales or as the values
 * they stand for.
 */
#ifndef TESTS_UNIT_MODEL_MXFP4_MODEL_H
#define TESTS_UNIT_MODEL_MXFP4_MODEL_H

#include "formats/safetensors.h"
#include "golden.h"

/* A model.safetensors in the making. */
struct maker {
    struct buf header, data;
};
static inline void maker_init(struct maker *m) {
    buf_init(&m->header, 0);
    buf_init(&m->data, 0);
}
static inline void maker_add(struct maker *m, const char *name, const char *dtype,
                             const uint64_t *dims, uint32_t dim_count, const void *data,
                             size_t size) {
    buf_addf(&m->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", m->header.len ? "," : "{", name,
             dtype);
    for (uint32_t i = 0; i < dim_count; i++)
        buf_addf(&m->header, "%s%llu", i ? "," : "", (unsigned long long)dims[i]);
    buf_addf(&m->header, "],\"data_offsets\":[%zu,%zu]}", m->data.len, m->data.len + size);
    buf_add(&m->data, data, size);
}
static inline void maker_write(struct maker *m, const char *dir) {
    struct buf file;
    buf_init(&file, 0);
    buf_add_str(&m->header, "}");
    while (m->header.len % 8)
        buf_add_byte(&m->header, ' ');
    uint64_t len = m->header.len;
    buf_add(&file, &len, 8);
    buf_add_bytes(&file, buf_bytes(&m->header));
    buf_add_bytes(&file, buf_bytes(&m->data));
    if (!golden_put_file(dir, "model.safetensors", buf_bytes(&file)))
        abort();
    buf_release(&file);
    buf_release(&m->header);
    buf_release(&m->data);
}
static inline void maker_copy(struct maker *m, const struct tensor *t) {
    maker_add(m, t->name, tensor_type_name(t->type), t->dims, t->dim_count, t->data, t->byte_len);
}

/* ---- the model ---- */

enum { M_HIDDEN = 64, M_WIDTH = 64, M_EXPERTS = 3, M_VOCAB = 40, M_TOKENS = 24 };

/* What a model has: of heads half are for keys and values; types of tensors that are no blocks. */
struct m_shape {
    uint32_t experts, heads;
    enum storage_type type;
};
static const struct m_shape M_SMALL = {M_EXPERTS, 2, STORAGE_F32};

static const char M_CONFIG[] = "{\"architectures\":[\"GptOssForCausalLM\"],"
                               "\"model_type\":\"gpt_oss\","
                               "\"vocab_size\":40,"
                               "\"hidden_size\":64,"
                               "\"intermediate_size\":64,"
                               "\"num_hidden_layers\":2,"
                               "\"num_attention_heads\":%u,"
                               "\"num_key_value_heads\":%u,"
                               "\"head_dim\":16,"
                               "\"num_local_experts\":%u,"
                               "\"num_experts_per_tok\":2,"
                               "\"sliding_window\":8,"
                               "\"max_position_embeddings\":128%s}";

static inline const char *m_type(enum storage_type type) {
    return type == STORAGE_F32 ? "F32" : "BF16";
}

static inline void add_drawn(struct maker *m, const char *name, enum storage_type type,
                             const uint64_t *dims, uint32_t dim_count, double mean, double sigma) {
    struct buf data;
    size_t count = 1;
    for (uint32_t i = 0; i < dim_count; i++)
        count *= dims[i];
    buf_init(&data, 0);
    golden_draw(&data, name, 5, count, mean, sigma, type);
    maker_add(m, name, m_type(type), dims, dim_count, data.data, data.len);
    buf_release(&data);
}

/* What the format says (OCP Microscaling 1.0): sign, two bits of exponent, one of fraction; times
 * 2^(scale - 127). */
static inline float mxfp4_value(uint32_t code, uint32_t scale) {
    static const float MAGNITUDES[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float v = ldexpf(MAGNITUDES[code & 7], (int)scale - 127);
    return code & 8 ? -v : v;
}

/* One product of all experts of a layer: [experts, rows, cols] as blocks and scales, or its values
 * as [experts, cols, rows]. */
static inline void add_experts(struct maker *m, const struct m_shape *shape, uint32_t layer,
                               const char *what, uint32_t rows, uint32_t cols, bool blocks) {
    const uint32_t experts = shape->experts;
    size_t count = (size_t)experts * rows * cols;
    uint8_t *codes = calloc(count / 2, 1), *scales = calloc(count / 32, 1);
    float *values = calloc(count, sizeof *values);
    char name[120];
    const uint32_t key[2] = {layer, rows};
    for (size_t i = 0; i < count / 32; i++) {
        uint32_t counter[4] = {(uint32_t)i, 0, 0, 0}, w[4];
        philox4x32_10(counter, key, w);
        scales[i] = (uint8_t)(122 + w[0] % 3);
        for (size_t n = 0; n < 16; n++) {
            counter[1] = (uint32_t)n + 1;
            philox4x32_10(counter, key, w);
            codes[i * 16 + n] = (uint8_t)w[1];
            for (size_t half = 0; half < 2; half++) {
                size_t at = i * 32 + n * 2 + half, e = at / ((size_t)rows * cols),
                       r = at / cols % rows, c = at % cols;
                storage_put(shape->type, values, (e * cols + c) * rows + r,
                            mxfp4_value(codes[i * 16 + n] >> (4 * half) & 15, scales[i]));
            }
        }
    }
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj", layer, what);
    if (!blocks)
        maker_add(m, name, m_type(shape->type), (uint64_t[]){experts, cols, rows}, 3, values,
                  storage_bytes(shape->type, count));
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj_blocks", layer, what);
    if (blocks)
        maker_add(m, name, "U8", (uint64_t[]){experts, rows, cols / 32, 16}, 4, codes, count / 2);
    snprintf(name, sizeof name, "model.layers.%u.mlp.experts.%s_proj_scales", layer, what);
    if (blocks)
        maker_add(m, name, "U8", (uint64_t[]){experts, rows, cols / 32}, 3, scales, count / 32);
    free(codes);
    free(scales);
    free(values);
}

static inline void put_model_of(const char *dir, const struct m_shape *shape, bool blocks) {
    const uint64_t q = shape->heads * 16, kv = q / 2, experts = shape->experts;
    const struct {
        const char *name;
        uint64_t dims[2];
        double mean, sigma;
    } LAYER[] = {{"input_layernorm.weight", {M_HIDDEN}, 1, 0.2},
                 {"post_attention_layernorm.weight", {M_HIDDEN}, 1, 0.2},
                 {"self_attn.q_proj.weight", {q, M_HIDDEN}, 0, 0.125},
                 {"self_attn.k_proj.weight", {kv, M_HIDDEN}, 0, 0.125},
                 {"self_attn.v_proj.weight", {kv, M_HIDDEN}, 0, 0.125},
                 {"self_attn.q_proj.bias", {q}, 0, 0.2},
                 {"self_attn.k_proj.bias", {kv}, 0, 0.2},
                 {"self_attn.v_proj.bias", {kv}, 0, 0.2},
                 {"self_attn.o_proj.weight", {M_HIDDEN, q}, 0, 0.2},
                 {"self_attn.o_proj.bias", {M_HIDDEN}, 0, 0.2},
                 {"self_attn.sinks", {shape->heads}, 0, 1},
                 {"mlp.router.weight", {experts, M_HIDDEN}, 0, 0.3},
                 {"mlp.router.bias", {experts}, 0, 0.2},
                 {"mlp.experts.gate_up_proj_bias", {experts, 2 * M_WIDTH}, 0, 0.2},
                 {"mlp.experts.down_proj_bias", {experts, M_HIDDEN}, 0, 0.2}};
    struct maker m;
    struct buf config;
    char name[120];
    maker_init(&m);
    add_drawn(&m, "model.embed_tokens.weight", shape->type, (uint64_t[]){M_VOCAB, M_HIDDEN}, 2, 0,
              1);
    add_drawn(&m, "lm_head.weight", shape->type, (uint64_t[]){M_VOCAB, M_HIDDEN}, 2, 0, 0.125);
    add_drawn(&m, "model.norm.weight", shape->type, (uint64_t[]){M_HIDDEN}, 1, 1, 0.2);
    for (uint32_t layer = 0; layer < 2; layer++) {
        for (size_t i = 0; i < ARRAY_LEN(LAYER); i++) {
            snprintf(name, sizeof name, "model.layers.%u.%s", layer, LAYER[i].name);
            add_drawn(&m, name, shape->type, LAYER[i].dims, LAYER[i].dims[1] ? 2 : 1, LAYER[i].mean,
                      LAYER[i].sigma);
        }
        add_experts(&m, shape, layer, "gate_up", 2 * M_WIDTH, M_HIDDEN, blocks);
        add_experts(&m, shape, layer, "down", M_HIDDEN, M_WIDTH, blocks);
    }
    maker_write(&m, dir);
    buf_init(&config, 0);
    buf_addf(&config, M_CONFIG, shape->heads, shape->heads / 2, shape->experts,
             blocks ? ","
                      "\"quantization_config\":{\"quant_method\":\"mxfp4\","
                      "\"modules_to_not_convert\":[\"lm_head\"]}"
                    : "");
    if (!golden_put_file(dir, "config.json", buf_bytes(&config)))
        abort();
    buf_release(&config);
}

static inline void put_mxfp4_model(const char *dir, bool blocks) {
    put_model_of(dir, &M_SMALL, blocks);
}

/* Logits [M_TOKENS, M_VOCAB] of a few tokens by the model in this folder or file; NULL: it does not
 * load. */
static inline float *mxfp4_logits_of(const char *path) {
    struct rig r;
    struct error err = {0};
    uint32_t tokens[M_TOKENS];
    float *out = NULL;
    for (uint32_t i = 0; i < M_TOKENS; i++)
        tokens[i] = i * 7 % M_VOCAB;
    if (rig_open(&r, path, NULL, 1, STORAGE_F32, 16, &err))
        out = golden_logits(&r, tokens, M_TOKENS, 3, 32);
    else
        check_fail(__FILE__, __LINE__, "%s", err.text);
    rig_close(&r);
    return out;
}

#endif
