/*
 * Tiny random models of the Llama family against an independent reference
 * (tests/goldens/make_llama_goldens.py, which agrees with transformers to 5e-7): logits of one
 * prefill, of single tokens, of mixed chunks; bitwise equal among each other.
 *
 * Tolerances of ||difference|| / ||reference||: 1e-4 with an f32 cache (f32 rounding through three
 * layers), 1e-2 with an f16 cache.
 */
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "kernels/philox.h"
#include "rig.h"

struct golden_tensor {
    char name[128];
    uint32_t dims[2], dim_count;
    double mean, sigma;
};

struct llama_golden {
    char dtype[8];
    int64_t seed, shards;
    struct buf config;
    VEC(struct golden_tensor) tensors;
    VEC(uint32_t) tokens;
    VEC(uint32_t) rows;
    VEC(float) logits; /* [rows, vocab] */
};

/* ---- reading ---- */

static bool read_u32s(struct json_reader *r, uint32_t **items, size_t *count) {
    enum json_event ev;
    VEC(uint32_t) v = {0};
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_NUMBER) {
        int64_t x = 0;
        if (!json_number_int64(r->text, &x))
            return false;
        vec_push(&v, (uint32_t)x);
    }
    *items = v.items;
    *count = v.count;
    return ev == JSON_ARRAY_END;
}

static bool read_logits(struct json_reader *r, struct llama_golden *g) {
    enum json_event ev;
    double x;
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    while ((ev = json_next(r)) == JSON_ARRAY_BEGIN)
        while ((ev = json_next(r)) == JSON_NUMBER) {
            if (!json_number_double(r->text, &x))
                return false;
            vec_push(&g->logits, (float)x);
        }
    return ev == JSON_ARRAY_END;
}

static bool read_tensor(struct json_reader *r, struct golden_tensor *t) {
    enum json_event ev;
    struct bytes text;
    while ((ev = json_next(r)) == JSON_KEY) {
        bool ok = true;
        if (bytes_equal(r->text, bytes_str("name"))) {
            ok = json_read_string(r, &text) && text.len < sizeof t->name;
            if (ok)
                memcpy(t->name, text.data, text.len);
        } else if (bytes_equal(r->text, bytes_str("mean"))) {
            ok = json_read_double(r, &t->mean);
        } else if (bytes_equal(r->text, bytes_str("sigma"))) {
            ok = json_read_double(r, &t->sigma);
        } else {
            uint32_t *dims;
            size_t count;
            ok = read_u32s(r, &dims, &count) && count <= 2;
            if (ok)
                memcpy(t->dims, dims, count * sizeof *dims);
            t->dim_count = (uint32_t)count;
            mem_free(dims);
        }
        if (!ok)
            return false;
    }
    return ev == JSON_OBJECT_END;
}

static bool read_field(struct json_reader *r, struct llama_golden *g, struct bytes file) {
    struct bytes key = r->text, text;
    if (bytes_equal(key, bytes_str("dtype"))) {
        if (!json_read_string(r, &text) || text.len >= sizeof g->dtype)
            return false;
        memcpy(g->dtype, text.data, text.len);
        return true;
    }
    if (bytes_equal(key, bytes_str("seed")))
        return json_read_int64(r, &g->seed);
    if (bytes_equal(key, bytes_str("shards")))
        return json_read_int64(r, &g->shards);
    if (bytes_equal(key, bytes_str("tokens")))
        return read_u32s(r, &g->tokens.items, &g->tokens.count);
    if (bytes_equal(key, bytes_str("rows")))
        return read_u32s(r, &g->rows.items, &g->rows.count);
    if (bytes_equal(key, bytes_str("logits")))
        return read_logits(r, g);
    if (bytes_equal(key, bytes_str("config"))) {
        if (!json_expect(r, JSON_OBJECT_BEGIN))
            return false;
        size_t begin = r->offset;
        if (!json_skip(r))
            return false;
        buf_add(&g->config, file.data + begin, r->offset + 1 - begin);
        return true;
    }
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false; /* tensors */
    enum json_event ev;
    while ((ev = json_next(r)) == JSON_OBJECT_BEGIN) {
        struct golden_tensor t = {0};
        if (!read_tensor(r, &t))
            return false;
        vec_push(&g->tensors, t);
    }
    return ev == JSON_ARRAY_END;
}

static bool read_golden(struct llama_golden *g, const char *path) {
    struct buf text;
    struct json_reader r;
    buf_init(&text, 0);
    buf_init(&g->config, 0);
    bool ok = !file_read(path, 16 << 20, &text, NULL);
    json_reader_init(&r, buf_bytes(&text), 0, 0);
    ok = ok && json_expect(&r, JSON_OBJECT_BEGIN);
    enum json_event ev = JSON_ERROR;
    while (ok && (ev = json_next(&r)) == JSON_KEY)
        ok = read_field(&r, g, buf_bytes(&text));
    json_reader_release(&r);
    buf_release(&text);
    return ok && ev == JSON_OBJECT_END && g->rows.count && g->logits.count % g->rows.count == 0;
}

static void free_golden(struct llama_golden *g) {
    buf_release(&g->config);
    vec_release(&g->tensors);
    vec_release(&g->tokens);
    vec_release(&g->rows);
    vec_release(&g->logits);
}

/* ---- making the model ---- */

static uint64_t fnv1a(const char *s) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 0x100000001b3u;
    return h;
}

/* As the script says. */
static void draw_tensor(struct buf *out, const struct golden_tensor *t, enum storage_type type,
                        uint64_t seed) {
    uint64_t key64 = fnv1a(t->name) ^ seed;
    const uint32_t key[2] = {(uint32_t)key64, (uint32_t)(key64 >> 32)};
    float scale = (float)(t->sigma / sqrt(4 * (256.0 * 256 - 1) / 12)), mean = (float)t->mean;
    size_t count = (size_t)t->dims[0] * (t->dim_count == 2 ? t->dims[1] : 1);
    for (size_t i = 0; i < count; i++) {
        uint32_t counter[4] = {(uint32_t)(i / 4), 0, 0, 0}, w[4];
        uint8_t value[4];
        philox4x32_10(counter, key, w);
        uint32_t x = w[i % 4];
        int total = (int)((x & 255) + (x >> 8 & 255) + (x >> 16 & 255) + (x >> 24)) - 510;
        storage_put(type, value, 0, (float)total * scale + mean);
        buf_add(out, value, storage_bytes(type, 1));
    }
}

static bool put_file(const char *dir, const char *name, struct bytes data) {
    char *path = path_join(dir, name);
    bool ok = !file_write_atomic(path, data.data, data.len, 0600, NULL);
    mem_free(path);
    return ok;
}

/* Tensors first, first + step, ... as one file. */
static bool put_shard(const struct llama_golden *g, const char *dir, const char *name, size_t first,
                      size_t step, struct buf *map) {
    struct buf header, data, file;
    enum storage_type type = !strcmp(g->dtype, "F32")   ? STORAGE_F32
                             : !strcmp(g->dtype, "F16") ? STORAGE_F16
                                                        : STORAGE_BF16;
    buf_init(&header, 0);
    buf_init(&data, 0);
    buf_init(&file, 0);
    for (size_t i = first; i < g->tensors.count; i += step) {
        const struct golden_tensor *t = &g->tensors.items[i];
        size_t begin = data.len;
        draw_tensor(&data, t, type, (uint64_t)g->seed);
        buf_addf(&header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u", header.len ? "," : "{",
                 t->name, g->dtype, t->dims[0]);
        if (t->dim_count == 2)
            buf_addf(&header, ",%u", t->dims[1]);
        buf_addf(&header, "],\"data_offsets\":[%zu,%zu]}", begin, data.len);
        buf_addf(map, "%s\"%s\":\"%s\"", map->len ? "," : "{\"weight_map\":{", t->name, name);
    }
    buf_add_str(&header, "}");
    /* data at an odd offset: must be copied */
    while (header.len % 8 != 3)
        buf_add_byte(&header, ' ');
    uint64_t len = header.len;
    buf_add(&file, &len, 8);
    buf_add_bytes(&file, buf_bytes(&header));
    buf_add_bytes(&file, buf_bytes(&data));
    bool ok = put_file(dir, name, buf_bytes(&file));
    buf_release(&header);
    buf_release(&data);
    buf_release(&file);
    return ok;
}

static bool put_model(const struct llama_golden *g, const char *dir) {
    struct buf map;
    buf_init(&map, 0);
    bool ok = put_file(dir, "config.json", buf_bytes(&g->config));
    for (int64_t i = 0; ok && i < g->shards; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-%lld.safetensors", (long long)i);
        ok = put_shard(g, dir, g->shards > 1 ? name : "model.safetensors", (size_t)i,
                       (size_t)g->shards, &map);
    }
    buf_add_str(&map, "}}");
    if (ok && g->shards > 1)
        ok = put_file(dir, "model.safetensors.index.json", buf_bytes(&map));
    buf_release(&map);
    return ok;
}

static void drop_dir(const char *dir) {
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char *path = path_join(dir, e->d_name);
        unlink(path);
        mem_free(path);
    }
    if (d)
        closedir(d);
    rmdir(dir);
}

/* ---- checking ---- */

/* Logits of every position, computed in chunks; chunk 0: chunks of 1, 2, 3, ... */
static float *all_logits(struct rig *r, const struct llama_golden *g, uint32_t slot,
                         uint32_t chunk) {
    uint32_t n = (uint32_t)g->tokens.count, vocab = r->model.spec.vocab, size = chunk ? chunk : 1;
    float *out = calloc((size_t)n * vocab, sizeof *out);
    rig_admit(r, slot, g->tokens.items, n, (struct slot_state){0});
    for (uint32_t at = 0; at < n; at += size, size += chunk == 0) {
        uint32_t count = MIN(chunk ? chunk : ++size - 1, n - at), rows[RIG_ROWS];
        size -= chunk == 0;
        for (uint32_t i = 0; i < count; i++)
            rows[i] = i;
        struct step_run run = {.slot = slot, .token_count = count};
        struct step_input in = {.runs = &run,
                                .run_count = 1,
                                .row_count = count,
                                .sample_rows = rows,
                                .sample_count = count};
        forward_layers(&r->forward, r->stream, &in);
        for (uint32_t i = 0; i < count; i += HEAD_ROWS) {
            forward_logits(&r->forward, r->stream, i, MIN(count - i, (uint32_t)HEAD_ROWS));
            memcpy(out + (size_t)(at + i) * vocab, r->forward.logits,
                   (size_t)MIN(count - i, (uint32_t)HEAD_ROWS) * vocab * sizeof *out);
        }
    }
    slots_remove(&r->slots, r->stream, slot);
    return out;
}

static double relative_error(const struct llama_golden *g, const float *logits) {
    size_t vocab = g->logits.count / g->rows.count;
    double difference = 0, norm = 0;
    for (size_t i = 0; i < g->rows.count; i++)
        for (size_t v = 0; v < vocab; v++) {
            double want = g->logits.items[i * vocab + v],
                   got = logits[g->rows.items[i] * vocab + v];
            difference += (got - want) * (got - want);
            norm += want * want;
        }
    return sqrt(difference / norm);
}

static void check_one(const struct llama_golden *g, const char *name, const char *dir,
                      const char *isa, enum storage_type kv) {
    static const uint32_t chunks[] = {1, 0, 7, 33};
    struct rig r;
    struct error err = {0};
    if (!rig_open(&r, dir, isa, 2, kv, 16, &err)) {
        check_fail(__FILE__, __LINE__, "%s: %s", name, err.text);
        rig_close(&r);
        return;
    }
    float *whole = all_logits(&r, g, 3, RIG_ROWS);
    double error = relative_error(g, whole), tolerance = kv == STORAGE_F32 ? 1e-4 : 1e-2;
    if (!(error <= tolerance))
        check_fail(__FILE__, __LINE__, "%s, %s, cache %s: relative error %.3g", name, isa,
                   storage_name(kv), error);
    for (size_t c = 0; c < ARRAY_LEN(chunks) && strcmp(isa, "ref"); c++) {
        float *cut = all_logits(&r, g, (uint32_t)c + 10, chunks[c]);
        if (memcmp(cut, whole, g->tokens.count * r.model.spec.vocab * sizeof *cut))
            check_fail(__FILE__, __LINE__, "%s, %s: chunks of %u give other bits", name, isa,
                       chunks[c]);
        free(cut);
    }
    free(whole);
    rig_close(&r);
}

static void check_golden(const char *path, const char *name) {
    struct llama_golden g = {0};
    char dir[] = "/tmp/trireme-golden-XXXXXX";
    const char *isas[CPU_ISAS_MAX + 1];
    size_t n = device_cpu_isas(isas);
    isas[n++] = "ref";
    if (!mkdtemp(dir))
        abort();
    if (!read_golden(&g, path) || !put_model(&g, dir))
        check_fail(__FILE__, __LINE__, "%s cannot be read or written", name);
    else
        for (size_t i = 0; i < n; i++) {
            check_one(&g, name, dir, isas[i], STORAGE_F32);
            if (strcmp(isas[i], "ref"))
                check_one(&g, name, dir, isas[i], STORAGE_F16);
        }
    drop_dir(dir);
    free_golden(&g);
}

TEST(logits_equal_the_reference_for_every_option_of_the_family) {
    static const char folder[] = TRIREME_SOURCE_DIR "/tests/goldens/llama";
    DIR *d = opendir(folder);
    struct dirent *e;
    int count = 0;
    while (d && (e = readdir(d))) {
        if (!strstr(e->d_name, ".json"))
            continue;
        char *path = path_join(folder, e->d_name);
        check_golden(path, e->d_name);
        mem_free(path);
        count++;
    }
    if (d)
        closedir(d);
    EXPECT(count >= 9);
}
