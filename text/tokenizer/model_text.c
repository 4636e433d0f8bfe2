#include "text/tokenizer/model_text.h"

#include "formats/json.h"

/* ---- walking JSON whose grammar is known to be right ---- */

struct walk {
    const uint8_t *p, *end;
    struct buf text; /* of a string with escapes */
};

static int skip_spaces(struct walk *w) {
    while (w->p < w->end && (*w->p == ' ' || *w->p == '\n' || *w->p == '\r' || *w->p == '\t')) w->p++;
    return w->p < w->end ? *w->p : -1;
}

/* The character, past white space, taken when it is there. */
static bool take(struct walk *w, char c) {
    if (skip_spaces(w) != c) return false;
    w->p++;
    return true;
}

static bool decode_escapes(struct walk *w, struct bytes quoted, struct bytes *out) {
    struct json_reader r;
    json_reader_init(&r, quoted, 1, JSON_ALLOW_NUL);
    bool ok = json_next(&r) == JSON_STRING;
    buf_reset(&w->text);
    if (ok) buf_add_bytes(&w->text, r.text);
    json_reader_release(&r);
    *out = bytes_of(buf_text(&w->text), w->text.len);
    return ok && !w->text.failed;
}

/* A string, as a view into the input or, with escapes, into w->text. */
static bool take_string(struct walk *w, struct bytes *out) {
    if (skip_spaces(w) != '"') return false;
    const uint8_t *begin = w->p, *p = begin + 1;
    bool escaped = false;
    while (p < w->end && *p != '"') {
        if (*p == '\\') {
            escaped = true;
            p++;
        }
        p++;
    }
    if (p >= w->end) return false;
    w->p = p + 1;
    if (escaped) return decode_escapes(w, bytes_of(begin, (size_t)(p + 1 - begin)), out);
    *out = bytes_of(begin + 1, (size_t)(p - begin - 1));
    return true;
}

/* ---- vocabulary ---- */

static bool take_id(struct walk *w, uint32_t *id) {
    int64_t value;
    skip_spaces(w);
    const uint8_t *begin = w->p;
    while (w->p < w->end && *w->p != ',' && *w->p != '}' && *w->p != ' ' && *w->p != '\n' && *w->p != '\r' &&
           *w->p != '\t')
        w->p++;
    struct bytes text = bytes_of(begin, (size_t)(w->p - begin));
    uint64_t plain = 0;
    bool digits = text.len && text.len <= 9;
    for (size_t i = 0; i < text.len && digits; i++) {
        digits = text.data[i] >= '0' && text.data[i] <= '9';
        plain = plain * 10 + (text.data[i] - '0');
    }
    if (digits) {
        *id = (uint32_t)plain;
        return true;
    }
    if (!json_number_int64(text, &value) || value < 0) return false;
    *id = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    return true;
}

int model_read_vocab(struct bytes raw, struct vocab *v, struct error *err) {
    struct walk w = {raw.data, raw.data + raw.len, {0}};
    struct bytes key;
    uint32_t id;
    bool ok = take(&w, '{');
    int rc = 0;
    buf_reserve(&v->pool, raw.len / 2);
    for (bool first = true; ok && !rc && !take(&w, '}'); first = false) {
        ok = (first || take(&w, ',')) && take_string(&w, &key) && take(&w, ':') && take_id(&w, &id);
        if (ok) rc = vocab_add(v, key, id, err);
    }
    buf_release(&w.text);
    return rc || ok ? rc : error_set(err, ERR_INVALID, "tokenizer.json: bad vocabulary entry");
}

static bool take_score(struct walk *w, double *score) {
    skip_spaces(w);
    const uint8_t *begin = w->p;
    while (w->p < w->end && *w->p != ']' && *w->p != ' ' && *w->p != '\n' && *w->p != '\r' && *w->p != '\t') w->p++;
    return json_number_double(bytes_of(begin, (size_t)(w->p - begin)), score);
}

int model_read_scored(struct bytes raw, struct vocab *v, double **scores, struct error *err) {
    struct walk w = {raw.data, raw.data + raw.len, {0}};
    VEC(double) list = {0};
    struct bytes key;
    double score;
    bool ok = take(&w, '[');
    int rc = 0;
    for (bool first = true; ok && !rc && !take(&w, ']'); first = false) {
        ok = (first || take(&w, ',')) && take(&w, '[') && take_string(&w, &key);
        if (ok) rc = vocab_add(v, key, (uint32_t)list.count, err); /* before the next read, which may overwrite key */
        ok = ok && take(&w, ',') && take_score(&w, &score) && take(&w, ']');
        if (ok && !rc) vec_push(&list, score);
    }
    buf_release(&w.text);
    *scores = list.items;
    return rc || ok ? rc : error_set(err, ERR_INVALID, "tokenizer.json: bad vocabulary entry %zu", list.count);
}

/* ---- merges ---- */

enum { BATCH = 64 };

struct pair_text {
    uint32_t start, left_len, right_len; /* keys in batch.text, right behind left */
    uint64_t left_hash, right_hash;
};

struct merge_batch {
    const struct vocab *vocab;
    struct bpe *bpe;
    struct error *err;
    struct buf text;
    size_t prefix_len; /* what joining takes off the right side */
    bool lenient;      /* merges of absent tokens are passed over */
    struct pair_text pairs[BATCH];
    struct bpe_merge merges[BATCH];
    size_t count;
    uint32_t last_result; /* results mostly rise by one or stay */
};

static uint32_t find_result(struct merge_batch *m, const uint8_t *key, size_t len) {
    for (uint32_t guess = m->last_result; guess <= m->last_result + 1; guess++)
        if (bytes_equal(vocab_key(m->vocab, guess), bytes_of(key, len)) && !(m->vocab->flags[guess] & VOCAB_LITERAL))
            return guess;
    return vocab_find(m->vocab, key, len);
}

/* The token of left and right without the prefix of continuations. */
static uint32_t find_joined(struct merge_batch *m, const uint8_t *left, const struct pair_text *p) {
    struct buf joined = {0};
    buf_add(&joined, left, p->left_len);
    if (p->right_len >= m->prefix_len)
        buf_add(&joined, left + p->left_len + m->prefix_len, p->right_len - m->prefix_len);
    uint32_t id = vocab_find(m->vocab, (const uint8_t *)buf_text(&joined), joined.len);
    buf_release(&joined);
    return id;
}

static int flush(struct merge_batch *m) {
    const uint8_t *text = (const uint8_t *)buf_text(&m->text);
    for (size_t i = 0; i < m->count; i++) {
        struct pair_text *p = &m->pairs[i];
        p->left_hash = vocab_hash(m->vocab, text + p->start, p->left_len);
        p->right_hash = vocab_hash(m->vocab, text + p->start + p->left_len, p->right_len);
        vocab_prefetch(m->vocab, p->left_hash);
        vocab_prefetch(m->vocab, p->right_hash);
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct pair_text *p = &m->pairs[i];
        const uint8_t *left = text + p->start;
        if (!p->left_len || !p->right_len)
            return error_set(m->err, ERR_INVALID, "tokenizer.json: merge %zu has an empty side",
                             m->bpe->rank_count + i);
        struct bpe_merge *merge = &m->merges[i];
        merge->left = vocab_find_hashed(m->vocab, left, p->left_len, p->left_hash);
        merge->right = vocab_find_hashed(m->vocab, left + p->left_len, p->right_len, p->right_hash);
        merge->result =
            m->prefix_len ? find_joined(m, left, p) : find_result(m, left, (size_t)p->left_len + p->right_len);
        if (m->lenient && (merge->left == UINT32_MAX || merge->right == UINT32_MAX || merge->result == UINT32_MAX)) {
            merge->left = UINT32_MAX;
            continue;
        }
        if (merge->left == UINT32_MAX || merge->right == UINT32_MAX || merge->result == UINT32_MAX)
            return error_set(m->err, ERR_INVALID,
                             "tokenizer.json: merge %zu names a token that is not in the vocabulary",
                             m->bpe->rank_count + i);
        m->last_result = merge->result;
        bpe_prefetch(m->bpe, merge->left, merge->right);
    }
    for (size_t i = 0; i < m->count; i++)
        if (m->merges[i].left != UINT32_MAX)
            bpe_add_merge(m->bpe, m->merges[i].left, m->merges[i].right, m->merges[i].result);
    m->count = 0;
    buf_reset(&m->text);
    return 0;
}

/* Appends the side's key; false when it has characters that are no bytes. */
static bool add_side(struct merge_batch *m, struct bytes side, uint32_t *len) {
    size_t before = m->text.len;
    if (m->vocab->byte_level) {
        if (!byte_alphabet_decode(side, &m->text)) return false;
    } else {
        buf_add_bytes(&m->text, side);
    }
    *len = (uint32_t)(m->text.len - before);
    return !m->text.failed;
}

/* One string with exactly one space. */
static bool add_sides(struct merge_batch *m, struct bytes text, struct pair_text *p) {
    p->start = (uint32_t)m->text.len;
    const uint8_t *space = text.len ? memchr(text.data, ' ', text.len) : NULL, *end = text.data + text.len;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1))) return false;
    return add_side(m, bytes_of(text.data, (size_t)(space - text.data)), &p->left_len) &&
           add_side(m, bytes_of(space + 1, (size_t)(end - space - 1)), &p->right_len);
}

/* Two strings of an inner array, or one. */
static bool take_merge(struct merge_batch *m, struct walk *w, struct pair_text *p) {
    struct bytes text;
    p->start = (uint32_t)m->text.len;
    if (take(w, '['))
        return take_string(w, &text) && add_side(m, text, &p->left_len) && take(w, ',') && take_string(w, &text) &&
               add_side(m, text, &p->right_len) && take(w, ']');
    return take_string(w, &text) && add_sides(m, text, p);
}

/* An upper bound of the merges in the array, by its commas: one a merge, or two where merges are pairs. */
static size_t count_merges(struct bytes raw) {
    if (!raw.len) return 0;
    struct walk w = {raw.data, raw.data + raw.len, {0}};
    size_t commas = 0;
    bool pairs = take(&w, '[') && skip_spaces(&w) == '[';
    for (size_t i = 0; i < raw.len; i++) commas += raw.data[i] == ',';
    return (pairs ? commas / 2 : commas) + 1;
}

int model_read_merges(struct bytes raw, const struct vocab *v, size_t prefix_len, struct bpe *b, struct error *err) {
    struct merge_batch m = {.vocab = v, .bpe = b, .err = err, .prefix_len = prefix_len};
    bpe_init(b, v, count_merges(raw));
    if (!raw.len) return 0;
    struct walk w = {raw.data, raw.data + raw.len, {0}};
    bool ok = take(&w, '[');
    int rc = 0;
    for (bool first = true; ok && !rc && !take(&w, ']'); first = false) {
        ok = (first || take(&w, ',')) && take_merge(&m, &w, &m.pairs[m.count]);
        if (ok && ++m.count == BATCH) rc = flush(&m);
    }
    if (ok && !rc) rc = flush(&m);
    if (!ok && !rc)
        rc = error_set(err, ERR_INVALID, "tokenizer.json: merge %zu is not two tokens of this vocabulary",
                       b->rank_count + m.count);
    buf_release(&w.text);
    buf_release(&m.text);
    return rc;
}

int model_take_merges(model_next_fn *next, void *ctx, size_t count, const struct vocab *v, struct bpe *b,
                      struct error *err) {
    struct merge_batch m = {.vocab = v, .bpe = b, .err = err, .lenient = true};
    struct bytes text;
    int rc = 0;
    bpe_init(b, v, count);
    for (size_t i = 0; i < count && !rc && next(ctx, &text); i++) {
        size_t before = m.text.len;
        if (add_sides(&m, text, &m.pairs[m.count]) && m.pairs[m.count].left_len && m.pairs[m.count].right_len)
            m.count++;
        else if (m.text.failed)
            rc = error_set(err, ERR_MEMORY, "out of memory for merges");
        else
            m.text.len = before;
        if (m.count == BATCH) rc = flush(&m);
    }
    if (!rc) rc = flush(&m);
    buf_release(&m.text);
    return rc;
}
