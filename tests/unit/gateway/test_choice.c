/* Tokens to text with the bundled tokenizer: the same text however it was cut, stop strings, half
 * characters. */
#include "demo_tokenizer.h"

#include "base/utf8.h"
#include "check.h"
#include "gateway/answers/choice.h"
#include "gateway/dialects/response.h"

static struct token_vec encode(const struct tokenizer *t, const char *text) {
    struct token_vec ids = {0};
    struct error err;
    CHECK(tokenizer_encode(t, bytes_str(text), 0, &ids, &err) == 0);
    return ids;
}

static struct choice make(const struct tokenizer *t, const char *const *stops, uint32_t stop_count,
                          bool include) {
    struct choice c;
    struct bytes list[4];
    struct error err;
    for (uint32_t i = 0; i < stop_count; i++)
        list[i] = bytes_str(stops[i]);
    struct choice_config config = {.tokenizer = t,
                                   .stops = list,
                                   .stop_count = stop_count,
                                   .include_stop_text = include,
                                   .skip_special = true};
    CHECK(choice_init(&c, 0, &config, &err) == 0);
    return c;
}

TEST(text_comes_out_as_it_went_in) {
    static const char text[] = "Once upon a time — naïve café, 🚀🚀 \xe6\x97\xa5\xe6\x9c\xac end";
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, text);
    struct choice c = make(t, NULL, 0, false);
    buf_init(&out, 0);
    for (size_t i = 0; i < ids.count; i++) {
        EXPECT(!choice_push(&c, ids.items[i], &out));
        EXPECT(utf8_valid(out.data, out.len)); /* never half a character */
    }
    choice_end(&c, CHOICE_LENGTH, &out);
    EXPECT_STR(buf_text(&out), text);
    EXPECT_EQ(c.token_count, ids.count);
    choice_release(&c);
    vec_release(&ids);
    buf_release(&out);
    tokenizer_free(&t);
    buf_release(&packed);
}

TEST(a_cut_character_is_shown_as_one_at_the_end) {
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, "🚀");
    struct choice c = make(t, NULL, 0, false);
    buf_init(&out, 0);
    EXPECT(ids.count > 1); /* the bundled vocabulary has no rocket */
    choice_push(&c, ids.items[0], &out);
    EXPECT_EQ(out.len, 0);
    choice_end(&c, CHOICE_LENGTH, &out);
    EXPECT_STR(buf_text(&out), "\xef\xbf\xbd");
    choice_release(&c);
    vec_release(&ids);
    buf_release(&out);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* The end mark has several tokens here, of which the last alone tells that it is one. */
TEST(tokens_inside_of_reasoning_are_counted) {
    static const char *const PIECES[] = {"<think>", "I look around.", "</think>",
                                         "Yes, I think so."};
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct parse_config parse = {.reasoning = reasoning_format_find(bytes_str("think"))};
    struct choice_config config = {.tokenizer = t, .skip_special = true, .parse = &parse};
    struct choice c;
    struct error err;
    size_t counts[ARRAY_LEN(PIECES)], all = 0;
    buf_init(&out, 0);
    CHECK(choice_init(&c, 0, &config, &err) == 0);
    for (size_t i = 0; i < ARRAY_LEN(PIECES); i++) {
        struct token_vec ids = encode(t, PIECES[i]);
        all += counts[i] = ids.count;
        for (size_t j = 0; j < ids.count; j++)
            choice_push(&c, ids.items[j], &out);
        vec_release(&ids);
    }
    choice_end(&c, CHOICE_STOP, &out);
    EXPECT_EQ(c.thought_count, counts[1] + counts[2] - 1);
    EXPECT_EQ(c.token_count, all);
    choice_release(&c);
    buf_release(&out);
    tokenizer_free(&t);
    buf_release(&packed);
}

TEST(stop_strings_over_token_borders) {
    static const char *const stops[] = {"the end", "zzz"};
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, "all is well, this is the end of it");
    for (int include = 0; include < 2; include++) {
        struct choice c = make(t, stops, 2, include);
        size_t used = 0;
        bool matched = false;
        buf_init(&out, 0);
        while (!matched && used < ids.count)
            matched = choice_push(&c, ids.items[used++], &out);
        EXPECT(matched && used < ids.count);
        EXPECT_EQ(c.finish, CHOICE_STOP);
        EXPECT_EQ(c.token_count, used);
        EXPECT_STR(buf_text(&out),
                   include ? "all is well, this is the end" : "all is well, this is ");
        choice_release(&c);
        buf_release(&out);
    }
    vec_release(&ids);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* The answer ends behind the byte that completes a pattern, which may stand inside a token, and what
 * a stop string held back comes out; of a string and a pattern that end at one byte the string counts. */
TEST(stop_patterns_end_inside_of_tokens) {
    static const char text[] = "all is well, this is the end of it";
    static const struct {
        const char *pattern, *stop, *out, *matched;
        bool include;
    } rows[] = {
        {"t[g-i]e e", "the elk", "all is well, this is the e", "t[g-i]e e", false},
        {"[a-d]l", NULL, "al", "[a-d]l", false},
        {"i.*i.*i", "this", "all is well, ", "this", false},
        {"i.*is", "this", "all is well, ", "this", false},
        {"i.*is", "this", "all is well, this", "this", true},
        {"wel", "this", "all is wel", "wel", false},
        {"$x|it$", "nothing", text, "$x|it$", false},
        {"^is|q", NULL, text, "", false},
    };
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, text);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct bytes pattern = bytes_str(rows[i].pattern);
        struct bytes stop = bytes_str(rows[i].stop ? rows[i].stop : "");
        struct finder *finder;
        struct error err;
        struct choice c;
        bool ended = false;
        size_t used = 0;
        CHECK(finder_new(&pattern, 1, &finder, &err) == 0);
        struct choice_config config = {.tokenizer = t,
                                       .stops = &stop,
                                       .stop_count = rows[i].stop != NULL,
                                       .stop_patterns = finder,
                                       .include_stop_text = rows[i].include};
        CHECK(choice_init(&c, 0, &config, &err) == 0);
        buf_init(&out, 0);
        while (!ended && used < ids.count)
            ended = choice_push(&c, ids.items[used++], &out);
        EXPECT_EQ(ended, *rows[i].matched != 0);
        if (!ended)
            choice_end(&c, CHOICE_LENGTH, &out);
        EXPECT_EQ(c.finish, ended ? CHOICE_STOP : CHOICE_LENGTH);
        EXPECT_EQ(c.token_count, used);
        EXPECT_STR(buf_text(&out), rows[i].out);
        EXPECT(bytes_equal(choice_stop_text(&c), bytes_str(rows[i].matched)));
        choice_release(&c);
        buf_release(&out);
        finder_free(&finder);
    }
    vec_release(&ids);
    tokenizer_free(&t);
    buf_release(&packed);
}

TEST(held_back_text_comes_at_the_end) {
    static const char *const stops[] = {"well then"};
    struct buf packed, out;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, "all is well the");
    struct choice c = make(t, stops, 1, false);
    buf_init(&out, 0);
    for (size_t i = 0; i < ids.count; i++)
        EXPECT(!choice_push(&c, ids.items[i], &out));
    EXPECT_STR(buf_text(&out), "all is ");
    choice_push_stop(&c, tokenizer_eos(t).ids[0], &out);
    EXPECT_STR(buf_text(&out), "all is well the");
    EXPECT_EQ(c.finish, CHOICE_STOP);
    EXPECT_EQ(c.token_count, ids.count + 1);
    choice_release(&c);
    vec_release(&ids);
    buf_release(&out);
    tokenizer_free(&t);
    buf_release(&packed);
}

TEST(logprobs_columns_agree) {
    struct buf packed, entries, value;
    struct tokenizer *t = demo_tokenizer(&packed);
    struct token_vec ids = encode(t, "He said");
    const float values[] = {-0.25f, -0.25f, -1.0f / 0.0f};
    const uint32_t columns[] = {ids.items[0], ids.items[0], ids.items[1]};
    struct token_logprobs lp = {columns, values, 3}, bare = {columns + 2, values, 1};
    buf_init(&entries, 0);
    buf_init(&value, 0);
    response_logprobs_entry(GENREQ_COMPLETIONS, &(struct token_names){t, false}, &lp, 0, &entries);
    response_logprobs_entry(GENREQ_COMPLETIONS, &(struct token_names){t, false}, &bare, 2,
                            &entries);
    response_logprobs_value(GENREQ_COMPLETIONS, buf_bytes(&entries), &value);
    EXPECT(strstr(buf_text(&value),
                  "],\"token_logprobs\":[-0.25,-0.25],\"text_offset\":[0,2],\"top_logprobs\":[{"));
    /* a token that is not among the best is one more of them */
    const char *last = strstr(buf_text(&value), ":-9999},{\"");
    EXPECT(last && strstr(last, ":-0.25}]}"));
    buf_reset(&entries);
    buf_reset(&value);
    response_logprobs_entry(GENREQ_CHAT, &(struct token_names){t, false}, &lp, 0, &entries);
    response_logprobs_entry(GENREQ_CHAT, &(struct token_names){t, false}, &bare, 0, &entries);
    response_logprobs_value(GENREQ_CHAT, buf_bytes(&entries), &value);
    EXPECT(strstr(buf_text(&value), "{\"content\":[{\"token\":\"") == buf_text(&value));
    EXPECT(strstr(buf_text(&value), "\"top_logprobs\":[]}],\"refusal\":null}"));
    buf_reset(&entries);
    lp.ids = (const uint32_t[]){7, 7, 12};
    response_logprobs_entry(GENREQ_CHAT, &(struct token_names){t, true}, &lp, 0, &entries);
    EXPECT(
        strstr(buf_text(&entries), "{\"token\":\"token_id:7\",\"logprob\":-0.25,\"bytes\":[116,"));
    EXPECT(strstr(buf_text(&entries), "{\"token\":\"token_id:12\""));
    buf_reset(&entries);
    response_logprobs_entry(GENREQ_COMPLETIONS, &(struct token_names){t, true}, &lp, 0, &entries);
    EXPECT(strstr(buf_text(&entries), "\x1f{\"token_id:7\":-0.25,\"token_id:12\":-9999}\n"));
    buf_release(&entries);
    buf_release(&value);
    vec_release(&ids);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* Whose likelier ones are listed already is no entry of its own, wherever it stands among them. */
TEST(a_token_among_the_best_is_listed_once) {
    struct buf packed, entry = {0};
    struct tokenizer *t = demo_tokenizer(&packed);
    const struct token_names names = {t, true};
    const float values[] = {-2, -1, -1.5f, -2};
    static const struct {
        uint32_t ids[4];
        const char *top;
    } ROWS[] = {
        {{9, 5, 6, 9}, "\x1f{\"token_id:5\":-1,\"token_id:6\":-1.5,\"token_id:9\":-2}\n"},
        {{9, 5, 6, 7},
         "\x1f{\"token_id:5\":-1,\"token_id:6\":-1.5,\"token_id:7\":-2,\"token_id:9\":-2}\n"}};
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        const struct token_logprobs lp = {ROWS[i].ids, values, 4};
        buf_reset(&entry);
        response_logprobs_entry(GENREQ_COMPLETIONS, &names, &lp, 0, &entry);
        EXPECT(strstr(buf_text(&entry), ROWS[i].top));
    }
    buf_release(&entry);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* vLLM's: the token's own first, each with its place among the likeliest, which is not known of one that is
 * none of them; the first token of all has nothing. */
TEST(tokens_of_a_prompt_have_their_rank) {
    struct buf packed, out = {0};
    struct tokenizer *t = demo_tokenizer(&packed);
    const float values[] = {-2, -1, -2}, none[] = {0.0f / 0.0f};
    const uint32_t second[] = {64, 65, 64}, other[] = {66, 65, 64};
    response_prompt_logprobs_entry(t, &(struct token_logprobs){second, none, 1}, &out);
    response_prompt_logprobs_entry(t, &(struct token_logprobs){second, values, 3}, &out);
    response_prompt_logprobs_entry(t, &(struct token_logprobs){other, values, 3}, &out);
    response_prompt_logprobs_entry(t, &(struct token_logprobs){.count = 0}, &out);
    EXPECT_STR(buf_text(&out), "null,{\"64\":{\"logprob\":-2,\"rank\":2,\"decoded_token\":\"a\"},"
                               "\"65\":{\"logprob\":-1,\"rank\":1,\"decoded_token\":\"b\"}},"
                               "{\"66\":{\"logprob\":-2,\"rank\":null,\"decoded_token\":\"c\"},"
                               "\"65\":{\"logprob\":-1,\"rank\":1,\"decoded_token\":\"b\"},"
                               "\"64\":{\"logprob\":-2,\"rank\":2,\"decoded_token\":\"a\"}},null");
    buf_reset(&out);
    response_prefill_entry(t, &(struct token_logprobs){second, none, 1}, &out);
    response_prefill_entry(t, &(struct token_logprobs){other, values, 3}, &out);
    EXPECT_STR(buf_text(&out), "{\"id\":64,\"text\":\"a\",\"logprob\":null},"
                               "{\"id\":66,\"text\":\"c\",\"logprob\":-2}");
    buf_release(&out);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* Of every token: the characters that its bytes are, each byte of none of them one. */
TEST(characters_of_a_token_are_those_it_is_shown_with) {
    struct buf packed;
    struct tokenizer *t = demo_tokenizer(&packed);
    uint32_t several = 0, broken = 0;
    for (uint32_t id = 0; id < tokenizer_vocab_count(t); id++) {
        struct bytes raw = tokenizer_token_bytes(t, id);
        uint32_t want = 0;
        for (size_t at = 0; at < raw.len; want++) {
            uint32_t cp;
            size_t n = utf8_decode(raw.data + at, raw.len - at, &cp);
            broken += n == 0;
            at += n ? n : 1;
        }
        several += want > 1;
        EXPECT_EQ(response_token_chars(t, id), want);
    }
    EXPECT(several > 100 && broken > 100);
    tokenizer_free(&t);
    buf_release(&packed);
}

/* Halves of characters read as the same U+FFFD; a key of an object may stand there once. */
TEST(candidates_that_read_the_same_are_one_key) {
    struct buf packed, entry;
    struct tokenizer *t = demo_tokenizer(&packed);
    uint32_t ids[5], count = 0, whole = 0;
    for (uint32_t id = 0; id < tokenizer_vocab_count(t) && count < 4; id++) {
        struct bytes raw = tokenizer_token_bytes(t, id);
        if (raw.len == 1 && raw.data[0] >= 0xc2)
            ids[count++] = id;
        else if (raw.len == 1 && raw.data[0] == 'a')
            whole = id;
    }
    EXPECT_EQ(count, 4);
    ids[4] = ids[3]; /* one beside the first that reads the same, one behind another */
    ids[3] = whole;
    const float values[] = {-0.25f, -0.25f, -0.5f, -1, -2};
    struct token_logprobs lp = {ids, values, 5};
    buf_init(&entry, 0);
    response_logprobs_entry(GENREQ_COMPLETIONS, &(struct token_names){t, false}, &lp, 0, &entry);
    EXPECT(strstr(buf_text(&entry), "\x1f{\"\xef\xbf\xbd\":-0.25,\"a\":-1}\n"));
    buf_reset(&entry);
    response_logprobs_entry(GENREQ_CHAT, &(struct token_names){t, false}, &lp, 0,
                            &entry); /* a list has them all */
    EXPECT(strstr(buf_text(&entry), "\"logprob\":-1,") && strstr(buf_text(&entry), ":-2,"));
    buf_release(&entry);
    tokenizer_free(&t);
    buf_release(&packed);
}
