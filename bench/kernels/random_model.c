#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fsutil.h"
#include "bench.h"

const struct random_shape RANDOM_SHAPES[] = {
    {"qwen2.5-0.5b", 896, 24, 14, 2, 64, 4864, 151936, true, true},
    {"llama-3.2-1b", 2048, 16, 32, 8, 64, 8192, 128256, true, false},
    {"llama-3.2-1b-quarter", 2048, 4, 32, 8, 64, 8192, 32064, true, false},
    {"llama-3.1-8b", 4096, 32, 32, 8, 128, 14336, 128256, false, false},
    {"llama-3.1-70b-cut", 8192, 1, 64, 8, 128, 28672, 16384, false, false},
    {"tiny", 256, 5, 4, 2, 64, 768, 3072, true, false},
    {"mini", 128, 2, 4, 2, 64, 256, 3072, true, false},
};
const int RANDOM_SHAPE_COUNT = ARRAY_LEN(RANDOM_SHAPES);

struct tensor_list {
    struct buf header;
    uint64_t offset;
};

static void declare(struct tensor_list *l, const char *name, int layer, int rows, int cols) {
    uint64_t size = (uint64_t)rows * (uint64_t)(cols ? cols : 1) * 2;
    buf_addf(&l->header, "%s\"", l->header.len > 1 ? "," : "");
    if (layer >= 0)
        buf_addf(&l->header, "model.layers.%d.", layer);
    buf_addf(&l->header, "%s\":{\"dtype\":\"BF16\",\"shape\":[%d", name, rows);
    if (cols)
        buf_addf(&l->header, ",%d", cols);
    buf_addf(&l->header, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)l->offset,
             (unsigned long long)(l->offset + size));
    l->offset += size;
}

static void declare_layer(struct tensor_list *l, const struct random_shape *s, int i) {
    int q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    declare(l, "input_layernorm.weight", i, s->hidden, 0);
    declare(l, "self_attn.q_proj.weight", i, q, s->hidden);
    declare(l, "self_attn.k_proj.weight", i, kv, s->hidden);
    declare(l, "self_attn.v_proj.weight", i, kv, s->hidden);
    declare(l, "self_attn.o_proj.weight", i, s->hidden, q);
    if (s->qkv_bias) {
        declare(l, "self_attn.q_proj.bias", i, q, 0);
        declare(l, "self_attn.k_proj.bias", i, kv, 0);
        declare(l, "self_attn.v_proj.bias", i, kv, 0);
    }
    declare(l, "post_attention_layernorm.weight", i, s->hidden, 0);
    declare(l, "mlp.gate_proj.weight", i, s->ffn, s->hidden);
    declare(l, "mlp.up_proj.weight", i, s->ffn, s->hidden);
    declare(l, "mlp.down_proj.weight", i, s->hidden, s->ffn);
}

/* Small values of both signs: bf16 of +-[2^-6, 2^-5). */
static void fill(uint16_t *out, size_t count, uint64_t *state) {
    for (size_t i = 0; i < count; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        uint32_t r = (uint32_t)(*state >> 40);
        out[i] = (uint16_t)((r & 0x8000) | 0x3c80 | (r & 0x7f));
    }
}

static int write_weights(const struct tensor_list *l, const char *path, struct error *err) {
    enum { CHUNK = 1 << 20 };
    FILE *f = fopen(path, "wbe");
    uint16_t *values =
        /* each chunk another window of them: drawing all takes long */
        malloc(2 * CHUNK * sizeof *values);
    uint64_t header_len = l->header.len, left = l->offset / 2, state = 1, first = 0;
    bool ok = f && values && fwrite(&header_len, 8, 1, f) == 1 &&
              fwrite(l->header.data, l->header.len, 1, f) == 1;
    if (values)
        fill(values, 2 * CHUNK, &state);
    while (ok && left) {
        size_t n = left < CHUNK ? (size_t)left : (size_t)CHUNK;
        ok = fwrite(values + first, sizeof *values, n, f) == n;
        first = (first + 7919 * 61) % CHUNK;
        left -= n;
    }
    free(values);
    if (f && fclose(f))
        ok = false;
    return ok ? 0 : error_set_errno(err, "cannot write '%s'", path);
}

static int write_config(const struct random_shape *s, const char *path, struct error *err) {
    struct buf b;
    buf_init(&b, 0);
    buf_addf(&b,
             "{\"architectures\":[\"%s\"],"
             "\"vocab_size\":%d,"
             "\"hidden_size\":%d,"
             "\"intermediate_size\":%d,"
             "\"num_hidden_layers\":%d,"
             "\"num_attention_heads\":%d,"
             "\"num_key_value_heads\":%d,"
             "\"head_dim\":%d,"
             "\"max_position_embeddings\":40960,"
             "\"rms_norm_eps\":1e-6,"
             "\"rope_theta\":10000.0,"
             "\"tie_word_embeddings\":%s}\n",
             s->qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM", s->vocab, s->hidden, s->ffn,
             s->layers, s->heads, s->kv_heads, s->head_dim, s->tied ? "true" : "false");
    int rc = file_write_atomic(path, b.data, b.len, 0644, err);
    buf_release(&b);
    return rc;
}

int random_model_write(const struct random_shape *s, const char *dir, struct error *err) {
    struct tensor_list l = {0};
    char *weights = path_join(dir, "model.safetensors"), *config = path_join(dir, "config.json");
    int rc = dir_make(dir, 0755, err);
    if (!rc && !file_exists(config)) {
        buf_init(&l.header, 0);
        buf_add_str(&l.header, "{");
        declare(&l, "model.embed_tokens.weight", -1, s->vocab, s->hidden);
        if (!s->tied)
            declare(&l, "lm_head.weight", -1, s->vocab, s->hidden);
        for (int i = 0; i < s->layers; i++)
            declare_layer(&l, s, i);
        declare(&l, "model.norm.weight", -1, s->hidden, 0);
        buf_add_str(&l.header, "}");
        while (l.header.len % 8)
            buf_add_byte(&l.header, ' ');
        rc = write_weights(&l, weights, err);
        if (!rc)
            rc = write_config(s, config, err);
        buf_release(&l.header);
    }
    mem_free(weights);
    mem_free(config);
    return rc;
}
