/* Mixtures in GGUF files: goldens written the way llama.cpp's converter writes them (gate and up of
 * all experts in a tensor each, Q and K permuted where the architecture has it so) give the
 * golden's logits. */
#include "formats/safetensors.h"
#include "golden.h"
#include "model/read/names.h"

/* A GGUF file in the making. */
struct gguf_maker {
    struct buf kvs, infos, data;
    uint64_t kv_count, tensor_count;
};

static void put_string(struct buf *b, const char *s) {
    uint64_t len = strlen(s);
    buf_add(b, &len, 8);
    buf_add(b, s, len);
}
static void add_kv(struct gguf_maker *m, const char *key, uint32_t type, const void *value,
                   size_t size) {
    put_string(&m->kvs, key);
    buf_add(&m->kvs, &type, 4);
    buf_add(&m->kvs, value, size);
    m->kv_count++;
}
static void add_u32(struct gguf_maker *m, const char *key, uint32_t v) {
    add_kv(m, key, 4, &v, 4);
}
static void add_f32(struct gguf_maker *m, const char *key, float v) {
    add_kv(m, key, 6, &v, 4);
}
/* dims: row-major, ended by 0. */
static void add_tensor(struct gguf_maker *m, const char *name, const uint64_t *dims,
                       const void *data) {
    uint32_t count = 0, type = 0;
    uint64_t size = 4, offset;
    while (dims[count])
        size *= dims[count++];
    while (m->data.len % 32)
        buf_add_byte(&m->data, 0);
    offset = m->data.len;
    put_string(&m->infos, name);
    buf_add(&m->infos, &count, 4);
    for (uint32_t i = count; i-- > 0;)
        buf_add(&m->infos, &dims[i], 8);
    buf_add(&m->infos, &type, 4);
    buf_add(&m->infos, &offset, 8);
    buf_add(&m->data, data, size);
    m->tensor_count++;
}
static void write_gguf(struct gguf_maker *m, const char *dir) {
    struct buf file;
    uint32_t version = 3;
    buf_init(&file, 0);
    buf_add_str(&file, "GGUF");
    buf_add(&file, &version, 4);
    buf_add(&file, &m->tensor_count, 8);
    buf_add(&file, &m->kv_count, 8);
    buf_add_bytes(&file, buf_bytes(&m->kvs));
    buf_add_bytes(&file, buf_bytes(&m->infos));
    while (file.len % 32)
        buf_add_byte(&file, 0);
    buf_add_bytes(&file, buf_bytes(&m->data));
    if (!golden_put_file(dir, "model.gguf", buf_bytes(&file)))
        abort();
    buf_release(&file);
    buf_release(&m->kvs);
    buf_release(&m->infos);
    buf_release(&m->data);
}

/* ---- from a golden ---- */

struct source {
    struct model_golden g;
    struct safetensors files;
    char dir[40];
};

/* The pattern with its numbers put in. */
static void put_numbers(const char *pattern, uint32_t layer, uint32_t expert,
                        char out[TENSOR_NAME_MAX]) {
    struct name_table names = {.patterns = {[ROLE_EMBED] = pattern}};
    role_expert_name(&names, NULL, ROLE_EMBED, layer, expert, out);
}
static const struct tensor *tensor_of(const struct source *s, const char *pattern, uint32_t layer,
                                      uint32_t expert) {
    char name[TENSOR_NAME_MAX];
    put_numbers(pattern, layer, expert, name);
    const struct tensor *t = safetensors_find(&s->files, name);
    if (!t)
        abort();
    return t;
}
static void copy_tensor(struct gguf_maker *m, const struct source *s, const char *to,
                        const char *from, uint32_t layer) {
    char name[TENSOR_NAME_MAX];
    uint64_t dims[4] = {0};
    const struct tensor *t = tensor_of(s, from, layer, 0);
    put_numbers(to, layer, 0, name);
    for (uint32_t i = 0; i < t->dim_count; i++)
        dims[i] = t->dims[i];
    add_tensor(m, name, dims, t->data);
}
/* Rows of each head from halves to pairs. */
static uint8_t *permuted(const struct tensor *t, uint32_t heads) {
    uint64_t dim = t->dims[0] / heads, row = t->dims[1] * 4;
    uint8_t *data = malloc(t->byte_len);
    for (uint64_t r = 0; r < t->dims[0]; r++) {
        uint64_t h = r / dim, i = r % dim, place = h * dim + i % (dim / 2) * 2 + i / (dim / 2);
        memcpy(data + place * row, t->data + r * row, row);
    }
    return data;
}
/* Queries, keys (both permuted) and values, as three tensors or one. */
static void put_heads(struct gguf_maker *m, const struct source *s, uint32_t layer, bool fused) {
    static const char *const FROM[] = {"model.layers.%u.self_attn.q_proj.weight",
                                       "model.layers.%u.self_attn.k_proj.weight",
                                       "model.layers.%u.self_attn.v_proj.weight"};
    static const char *const TO[] = {"blk.%u.attn_q.weight", "blk.%u.attn_k.weight",
                                     "blk.%u.attn_v.weight"};
    char name[TENSOR_NAME_MAX];
    struct buf all;
    uint64_t dims[] = {0, 0, 0};
    buf_init(&all, 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct tensor *t = tensor_of(s, FROM[i], layer, 0);
        uint8_t *turned = i < 2 ? permuted(t, i ? 2 : 4) : NULL;
        buf_add(&all, turned ? turned : t->data, t->byte_len);
        dims[0] += t->dims[0];
        dims[1] = t->dims[1];
        free(turned);
        if (fused && i < 2)
            continue;
        put_numbers(fused ? "blk.%u.attn_qkv.weight" : TO[i], layer, 0, name);
        add_tensor(m, name, dims, all.data);
        buf_reset(&all);
        dims[0] = 0;
    }
    buf_release(&all);
}
static void stack_experts(struct gguf_maker *m, const struct source *s, const char *to,
                          const char *from, uint32_t layer, uint32_t experts) {
    char name[TENSOR_NAME_MAX];
    struct buf data;
    uint64_t dims[4] = {experts, 0, 0, 0};
    buf_init(&data, 0);
    for (uint32_t e = 0; e < experts; e++) {
        const struct tensor *t = tensor_of(s, from, layer, e);
        buf_add(&data, t->data, t->byte_len);
        dims[1] = t->dims[0];
        dims[2] = t->dims[1];
    }
    put_numbers(to, layer, 0, name);
    add_tensor(m, name, dims, data.data);
    buf_release(&data);
}

/* What the goldens here share: 4 and 2 heads, hidden 48. */
static void put_common(struct gguf_maker *m, const struct source *s, const char *arch, uint32_t ffn,
                       uint32_t layers, float eps, float theta) {
    const struct {
        const char *suffix;
        uint32_t value;
    } COUNTS[] = {{"block_count", layers},
                  {"embedding_length", 48},
                  {"attention.head_count", 4},
                  {"attention.head_count_kv", 2},
                  {"context_length", 512}};
    char key[100];
    put_string(&m->kvs, "general.architecture");
    uint32_t type = 8;
    buf_add(&m->kvs, &type, 4);
    put_string(&m->kvs, arch);
    m->kv_count++;
    for (size_t i = 0; i < ARRAY_LEN(COUNTS); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, COUNTS[i].suffix);
        add_u32(m, key, COUNTS[i].value);
    }
    snprintf(key, sizeof key, "%s.feed_forward_length", arch);
    add_u32(m, key, ffn);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    add_f32(m, key, eps);
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    add_f32(m, key, theta);
    copy_tensor(m, s, "token_embd.weight", "model.embed_tokens.weight", 0);
    copy_tensor(m, s, "output.weight", "lm_head.weight", 0);
    copy_tensor(m, s, "output_norm.weight", "model.norm.weight", 0);
    bool oss = !strcmp(arch, "gpt-oss");
    for (uint32_t i = 0; i < layers; i++) {
        copy_tensor(m, s, "blk.%u.attn_norm.weight", "model.layers.%u.input_layernorm.weight", i);
        copy_tensor(m, s, oss ? "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight",
                    "model.layers.%u.post_attention_layernorm.weight", i);
        copy_tensor(m, s, "blk.%u.attn_output.weight", "model.layers.%u.self_attn.o_proj.weight",
                    i);
    }
}
static void put_experts(struct gguf_maker *m, const struct source *s, const char *arch,
                        uint32_t experts, uint32_t used, const char *router, const char *gate,
                        const char *up, const char *down) {
    char key[100];
    snprintf(key, sizeof key, "%s.expert_count", arch);
    add_u32(m, key, experts);
    snprintf(key, sizeof key, "%s.expert_used_count", arch);
    add_u32(m, key, used);
    for (uint32_t i = 0; i < 3; i++) {
        copy_tensor(m, s, "blk.%u.ffn_gate_inp.weight", router, i);
        stack_experts(m, s, "blk.%u.ffn_gate_exps.weight", gate, i, experts);
        stack_experts(m, s, "blk.%u.ffn_up_exps.weight", up, i, experts);
        stack_experts(m, s, "blk.%u.ffn_down_exps.weight", down, i, experts);
    }
}

static void open_source(struct source *s, const char *name) {
    char file[200];
    struct error err = {0};
    snprintf(file, sizeof file, TRIREME_SOURCE_DIR "/tests/goldens/models/%s.json", name);
    snprintf(s->dir, sizeof s->dir, "/tmp/trireme-gguf-XXXXXX");
    if (!mkdtemp(s->dir) || !model_golden_read(&s->g, file) ||
        !golden_put_model(&s->g, s->dir, STORAGE_F32) || safetensors_open(&s->files, s->dir, &err))
        abort();
}

static void compare_and_close(struct source *s) {
    struct rig r;
    struct error err = {0};
    char path[64];
    snprintf(path, sizeof path, "%s/model.gguf", s->dir);
    if (!rig_open(&r, path, NULL, 1, STORAGE_F32, 16, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", s->g.name, err.text);
    } else {
        for (uint32_t i = 0; i < r.model.spec.layer_count; i++) { /* no keys say these */
            r.model.spec.layers[i].moe.limit = 1.1f;
            r.model.spec.layers[i].moe.alpha = 1.4f;
        }
        float *logits = golden_logits(&r, s->g.tokens, s->g.token_count, 3, 32);
        double error = golden_error(logits, s->g.logits, s->g.rows, s->g.row_count, s->g.vocab);
        if (!(error <= 1e-4))
            check_fail(__FILE__, __LINE__, "%s: relative error %.3g", s->g.name, error);
        free(logits);
    }
    rig_close(&r);
    unlink(path);
    safetensors_close(&s->files);
    golden_drop_dir(s->dir);
    model_golden_free(&s->g);
}

static void check_mixtral(bool fused) {
    struct source s;
    struct gguf_maker m = {0};
    open_source(&s, "mixtral");
    put_common(&m, &s, "llama", 40, 3, 1e-5f, 1e6f);
    for (uint32_t i = 0; i < 3; i++)
        put_heads(&m, &s, i, fused);
    put_experts(&m, &s, "llama", 5, 2, "model.layers.%u.block_sparse_moe.gate.weight",
                "model.layers.%u.block_sparse_moe.experts.%u.w1.weight",
                "model.layers.%u.block_sparse_moe.experts.%u.w3.weight",
                "model.layers.%u.block_sparse_moe.experts.%u.w2.weight");
    write_gguf(&m, s.dir);
    compare_and_close(&s);
}

TEST(a_gguf_mixtral_is_the_same_model) {
    check_mixtral(false);
}
TEST(fused_queries_keys_and_values_are_the_same_model) {
    check_mixtral(true);
}

/* Every `step`-th column from `first` on of [experts, in, out], as [experts, columns, in]. */
static void turn_experts(struct gguf_maker *m, const struct source *s, const char *to,
                         const char *from, uint32_t layer, uint32_t first, uint32_t step) {
    char name[TENSOR_NAME_MAX];
    const struct tensor *t = tensor_of(s, from, layer, 0);
    uint64_t in = t->dims[1], out = t->dims[2], dims[] = {t->dims[0], out / step, in, 0};
    float *data = calloc(t->dims[0] * dims[1] * in, sizeof *data);
    for (uint64_t e = 0; e < t->dims[0]; e++)
        for (uint64_t r = 0; r < dims[1]; r++)
            for (uint64_t c = 0; c < in; c++)
                memcpy(&data[(e * dims[1] + r) * in + c],
                       t->data + ((e * in + c) * out + r * step + first) * 4, 4);
    put_numbers(to, layer, 0, name);
    add_tensor(m, name, dims, data);
    free(data);
}
/* The same of a bias [experts, out]. */
static void part_bias(struct gguf_maker *m, const struct source *s, const char *to,
                      const char *from, uint32_t layer, uint32_t first, uint32_t step) {
    char name[TENSOR_NAME_MAX];
    const struct tensor *t = tensor_of(s, from, layer, 0);
    uint64_t dims[] = {t->dims[0], t->dims[1] / step, 0}, count = dims[0] * dims[1];
    float *data = calloc(count, sizeof *data);
    for (uint64_t i = 0; i < count; i++)
        memcpy(&data[i], t->data + (i * step + first) * 4, 4);
    put_numbers(to, layer, 0, name);
    add_tensor(m, name, dims, data);
    free(data);
}

TEST(a_gguf_gpt_oss_is_the_same_model) {
    static const char *const COPIED[][2] = {
        {"blk.%u.attn_q.weight", "model.layers.%u.self_attn.q_proj.weight"},
        {"blk.%u.attn_k.weight", "model.layers.%u.self_attn.k_proj.weight"},
        {"blk.%u.attn_v.weight", "model.layers.%u.self_attn.v_proj.weight"},
        {"blk.%u.attn_q.bias", "model.layers.%u.self_attn.q_proj.bias"},
        {"blk.%u.attn_k.bias", "model.layers.%u.self_attn.k_proj.bias"},
        {"blk.%u.attn_v.bias", "model.layers.%u.self_attn.v_proj.bias"},
        {"blk.%u.attn_output.bias", "model.layers.%u.self_attn.o_proj.bias"},
        {"blk.%u.attn_sinks.weight", "model.layers.%u.self_attn.sinks"},
        {"blk.%u.ffn_gate_inp.weight", "model.layers.%u.mlp.router.weight"},
        {"blk.%u.ffn_gate_inp.bias", "model.layers.%u.mlp.router.bias"},
        {"blk.%u.ffn_down_exps.bias", "model.layers.%u.mlp.experts.down_proj_bias"}};
    static const char GATE_UP[] = "model.layers.%u.mlp.experts.gate_up_proj",
                      GATE_UP_BIAS[] = "model.layers.%u.mlp.experts.gate_up_proj_bias";
    struct source s;
    struct gguf_maker m = {0};
    open_source(&s, "gpt_oss");
    put_common(&m, &s, "gpt-oss", 32, 4, 1e-5f, 150000);
    add_u32(&m, "gpt-oss.attention.key_length", 16);
    add_u32(&m, "gpt-oss.attention.sliding_window", 20);
    add_u32(&m, "gpt-oss.expert_count", 5);
    add_u32(&m, "gpt-oss.expert_used_count", 2);
    add_u32(&m, "gpt-oss.expert_feed_forward_length", 32);
    add_f32(&m, "gpt-oss.rope.scaling.factor", 8);
    add_u32(&m, "gpt-oss.rope.scaling.original_context_length", 64);
    struct buf yarn;
    buf_init(&yarn, 0);
    put_string(&yarn, "yarn");
    add_kv(&m, "gpt-oss.rope.scaling.type", 8, yarn.data, yarn.len);
    buf_release(&yarn);
    for (uint32_t i = 0; i < 4; i++) {
        for (size_t c = 0; c < ARRAY_LEN(COPIED); c++)
            copy_tensor(&m, &s, COPIED[c][0], COPIED[c][1], i);
        turn_experts(&m, &s, "blk.%u.ffn_gate_exps.weight", GATE_UP, i, 0, 2);
        turn_experts(&m, &s, "blk.%u.ffn_up_exps.weight", GATE_UP, i, 1, 2);
        turn_experts(&m, &s, "blk.%u.ffn_down_exps.weight", "model.layers.%u.mlp.experts.down_proj",
                     i, 0, 1);
        part_bias(&m, &s, "blk.%u.ffn_gate_exps.bias", GATE_UP_BIAS, i, 0, 2);
        part_bias(&m, &s, "blk.%u.ffn_up_exps.bias", GATE_UP_BIAS, i, 1, 2);
    }
    write_gguf(&m, s.dir);
    compare_and_close(&s);
}
