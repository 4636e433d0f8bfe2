/* Texts that end a repetition as sets of the bundled tokenizer's tokens. */
#include "demo_tokenizer.h"

#include "check.h"
#include "gateway/prompts/breakers.h"

/* By the definition: a token's text holds one of the texts. */
static void expect_set(const struct tokenizer *t, const struct bytes *texts, uint32_t count,
                       const struct buf *bits) {
    uint32_t vocab = tokenizer_vocab_count(t);
    EXPECT_EQ(bits->len, (vocab + 7) / 8);
    for (uint32_t id = 0; id < vocab; id++) {
        struct bytes token = tokenizer_token_bytes(t, id);
        bool holds = false;
        for (uint32_t i = 0; i < count; i++)
            for (size_t at = 0; at + texts[i].len <= token.len; at++)
                holds |= memcmp(token.data + at, texts[i].data, texts[i].len) == 0;
        if (holds != ((uint8_t)bits->data[id / 8] >> id % 8 & 1))
            check_fail(__FILE__, __LINE__, "token %u is %s the set", id, holds ? "not in" : "in");
    }
}

/* More lists than are kept, twice: what was kept is what is found. */
TEST(a_list_of_texts_becomes_a_set_of_tokens) {
    static const char *const WORDS[] = {"\n", ".", "a", "e", "th", " the",
                                        "o",  "!", "s", ",", "in"};
    struct buf packed, bits = {0};
    struct tokenizer *t = demo_tokenizer(&packed);
    struct breaker_cache *cache = breaker_cache_new();
    struct api_error err;
    for (size_t i = 0; i < 2 * ARRAY_LEN(WORDS); i++) {
        size_t at = i % ARRAY_LEN(WORDS);
        struct bytes texts[2] = {bytes_str(WORDS[at]),
                                 bytes_str(WORDS[(at + 1) % ARRAY_LEN(WORDS)])};
        for (uint32_t count = 1; count <= 2; count++) {
            buf_reset(&bits);
            EXPECT_EQ(breakers_find(cache, t, texts, count, true, &bits, &err), 0);
            expect_set(t, texts, count, &bits);
        }
    }
    breaker_cache_free(&cache);
    EXPECT(!cache);
    tokenizer_free(&t);
    buf_release(&packed);
    buf_release(&bits);
}

/* A text that is in no token is refused where each must be, and is the same list no more where it
 * need not: neither answer is kept for the other. */
TEST(a_text_in_no_token_is_refused_where_it_matters) {
    struct buf packed, bits = {0};
    struct tokenizer *t = demo_tokenizer(&packed);
    struct breaker_cache *cache = breaker_cache_new();
    struct api_error err;
    const struct bytes texts[] = {bytes_str("a"), bytes_str("zebra of quartz")};
    for (int way = 0; way < 2; way++) {
        EXPECT_EQ(breakers_find(cache, t, texts, 2, false, &bits, &err), 0);
        expect_set(t, texts, 2, &bits);
        size_t before = bits.len;
        EXPECT_EQ(breakers_find(cache, t, texts, 2, true, &bits, &err), -1);
        EXPECT_EQ(err.status, 400);
        EXPECT(strstr(err.text, "zebra of quartz"));
        EXPECT_EQ(bits.len, before);
        buf_reset(&bits);
    }
    breaker_cache_free(&cache);
    tokenizer_free(&t);
    buf_release(&packed);
    buf_release(&bits);
}
