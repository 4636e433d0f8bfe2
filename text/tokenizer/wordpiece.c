#include "text/tokenizer/wordpiece.h"

#include "text/template/python.h"

/* Length of the longest token at the start of rest, as a continuation unless first; 0: none. */
static size_t longest(const struct wordpiece *w, struct buf *scratch, struct bytes rest, bool first, uint32_t *id) {
    size_t prefix_len = first ? 0 : strlen(w->prefix);
    buf_reset(scratch);
    buf_add(scratch, w->prefix, prefix_len);
    buf_add_bytes(scratch, rest);
    if (scratch->failed) return 0;
    for (size_t len = rest.len; len;) {
        uint32_t cp;
        *id = vocab_find(w->vocab, (const uint8_t *)scratch->data, prefix_len + len);
        if (*id != UINT32_MAX) return len;
        len -= unicode_prev(rest.data + len, &cp);
    }
    return 0;
}

void wordpiece_encode(const struct wordpiece *w, struct buf *scratch, struct bytes word, struct token_vec *out) {
    size_t before = out->count;
    bool known = python_length(word) <= w->chars_max;
    for (size_t at = 0; at < word.len && known;) {
        uint32_t id;
        size_t n = longest(w, scratch, bytes_of(word.data + at, word.len - at), at == 0, &id);
        known = n;
        if (n) vec_push(out, id);
        at += n;
    }
    if (known) return;
    out->count = before;
    vec_push(out, w->unk_id);
}
