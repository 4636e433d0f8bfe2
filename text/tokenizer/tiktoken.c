#include "text/tokenizer/tiktoken.h"

#include <stdlib.h>

#include "text/tokenizer/base64.h"
#include "text/tokenizer/rank_merges.h"

/* ---- reading ---- */

struct reader {
    struct tiktoken_file *file;
    struct error *err;
    size_t cap, line;
};

static int bad_line(const struct reader *r, const char *what) {
    return error_set(r->err, ERR_INVALID, "tiktoken file: line %zu %s", r->line, what);
}

static bool parse_rank(struct bytes text, uint32_t *rank) {
    uint32_t value = 0;
    if (!text.len || text.len > 9)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        value = value * 10 + (text.data[i] - '0');
    }
    *rank = value;
    return value < VOCAB_IDS_MAX;
}

static void push_line(struct reader *r, struct ranked_line line) {
    struct tiktoken_file *f = r->file;
    if (f->count == r->cap) {
        r->cap = r->cap * 2 + 1024;
        f->lines = mem_realloc(f->lines, r->cap * sizeof *f->lines);
    }
    f->lines[f->count++] = line;
}

static int read_line(struct reader *r, struct bytes line) {
    while (line.len && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == ' '))
        line.len--;
    if (!line.len)
        return 0;
    const uint8_t *space = memchr(line.data, ' ', line.len);
    struct ranked_line token = {.start = (uint32_t)r->file->bytes.len};
    if (!space)
        return bad_line(r, "has no rank");
    size_t text_len = (size_t)(space - line.data);
    if (!base64_decode(bytes_of(line.data, text_len), &r->file->bytes))
        return bad_line(r, "is not base64");
    if (!parse_rank(bytes_of(space + 1, line.len - text_len - 1), &token.rank))
        return bad_line(r, "has a bad rank");
    token.len = (uint32_t)(r->file->bytes.len - token.start);
    if (!token.len)
        return bad_line(r, "has an empty token");
    push_line(r, token);
    return 0;
}

static int compare_ranks(const void *a, const void *b) {
    const struct ranked_line *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* ---- spellings ---- */

/* True when " " is absent and "Ġ", its spelling, is there. */
static bool is_spelled(const struct tiktoken_file *f) {
    bool space = false, spelled = false;
    for (size_t i = 0; i < f->count; i++) {
        const char *p = f->bytes.data + f->lines[i].start;
        space |= f->lines[i].len == 1 && p[0] == ' ';
        spelled |= f->lines[i].len == 2 && !memcmp(p, "\xC4\xA0", 2);
    }
    return spelled && !space;
}

/* In place: bytes are never longer than their spelling. A token with other characters (a special
 * one) stays. */
static void read_spellings(struct tiktoken_file *f) {
    for (size_t i = 0; i < f->count; i++) {
        size_t len = byte_alphabet_to_bytes_over((uint8_t *)f->bytes.data + f->lines[i].start,
                                                 f->lines[i].len);
        if (len != SIZE_MAX)
            f->lines[i].len = (uint32_t)len;
    }
}

static void hash_contents(struct tiktoken_file *f) {
    enum { CHUNK = 1 << 16 };
    struct hasher *h = hasher_new();
    struct buf chunk = {0};
    for (size_t i = 0; i < f->count; i++) {
        uint32_t numbers[2] = {f->lines[i].rank, f->lines[i].len};
        buf_add(&chunk, numbers, sizeof numbers);
        buf_add(&chunk, f->bytes.data + f->lines[i].start, f->lines[i].len);
        if (chunk.len < CHUNK)
            continue;
        hasher_add(h, chunk.data, chunk.len);
        buf_reset(&chunk);
    }
    hasher_add(h, chunk.data, chunk.len);
    f->contents = hasher_end(h);
    hasher_free(&h);
    buf_release(&chunk);
}

int tiktoken_read(struct bytes file, struct tiktoken_file *out, struct error *err) {
    CHECK(out);
    struct reader r = {.file = out, .err = err};
    const uint8_t *p = file.data, *end = file.data + file.len;
    int rc = 0;
    *out = (struct tiktoken_file){0};
    buf_init(&out->bytes, VOCAB_ABSENT - 1);
    buf_reserve(&out->bytes, file.len / 2);
    while (p < end && !rc) {
        const uint8_t *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop)
            stop = end;
        r.line++;
        rc = read_line(&r, bytes_of(p, (size_t)(stop - p)));
        p = stop + 1;
    }
    if (!rc && !out->count)
        rc = error_set(err, ERR_INVALID, "tiktoken file: it has no tokens");
    if (rc) {
        tiktoken_release(out);
        return rc;
    }
    bool sorted = true;
    for (size_t i = 1; i < out->count && sorted; i++)
        sorted = out->lines[i - 1].rank < out->lines[i].rank;
    if (!sorted)
        qsort(out->lines, out->count, sizeof *out->lines, compare_ranks);
    if (is_spelled(out))
        read_spellings(out);
    hash_contents(out);
    return 0;
}

void tiktoken_release(struct tiktoken_file *f) {
    buf_release(&f->bytes);
    mem_free(f->lines);
    *f = (struct tiktoken_file){0};
}

/* ---- building ---- */

/* Ids are ranks; of equal texts the first encodes. */
int tiktoken_build(const struct tiktoken_file *f, uint32_t first_text_id, struct tokenizer *t,
                   struct error *err) {
    CHECK(f && t);
    struct vocab *v = &t->vocab;
    int rc = 0;
    v->keep_first = true;
    for (size_t i = 0; i < f->count && !rc; i++) {
        const struct ranked_line *line = &f->lines[i];
        if (i && line->rank == f->lines[i - 1].rank)
            return error_set(err, ERR_INVALID, "tiktoken file: two tokens have the rank %u",
                             line->rank);
        if (line->rank < first_text_id)
            continue;
        rc = vocab_add(v, bytes_of(f->bytes.data + line->start, line->len), line->rank, err);
    }
    if (rc)
        return rc;
    vocab_seal_raw(v);
    struct ranked_token *order = mem_calloc(f->count, sizeof *order);
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        uint32_t id = f->lines[i].rank;
        struct bytes key = vocab_key(v, id);
        if (!key.len || vocab_find(v, key.data, key.len) != id)
            continue;
        order[count] = (struct ranked_token){id, (uint32_t)count};
        count++;
    }
    rc = rank_merges_build(&t->bpe, v, order, count, err);
    mem_free(order);
    t->model = MODEL_BPE;
    t->bpe.ignore_merges = true;
    bpe_finish(&t->bpe);
    return rc;
}
