/*
 * golden.h - the tiny random models of tests/goldens/models (make.py there): reads one, makes its
 * weights, writes a model folder.
 */
#ifndef TESTS_UNIT_MODEL_GOLDEN_H
#define TESTS_UNIT_MODEL_GOLDEN_H

#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "formats/config.h"
#include "kernels/philox.h"
#include "rig.h"

struct model_golden {
    struct config json;
    const char *name, *config; /* of json */
    uint64_t seed;
    uint32_t vocab, token_count, greedy_count, row_count, bf16_row_count;
    uint32_t *tokens; /* the prompt, then the greedy continuation */
    uint32_t *rows, *bf16_rows;
    float *logits, *bf16_logits; /* [rows, vocab] */
};

/* ---- reading ---- */

static inline uint32_t *golden_uints(struct config *c, const char *name, uint32_t *count) {
    const struct config_node *list = config_find(c, 0, name);
    *count = list ? list->count : 0;
    uint32_t *out = calloc(*count + 1u, sizeof *out), n = 0;
    for (uint32_t i = list ? list->first : 0; i; i = c->nodes[i].next)
        out[n++] = (uint32_t)c->nodes[i].integer;
    return out;
}

static inline int base64_value(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* `count` little-endian floats; NULL when there are fewer. */
static inline float *golden_floats(struct config *c, const char *name, size_t count) {
    const char *text = config_text(c, 0, name, "");
    uint8_t *out = calloc(count + 1, 4);
    size_t n = 0;
    uint32_t bits = 0, have = 0;
    for (int v; (v = base64_value(*text)) >= 0 && n < count * 4; text++) {
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have >= 8)
            out[n++] = (uint8_t)(bits >> (have -= 8));
    }
    if (n == count * 4)
        return (float *)(void *)out;
    free(out);
    return NULL;
}

static inline void model_golden_free(struct model_golden *g) {
    free(g->tokens);
    free(g->rows);
    free(g->bf16_rows);
    free(g->logits);
    free(g->bf16_logits);
    config_close(&g->json);
}

static inline bool model_golden_read(struct model_golden *g, const char *path) {
    struct buf text;
    uint32_t greedy_count;
    *g = (struct model_golden){0};
    buf_init(&text, 0);
    bool ok = !file_read(path, CONFIG_BYTES_MAX, &text, NULL) &&
              !config_open(&g->json, buf_bytes(&text), NULL);
    buf_release(&text);
    if (!ok)
        return false;
    g->name = config_text(&g->json, 0, "name", "");
    g->config = config_text(&g->json, 0, "config", "");
    g->seed = (uint64_t)config_int(&g->json, 0, "seed", 0);
    g->vocab = (uint32_t)config_int(&g->json, 0, "vocab", 0);
    uint32_t *greedy = golden_uints(&g->json, "greedy", &greedy_count);
    g->tokens = golden_uints(&g->json, "tokens", &g->token_count);
    g->tokens = realloc(g->tokens, (g->token_count + greedy_count + 1) * sizeof *g->tokens);
    memcpy(g->tokens + g->token_count, greedy, greedy_count * sizeof *greedy);
    g->greedy_count = greedy_count;
    free(greedy);
    g->rows = golden_uints(&g->json, "rows", &g->row_count);
    g->bf16_rows = golden_uints(&g->json, "rows_bf16", &g->bf16_row_count);
    g->logits = golden_floats(&g->json, "logits", (size_t)g->row_count * g->vocab);
    g->bf16_logits = golden_floats(&g->json, "logits_bf16", (size_t)g->bf16_row_count * g->vocab);
    return g->logits && g->bf16_logits && g->token_count && !config_failed(&g->json);
}

/* ---- making the model ---- */

static inline uint64_t golden_fnv1a(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

/* As make.py says. */
static inline void golden_draw(struct buf *out, const char *name, uint64_t seed, size_t count,
                               double mean, double sigma, enum storage_type type) {
    uint64_t key64 = golden_fnv1a(name) ^ seed;
    const uint32_t key[2] = {(uint32_t)key64, (uint32_t)(key64 >> 32)};
    float scale = (float)(sigma / sqrt(4 * (256.0 * 256 - 1) / 12)), offset = (float)mean;
    for (size_t i = 0; i < count; i++) {
        uint32_t counter[4] = {(uint32_t)(i / 4), 0, 0, 0}, w[4];
        uint8_t value[4];
        philox4x32_10(counter, key, w);
        uint32_t x = w[i % 4];
        int total = (int)((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24)) - 510;
        storage_put(type, value, 0, (float)total * scale + offset);
        buf_add(out, value, storage_bytes(type, 1));
    }
}

static inline bool golden_put_file(const char *dir, const char *name, struct bytes data) {
    char *path = path_join(dir, name);
    bool ok = !file_write_atomic(path, data.data, data.len, 0600, NULL);
    mem_free(path);
    return ok;
}

/* One entry [name, [shape], mean, sigma] of "tensors": its header entry and its data. */
static inline void golden_put_tensor(const struct model_golden *g, const struct config_node *t,
                                     enum storage_type type, struct buf *header, struct buf *data) {
    const struct config *c = &g->json;
    const struct config_node *shape = config_item(c, t, 1);
    const char *name = config_node_text(c, config_item(c, t, 0));
    size_t begin = data->len, count = 1;
    buf_addf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", header->len ? "," : "{", name,
             type == STORAGE_F32 ? "F32" : "BF16");
    for (uint32_t i = 0; i < shape->count; i++) {
        int64_t n = config_item(c, shape, i)->integer;
        buf_addf(header, "%s%lld", i ? "," : "", (long long)n);
        count *= (size_t)n;
    }
    golden_draw(data, name, g->seed, count, config_item(c, t, 2)->number,
                config_item(c, t, 3)->number, type);
    buf_addf(header, "],\"data_offsets\":[%zu,%zu]}", begin, data->len);
}

/* config.json and model.safetensors in weights of `type`. */
static inline bool golden_put_model(struct model_golden *g, const char *dir,
                                    enum storage_type type) {
    struct buf header, data, file;
    const struct config_node *list = config_find(&g->json, 0, "tensors");
    buf_init(&header, 0);
    buf_init(&data, 0);
    buf_init(&file, 0);
    for (uint32_t i = list ? list->first : 0; i; i = g->json.nodes[i].next)
        golden_put_tensor(g, &g->json.nodes[i], type, &header, &data);
    buf_add_str(&header, "}");
    while (header.len % 8)
        buf_add_byte(&header, ' ');
    uint64_t len = header.len;
    buf_add(&file, &len, 8);
    buf_add_bytes(&file, buf_bytes(&header));
    buf_add_bytes(&file, buf_bytes(&data));
    bool ok = (!*g->config || golden_put_file(dir, "config.json", bytes_str(g->config))) &&
              golden_put_file(dir, "model.safetensors", buf_bytes(&file));
    buf_release(&header);
    buf_release(&data);
    buf_release(&file);
    return ok;
}

static inline void golden_drop_dir(const char *dir) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path = path_join(dir, names[i]);
        unlink(path);
        mem_free(path);
    }
    rmdir(dir);
}

/* ---- comparing ---- */

/* Logits [count, vocab] of all positions of a sequence in a slot, computed in chunks; chunk 0:
 * chunks of 1, 2, 3, ... */
static inline float *golden_logits(struct rig *r, const uint32_t *tokens, uint32_t count,
                                   uint32_t slot, uint32_t chunk) {
    uint32_t vocab = r->model.spec.vocab, size = chunk ? chunk : 1;
    float *out = calloc((size_t)count * vocab, sizeof *out);
    rig_admit(r, slot, tokens, count, (struct slot_state){.prompt_count = count});
    for (uint32_t at = 0, n; at < count; at += n, size += chunk == 0) {
        uint32_t rows[RIG_ROWS];
        n = MIN(size, count - at);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = i;
        struct step_run run = {.slot = slot, .token_count = n};
        struct step_input in = {
            .runs = &run, .run_count = 1, .row_count = n, .sample_rows = rows, .sample_count = n};
        forward_layers(&r->forward, r->stream, &in);
        for (uint32_t i = 0; i < n && shard_is_last(&r->model.shard); i += HEAD_ROWS) {
            uint32_t part = MIN(n - i, (uint32_t)HEAD_ROWS);
            forward_logits(&r->forward, r->stream, i, part);
            memcpy(out + (size_t)(at + i) * vocab, r->forward.logits,
                   (size_t)part * vocab * sizeof *out);
        }
    }
    slots_remove(&r->slots, r->stream, slot);
    return out;
}

/* ||got - want|| / ||want|| over the rows. */
static inline double golden_error(const float *got, const float *want, const uint32_t *rows,
                                  uint32_t count, uint32_t vocab) {
    double difference = 0, norm = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t v = 0; v < vocab; v++) {
            double w = want[(size_t)i * vocab + v], d = got[(size_t)rows[i] * vocab + v] - w;
            difference += d * d;
            norm += w * w;
        }
    return sqrt(difference / norm);
}

#endif
