#include "text/tokenizer/model_text.h"

#include "formats/json.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- vocabulary ---- */

static int reader_error(const struct json_reader *r, struct error *err) {
    return error_set(err, r->error.code ? r->error.code : ERR_INVALID, "tokenizer.json: %s",
                     r->error.code ? r->error.text : "bad vocabulary or merges");
}

/* An id from a number's text; one too large is UINT32_MAX, which no vocabulary takes. */
static bool read_id(struct bytes text, uint32_t *id) {
    int64_t value = 0;
    bool plain = text.len <= 9;
    for (size_t i = 0; i < text.len && plain; i++) {
        plain = text.data[i] >= '0' && text.data[i] <= '9';
        value = value * 10 + (text.data[i] - '0');
    }
    if (!plain && (!json_number_int64(text, &value) || value < 0))
        return false;
    *id = (uint32_t)MIN(value, (int64_t)UINT32_MAX);
    return true;
}

int model_read_vocab(struct json_reader *r, struct vocab *v, struct error *err) {
    enum json_event event;
    uint32_t id;
    while ((event = json_next(r)) == JSON_KEY) {
        size_t start = v->pool.len;
        buf_add_bytes(&v->pool, r->text);
        if (json_next(r) != JSON_NUMBER || !read_id(r->text, &id)) {
            if (r->error.code)
                return reader_error(r, err);
            return error_set(err, ERR_INVALID,
                             "tokenizer.json: the id of \"%.*s\" in vocab is no id",
                             (int)MIN(v->pool.len - start, (size_t)64), buf_text(&v->pool) + start);
        }
        int rc = vocab_claim(v, start, id, err);
        if (rc)
            return rc;
    }
    return event == JSON_OBJECT_END ? 0 : reader_error(r, err);
}

static bool read_scored(struct json_reader *r, struct buf *pool, double *score) {
    if (json_next(r) != JSON_STRING)
        return false;
    buf_add_bytes(pool, r->text);
    return json_next(r) == JSON_NUMBER && json_number_double(r->text, score) &&
           json_next(r) == JSON_ARRAY_END;
}

int model_read_scored(struct json_reader *r, struct vocab *v, double **scores, struct error *err) {
    VEC(double) list = {0};
    enum json_event event;
    double score;
    int rc = 0;
    while (!rc && (event = json_next(r)) == JSON_ARRAY_BEGIN) {
        size_t start = v->pool.len;
        if (!read_scored(r, &v->pool, &score))
            rc = error_set(err, ERR_INVALID,
                           "tokenizer.json: entry %zu of vocab is no [token, score]", list.count);
        else
            rc = vocab_claim(v, start, (uint32_t)list.count, err);
        if (!rc)
            vec_push(&list, score);
    }
    *scores = list.items;
    return rc || event == JSON_ARRAY_END ? rc : reader_error(r, err);
}

/* ---- merges ---- */

enum { BATCH = 64 };

struct pair_text {
    uint32_t start, left_len, right_len; /* keys in batch.text, right behind left */
};

struct merge_batch {
    const struct vocab *vocab;
    struct bpe *bpe;
    struct error *err;
    struct buf text;
    size_t prefix_len; /* what joining takes off the right side */
    bool lenient;      /* merges of absent tokens are passed over */
    struct pair_text pairs[BATCH];
    struct vocab_lookup sides[2 * BATCH]; /* left, right */
    size_t count;
    uint32_t last_result; /* results mostly rise by one or stay */
};

static uint32_t find_result(struct merge_batch *m, const uint8_t *key, size_t len) {
    for (uint32_t guess = m->last_result; guess <= m->last_result + 1; guess++)
        if (bytes_equal(vocab_key(m->vocab, guess), bytes_of(key, len)) &&
            !(m->vocab->flags[guess] & VOCAB_LITERAL))
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

static int bad_merge(const struct merge_batch *m, size_t i, const char *what) {
    return error_set(m->err, ERR_INVALID, "tokenizer.json: merge %zu %s", m->bpe->rank_count + i,
                     what);
}

static int find_sides(struct merge_batch *m) {
    const uint8_t *text = (const uint8_t *)buf_text(&m->text);
    for (size_t i = 0; i < m->count; i++) {
        const struct pair_text *p = &m->pairs[i];
        const uint8_t *left = text + p->start;
        if (!p->left_len || !p->right_len)
            return bad_merge(m, i, "has an empty side");
        m->sides[2 * i] = (struct vocab_lookup){.key = left, .len = p->left_len};
        m->sides[2 * i + 1] = (struct vocab_lookup){.key = left + p->left_len, .len = p->right_len};
    }
    vocab_find_many(m->vocab, m->sides, 2 * m->count);
    return 0;
}

/* Merge i of the batch, whose sides are found. */
static int add_merge(struct merge_batch *m, size_t i) {
    const struct pair_text *p = &m->pairs[i];
    uint32_t left = m->sides[2 * i].id, right = m->sides[2 * i + 1].id, result = UINT32_MAX;
    const uint8_t *key = m->sides[2 * i].key;
    if (left != UINT32_MAX && right != UINT32_MAX)
        result = m->prefix_len ? find_joined(m, key, p)
                               : find_result(m, key, (size_t)p->left_len + p->right_len);
    if (result == UINT32_MAX)
        return m->lenient ? 0 : bad_merge(m, 0, "names a token that is not in the vocabulary");
    m->last_result = result;
    bpe_add_merge(m->bpe, left, right, result);
    return 0;
}

static int flush(struct merge_batch *m) {
    int rc = find_sides(m);
    for (size_t i = 0; i < m->count && !rc; i++)
        bpe_prefetch(m->bpe, m->sides[2 * i].id, m->sides[2 * i + 1].id);
    for (size_t i = 0; i < m->count && !rc; i++)
        rc = add_merge(m, i);
    m->count = 0;
    buf_reset(&m->text);
    return rc;
}

/* Appends the side's key; false when it has characters that are no bytes. */
static bool add_side(struct merge_batch *m, struct bytes side, uint32_t *len) {
    size_t before = m->text.len;
    if (m->vocab->byte_level) {
        if (!byte_alphabet_to_bytes(side, &m->text))
            return false;
    } else {
        buf_add_bytes(&m->text, side);
    }
    *len = (uint32_t)(m->text.len - before);
    return !m->text.failed;
}

/* Both sides' keys, where they are spelled in the byte alphabet. */
static bool add_spelled_sides(struct merge_batch *m, struct bytes text, struct pair_text *p) {
    if (m->text.cap - m->text.len <= text.len)
        buf_reserve(&m->text, text.len);
    if (m->text.failed)
        return false;
    uint8_t *begin = (uint8_t *)m->text.data + m->text.len, *out = begin, *space = NULL;
    for (const uint8_t *at = text.data, *end = at + text.len; at < end;) {
        uint32_t c = *at++;
        if (c - 33 <= 93) {
            *out++ = (uint8_t)c;
        } else if (c == ' ' && !space) {
            space = out;
        } else {
            int byte = at < end ? byte_alphabet_byte((uint8_t)c, *at++) : -1;
            if (byte < 0)
                return false;
            *out++ = (uint8_t)byte;
        }
    }
    if (!space)
        return false;
    p->left_len = (uint32_t)(space - begin);
    p->right_len = (uint32_t)(out - space);
    m->text.len += (size_t)(out - begin);
    return true;
}

/* One string with exactly one space. */
static bool add_sides(struct merge_batch *m, struct bytes text, struct pair_text *p) {
    p->start = (uint32_t)m->text.len;
    if (m->vocab->byte_level)
        return add_spelled_sides(m, text, p);
    const uint8_t *space = text.len ? memchr(text.data, ' ', text.len) : NULL,
                  *end = text.data + text.len;
    if (!space || memchr(space + 1, ' ', (size_t)(end - space - 1)))
        return false;
    return add_side(m, bytes_of(text.data, (size_t)(space - text.data)), &p->left_len) &&
           add_side(m, bytes_of(space + 1, (size_t)(end - space - 1)), &p->right_len);
}

/* After ARRAY_BEGIN: two strings and the end. */
static bool read_pair(struct merge_batch *m, struct json_reader *r, struct pair_text *p) {
    p->start = (uint32_t)m->text.len;
    return json_next(r) == JSON_STRING && add_side(m, r->text, &p->left_len) &&
           json_next(r) == JSON_STRING && add_side(m, r->text, &p->right_len) &&
           json_next(r) == JSON_ARRAY_END;
}

/* Commas in 16 bytes a step. */
static size_t count_commas(struct bytes s) {
    size_t count = 0, i = 0;
#ifdef __SSE2__
    const __m128i comma = _mm_set1_epi8(','), one = _mm_set1_epi8(1);
    __m128i sums = _mm_setzero_si128();
    for (; s.len - i >= 16; i += 16) {
        __m128i found =
            _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(const void *)(s.data + i)), comma);
        sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_and_si128(found, one), _mm_setzero_si128()));
    }
    count =
        (size_t)_mm_cvtsi128_si64(sums) + (size_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums));
#endif
    for (; i < s.len; i++)
        count += s.data[i] == ',';
    return count;
}

/* An upper bound of the merges in what follows: a comma a merge, or two where merges are pairs. */
static size_t count_merges(const struct json_reader *r) {
    const uint8_t *p = r->at;
    while (p < r->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    size_t commas = count_commas(bytes_of(p, (size_t)(r->end - p)));
    return (p < r->end && *p == '[' ? commas / 2 : commas) + 1;
}

int model_read_merges(struct json_reader *r, const struct vocab *v, size_t prefix_len,
                      struct bpe *b, struct error *err) {
    struct merge_batch m = {.vocab = v, .bpe = b, .err = err, .prefix_len = prefix_len};
    /* all are strings, or all pairs: room is counted by that */
    enum json_event event, form = JSON_NULL;
    int rc = 0;
    bpe_init(b, v, count_merges(r));
    while (!rc && ((event = json_next(r)) == JSON_STRING || event == JSON_ARRAY_BEGIN)) {
        struct pair_text *p = &m.pairs[m.count];
        if (form == JSON_NULL)
            form = event;
        if (event != form)
            rc = bad_merge(&m, m.count, "is written in another way than those before");
        else if (!(event == JSON_STRING ? add_sides(&m, r->text, p) : read_pair(&m, r, p)))
            rc = r->error.code ? reader_error(r, err)
                               : bad_merge(&m, m.count, "is not two tokens of this vocabulary");
        else if (++m.count == BATCH)
            rc = flush(&m);
    }
    if (!rc && event != JSON_ARRAY_END)
        rc = reader_error(r, err);
    if (!rc)
        rc = flush(&m);
    buf_release(&m.text);
    return rc;
}

enum { MERGES_MAX = 1 << 26 };

int model_take_merges(model_next_fn *next, void *ctx, size_t count, const struct vocab *v,
                      struct bpe *b, struct error *err) {
    struct merge_batch m = {.vocab = v, .bpe = b, .err = err, .lenient = true};
    struct bytes text;
    int rc = 0;
    if (count > MERGES_MAX)
        return error_set(err, ERR_LIMIT, "more than %d merges", MERGES_MAX);
    bpe_init(b, v, count);
    for (size_t i = 0; i < count && !rc && next(ctx, &text); i++) {
        size_t before = m.text.len;
        if (add_sides(&m, text, &m.pairs[m.count]) && m.pairs[m.count].left_len &&
            m.pairs[m.count].right_len)
            m.count++;
        else if (m.text.failed)
            rc = error_set(err, ERR_MEMORY, "out of memory for merges");
        else
            m.text.len = before;
        if (m.count == BATCH)
            rc = flush(&m);
    }
    if (!rc)
        rc = flush(&m);
    buf_release(&m.text);
    return rc;
}
