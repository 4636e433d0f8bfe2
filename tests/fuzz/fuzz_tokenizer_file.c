/*
 * fuzz_tokenizer_file.c - any bytes as a vocabulary of any form (tiktoken, SentencePiece, GGUF,
 * JSON): refused with a reason, or it encodes and decodes without harm.
 */
// see: text formats base
#include "base/utf8.h"
#include "fuzz.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/open.h"

static const char TEXT[] =
    "Hello  World's 123 \n\t<s>caf\xC3\xA9 e\xCC\x81 \xE4\xBD\xA0 \xF0\x9F\x99\x82!! \xE2\x96\x81 "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa   ";

static void decode(const struct tokenizer *t, struct tokens ids, unsigned flags) {
    struct buf whole = {0}, streamed = {0};
    struct detok d;
    tokenizer_detokenize(t, ids, flags, &whole);
    detok_init(&d, t, flags);
    for (size_t i = 0; i < ids.count; i++) {
        detok_push(&d, ids.ids[i], &streamed);
        CHECK(utf8_valid(streamed.data, streamed.len));
    }
    detok_flush(&d, &streamed);
    CHECK(utf8_valid(whole.data, whole.len) && utf8_valid(streamed.data, streamed.len));
    buf_release(&whole);
    buf_release(&streamed);
}

static void use(const struct tokenizer *t) {
    for (unsigned flags = 0; flags < 4; flags++) {
        struct token_vec ids = {0};
        struct error err = {0};
        int rc = tokenizer_encode(t, bytes_str(TEXT), flags, &ids, &err);
        CHECK((rc == 0 || err.text[0]) && (rc == 0 || ids.count == 0));
        for (size_t i = 0; i < ids.count; i++)
            CHECK(ids.items[i] < tokenizer_vocab_count(t));
        for (uint32_t id = 0; id < MIN(tokenizer_vocab_count(t), 50u); id++)
            vec_push(&ids, id);
        decode(t, (struct tokens){ids.items, ids.count}, flags & 1 ? DETOKENIZE_SKIP_SPECIAL : 0);
        vec_release(&ids);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes file = bytes_of(data, size), none = {0};
    struct tokenizer *t;
    struct error err = {0};
    int rc = tokenizer_load_any(file, none, none, &t, &err);
    CHECK((rc < 0) == (t == NULL) && (!rc || err.text[0]));
    if (t)
        use(t);
    tokenizer_free(&t);
    return 0;
}
