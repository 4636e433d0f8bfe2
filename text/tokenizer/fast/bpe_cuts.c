#include "text/tokenizer/fast/bpe_cuts.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum { BITS_PER_MERGE = 8, BITS_MIN_LOG = 12 };

static uint16_t add_row(struct bpe_cuts *c) {
    size_t row = c->ids.count / BPE_CUTS_ROW;
    vec_reserve(&c->ids, c->ids.count + BPE_CUTS_ROW);
    memset(c->ids.items + c->ids.count, 0xFF, BPE_CUTS_ROW * sizeof *c->ids.items);
    c->ids.count += BPE_CUTS_ROW;
    return (uint16_t)row;
}

static void add_symbol(struct bpe_cuts *c, uint32_t cp, uint32_t id) {
    uint16_t *row = &c->rows[cp / BPE_CUTS_ROW];
    if (id == UINT32_MAX)
        return;
    if (!*row)
        *row = add_row(c);
    c->ids.items[(size_t)*row * BPE_CUTS_ROW + cp % BPE_CUTS_ROW] = id;
}

void bpe_cuts_init(struct bpe_cuts *c, const struct vocab *vocab, size_t merge_count) {
    uint32_t log = BITS_MIN_LOG, cp;
    while (((size_t)1 << log) < merge_count * BITS_PER_MERGE)
        log++;
    *c = (struct bpe_cuts){.cut_shift = 32 - log, .words = true, .line_ends = true, .known = true};
    c->cut_bits = mem_calloc(((size_t)1 << log) / 64, sizeof *c->cut_bits);
    c->rows = mem_calloc(BPE_CUTS_ROWS, sizeof *c->rows);
    add_row(c);
    for (uint32_t id = 0; id < vocab->entries.count; id++) {
        struct bytes key =
            vocab->entries.items[id].len <= 4 ? vocab_key(vocab, id) : bytes_of(NULL, 0);
        if (key.len && utf8_decode(key.data, key.len, &cp) == key.len)
            add_symbol(c, cp, vocab_find(vocab, key.data, key.len));
    }
}

void bpe_cuts_release(struct bpe_cuts *c) {
    mem_free(c->rows);
    vec_release(&c->ids);
    mem_free(c->cut_bits);
    *c = (struct bpe_cuts){0};
}

static bool is_concatenation(struct bytes whole, struct bytes left, struct bytes right) {
    return whole.len == left.len + right.len && !memcmp(whole.data, left.data, left.len) &&
           !memcmp(whole.data + left.len, right.data, right.len);
}

/* "<0x0A>" */
static bool is_byte_token(struct bytes key) {
    return key.len == 6 && !memcmp(key.data, "<0x", 3);
}

/* The first (or the last) character of a key; false: it is none of text. */
static bool end_char(struct bytes key, bool last, uint32_t *cp) {
    size_t from = last ? key.len - 1 : 0;
    while (last && from && (key.data[from] & 0xC0) == 0x80)
        from--;
    return utf8_decode(key.data + from, key.len - from, cp);
}

void bpe_cuts_add(struct bpe_cuts *c, const struct vocab *vocab, uint32_t left, uint32_t right,
                  uint32_t result) {
    struct bytes a = vocab_key(vocab, left), b = vocab_key(vocab, right);
    uint32_t first, second;
    if (!c->cut_bits)
        return;
    if (!a.len || !b.len || !is_concatenation(vocab_key(vocab, result), a, b)) {
        bpe_cuts_release(c); /* a symbol's key is not its text */
        return;
    }
    if (is_byte_token(a) || is_byte_token(b))
        c->known = false;
    if (!end_char(a, true, &first) || !end_char(b, false, &second))
        return; /* no text has it */
    bpe_cuts_join(c, first, second);
    if (second == METASPACE_CHAR && first != METASPACE_CHAR)
        c->words = false;
    if ((first == '\n') != (second == '\n'))
        c->line_ends = false;
}
