/*
 * gguf_reader.h - a GGUF file's keys as fields of a config.json in the making: what gguf_model.c
 * and gguf_state.c share.
 *
 * Threading: none.
 */
#ifndef MODEL_GGUF_READER_H
#define MODEL_GGUF_READER_H

#include "formats/json.h"
#include "model/read/gguf_model.h"

#include <stdio.h>
#include <stdlib.h>

struct reader {
    const struct gguf *g;
    const struct gguf_arch *arch;
    struct json_writer *w;
    int64_t layers; /* block_count without layers for drafting, at most SPEC_LAYERS_MAX */
};

/* The metadata "ARCHITECTURE.suffix"; NULL: the file has none. */
static inline const struct gguf_kv *find(const struct reader *r, const char *suffix) {
    char key[GGUF_NAME_MAX];
    snprintf(key, sizeof key, "%s.%s", r->arch->name, suffix);
    return gguf_find(r->g, key);
}

/* A number, or an array of equal ones (per layer). */
static inline bool find_int(const struct reader *r, const char *suffix, int64_t *out) {
    const struct gguf_kv *kv = find(r, suffix);
    int64_t other;
    if (!kv || !gguf_int_at(kv, 0, out))
        return false;
    for (uint64_t i = 1; i < kv->count; i++)
        if (!gguf_int_at(kv, i, &other) || other != *out)
            return false;
    return true;
}

/* A number, no array; false: the file has none. */
static inline bool find_double(const struct reader *r, const char *suffix, double *out) {
    const struct gguf_kv *kv = find(r, suffix);
    return kv && !kv->is_array && gguf_double_at(kv, 0, out);
}

/* f32 metadata holds numbers people wrote in decimal: the shortest text that rounds to the same
 * f32. */
static inline double as_written(double v) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if ((float)strtod(text, NULL) == (float)v)
            return strtod(text, NULL);
    }
    return v;
}

/* Whether the architecture is in a list like ",a,b,"; NULL: all are; "!" before it: all that it
 * does not name. */
static inline bool is_listed(const struct reader *r, const char *list) {
    char name[80];
    snprintf(name, sizeof name, ",%s,", r->arch->name);
    return !list || (strstr(list, name) != NULL) == (*list != '!');
}

/* By its full name, as blk.0.attn_q.weight. */
static inline bool has_tensor(const struct reader *r, const char *name) {
    return safetensors_find(&r->g->set, name) != NULL;
}

enum key_kind { KEY_INT, KEY_REAL, KEY_BOOL };

/* False: the file has no such value. */
static inline bool write_value(const struct reader *r, const char *suffix, const char *field,
                               enum key_kind kind) {
    int64_t i = 0;
    double v = 0;
    bool have = kind == KEY_REAL ? find_double(r, suffix, &v) : find_int(r, suffix, &i);
    if (!have)
        return false;
    json_key(r->w, field);
    if (kind == KEY_REAL)
        json_double(r->w, as_written(v));
    else if (kind == KEY_BOOL)
        json_bool(r->w, i != 0);
    else
        json_int(r->w, i);
    return true;
}

/* A number that others are divided by. */
static inline int find_divisor(const struct reader *r, const char *suffix, int64_t *out,
                               struct error *err) {
    if (find_int(r, suffix, out) && *out > 0)
        return 0;
    return error_set(err, ERR_INVALID, "'%s.%s' is missing or zero", r->arch->name, suffix);
}

/* ---- gguf_state.c ---- */

/* Lists for is_listed: of layers that carry a state, and nothing else; with attention among
 * them. */
#define STATES     ",mamba,mamba2,"
#define HYBRIDS    ",lfm2,jamba,granitehybrid,nemotron_h,nemotron_h_moe,"
#define DELTA      ",qwen3next,qwen35,"
#define NEMOTRON_H ",nemotron_h,nemotron_h_moe,"
/* Positions see those behind them too. */
#define ENCODERS ",bert,nomic-bert,jina-bert-v2,modern-bert,"

/* Heads of keys: of hybrids those of the layers that have some. False: there is no such key, or
 * they differ. */
bool gguf_kv_heads(const struct reader *r, int64_t *out);
/* False: of architectures without rotation, and of Granite's where it is switched off. */
bool gguf_rotates(const struct reader *r);
/* What the layers of STATES, HYBRIDS and DELTA are, beyond keys that are fields. */
MUST_CHECK int gguf_write_state(const struct reader *r, struct error *err);

/* ---- gguf_encoder.c ---- */

/* All fields of ENCODERS but the number of layers. */
MUST_CHECK int gguf_write_encoder(const struct reader *r, struct error *err);
/* Of a model that scores: what its labels are called. */
void gguf_write_labels(const struct reader *r);

#endif
