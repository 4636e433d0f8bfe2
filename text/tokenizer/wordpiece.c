#include "text/tokenizer/wordpiece.h"

#include "text/template/python.h"

void wordpiece_init(struct wordpiece *w, const struct vocab *vocab, const char *prefix,
                    uint32_t chars_max, uint32_t unk_id) {
    CHECK(vocab && strlen(prefix) <= WORDPIECE_PREFIX_MAX);
    *w = (struct wordpiece){.vocab = vocab, .unk_id = unk_id, .chars_max = chars_max};
    CHECK(strlen(prefix) <= WORDPIECE_PREFIX_MAX);
    memcpy(w->prefix, prefix, strlen(prefix));
    for (size_t id = 0; id < vocab->entries.count; id++)
        if (vocab->entries.items[id].start != VOCAB_ABSENT)
            w->bytes_max = MAX(w->bytes_max, (size_t)vocab->entries.items[id].len);
}

/* Length of the longest token at the start of rest, as a continuation unless first; 0: none. */
static size_t longest(const struct wordpiece *w, struct buf *scratch, struct bytes rest, bool first,
                      uint32_t *id) {
    size_t prefix_len = first ? 0 : strlen(w->prefix);
    uint32_t cp;
    if (rest.len > w->bytes_max) /* cut where a character ends */
        for (rest.len = w->bytes_max; rest.len && (rest.data[rest.len] & 0xC0) == 0x80;)
            rest.len--;
    buf_reset(scratch);
    buf_add(scratch, w->prefix, prefix_len);
    buf_add_bytes(scratch, rest);
    if (scratch->failed)
        return 0;
    for (size_t len = rest.len; len;) {
        *id = vocab_find(w->vocab, (const uint8_t *)scratch->data, prefix_len + len);
        if (*id != UINT32_MAX)
            return len;
        len -= unicode_prev(rest.data + len, &cp);
    }
    return 0;
}

void wordpiece_encode(const struct wordpiece *w, struct buf *scratch, struct bytes word,
                      struct token_vec *out) {
    size_t before = out->count;
    bool known = python_length(word) <= w->chars_max;
    for (size_t at = 0; at < word.len && known;) {
        uint32_t id;
        size_t n = longest(w, scratch, bytes_of(word.data + at, word.len - at), at == 0, &id);
        known = n;
        if (n)
            vec_push(out, id);
        at += n;
    }
    if (known)
        return;
    out->count = before;
    vec_push(out, w->unk_id);
}
