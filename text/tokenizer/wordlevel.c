#include "text/tokenizer/wordlevel.h"

void wordlevel_init(struct wordlevel *w, const struct vocab *vocab, uint32_t unk_id, bool fuse_unk,
                    bool byte_fallback) {
    CHECK(vocab);
    *w = (struct wordlevel){
        .vocab = vocab, .unk_id = unk_id, .fuse_unk = fuse_unk, .byte_fallback = byte_fallback};
    vocab_find_byte_tokens(vocab, w->fallback_ids);
}

static bool add_bytes(const struct wordlevel *w, struct bytes word, struct token_vec *out) {
    for (size_t i = 0; i < word.len; i++)
        if (w->fallback_ids[word.data[i]] == UINT32_MAX)
            return false;
    for (size_t i = 0; i < word.len; i++)
        vec_push(out, w->fallback_ids[word.data[i]]);
    return true;
}

int wordlevel_encode(const struct wordlevel *w, struct bytes word, size_t first,
                     struct token_vec *out, struct error *err) {
    uint32_t id = vocab_find(w->vocab, word.data, word.len);
    if (id == UINT32_MAX) {
        if (w->byte_fallback && add_bytes(w, word, out))
            return 0;
        if (w->unk_id == UINT32_MAX)
            return error_set(
                err, ERR_INVALID,
                "the text has words that the model does not know, and it has no unknown token");
        if (w->fuse_unk && out->count > first && out->items[out->count - 1] == w->unk_id)
            return 0;
        id = w->unk_id;
    }
    vec_push(out, id);
    return 0;
}
