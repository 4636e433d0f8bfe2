#include "rogue/tiny_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fsutil.h"

enum { HIDDEN = 32, HEAD = 16, FFN = 48 };

static const struct weight {
    const char *name;
    int rows, columns; /* columns 0: a vector */
} WEIGHTS[] = {
    {"model.embed_tokens.weight", TINY_VOCAB, HIDDEN},
    {"model.norm.weight", HIDDEN, 0},
    {"model.layers.0.input_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.post_attention_layernorm.weight", HIDDEN, 0},
    {"model.layers.0.self_attn.q_proj.weight", 2 * HEAD, HIDDEN},
    {"model.layers.0.self_attn.k_proj.weight", HEAD, HIDDEN},
    {"model.layers.0.self_attn.v_proj.weight", HEAD, HIDDEN},
    {"model.layers.0.self_attn.o_proj.weight", HIDDEN, 2 * HEAD},
    {"model.layers.0.mlp.gate_proj.weight", FFN, HIDDEN},
    {"model.layers.0.mlp.up_proj.weight", FFN, HIDDEN},
    {"model.layers.0.mlp.down_proj.weight", HIDDEN, FFN},
};
static const char *const FILES[] = {"tokenizer.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "generation_config.json"};
static char folder[] = "/tmp/trireme-tiny-XXXXXX";

static void put(const char *name, const struct buf *content) {
    struct error err;
    char *path = path_join(folder, name);
    CHECK(!content->failed);
    CHECK(file_write_atomic(path, content->data, content->len, 0600, &err) == 0);
    mem_free(path);
}

static int value_count(const struct weight *w) {
    return w->rows * (w->columns ? w->columns : 1);
}

static void put_config(void) {
    struct buf out = {0};
    buf_addf(&out,
             "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\","
             "\"vocab_size\":%d,\"hidden_size\":%d,\"intermediate_size\":%d,"
             "\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
             "\"head_dim\":%d,\"hidden_act\":\"silu\",\"max_position_embeddings\":%d,"
             "\"rope_theta\":10000.0,\"rms_norm_eps\":1e-05,\"tie_word_embeddings\":true,"
             "\"torch_dtype\":\"float32\"}",
             TINY_VOCAB, HIDDEN, FFN, HEAD, TINY_CONTEXT);
    put("config.json", &out);
    buf_release(&out);
}

static void put_weights(void) {
    struct buf header = {0}, out = {0};
    size_t at = 0;
    uint64_t x = 1;
    buf_add_byte(&header, '{');
    for (size_t i = 0; i < sizeof WEIGHTS / sizeof *WEIGHTS; i++) {
        const struct weight *w = &WEIGHTS[i];
        size_t bytes = (size_t)value_count(w) * sizeof(float);
        buf_addf(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d", i ? "," : "", w->name,
                 w->rows);
        if (w->columns)
            buf_addf(&header, ",%d", w->columns);
        buf_addf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    buf_add_byte(&header, '}');
    while (header.len % 8)
        buf_add_byte(&header, ' ');
    uint64_t header_len = header.len;
    buf_add(&out, &header_len, sizeof header_len);
    buf_add(&out, header.data, header.len);
    for (size_t i = 0; i < at / sizeof(float); i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        float v = (float)(x >> 40) / (float)(1 << 23) - 1;
        buf_add(&out, &v, sizeof v);
    }
    put("model.safetensors", &out);
    buf_release(&header);
    buf_release(&out);
}

static void remove_folder(void) {
    static const char *const OWN[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < ARRAY_LEN(FILES) + ARRAY_LEN(OWN); i++) {
        char *path = path_join(folder, i < ARRAY_LEN(OWN) ? OWN[i] : FILES[i - ARRAY_LEN(OWN)]);
        unlink(path);
        mem_free(path);
    }
    rmdir(folder);
}

const char *tiny_model(void) {
    static bool made;
    struct error err;
    if (made)
        return folder;
    made = true;
    CHECK(mkdtemp(folder));
    atexit(remove_folder);
    put_config();
    put_weights();
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        struct buf content = {0};
        char *path = path_join(TRIREME_SOURCE_DIR "/demo/model", FILES[i]);
        CHECK(file_read_any(path, 1 << 20, &content, &err) == 0);
        put(FILES[i], &content);
        buf_release(&content);
        mem_free(path);
    }
    return folder;
}
