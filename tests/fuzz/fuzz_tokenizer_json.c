/*
 * fuzz_tokenizer_json.c - any bytes as tokenizer.json: refused with a reason, or it encodes and
 * decodes without harm.
 */
// see: text formats base
#include "base/utf8.h"
#include "fuzz.h"
#include "text/tokenizer/detokenizer.h"

static const char TEXT[] =
    "Hello  World's 123 \n\t<s>caf\xC3\xA9 e\xCC\x81 \xE4\xBD\xA0 \xF0\x9F\x99\x82!! "
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static void use(const struct tokenizer *t) {
    struct token_vec ids = {0};
    struct buf whole = {0}, streamed = {0};
    struct detok d;
    (void)!tokenizer_encode(t, bytes_str(TEXT), TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL, &ids,
                            NULL);
    for (uint32_t id = 0; id < MIN(tokenizer_vocab_count(t), 50u); id++)
        vec_push(&ids, id);
    tokenizer_detokenize(t, (struct tokens){ids.items, ids.count}, 0, &whole);
    detok_init(&d, t, 0);
    for (size_t i = 0; i < ids.count; i++) {
        CHECK(ids.items[i] < tokenizer_vocab_count(t));
        detok_push(&d, ids.items[i], &streamed);
        CHECK(utf8_valid(streamed.data, streamed.len));
    }
    detok_flush(&d, &streamed);
    CHECK(utf8_valid(whole.data, whole.len) && utf8_valid(streamed.data, streamed.len));
    vec_release(&ids);
    buf_release(&whole);
    buf_release(&streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tokenizer *t;
    struct error err = {0};
    struct bytes json = bytes_of(data, size), none = {0};
    int rc = tokenizer_load(json, none, none, &t, &err);
    CHECK((rc < 0) == (t == NULL) && (!rc || err.text[0]));
    if (t)
        use(t);
    tokenizer_free(&t);
    if (tokenizer_load(bytes_str("{\"model\": {\"vocab\": {\"a\": 0}}}"), json, json, &t, &err) ==
        0)
        use(t);
    tokenizer_free(&t);
    return 0;
}
