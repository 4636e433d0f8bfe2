/* The bytes of answers, whole and streamed, against OpenAI's shapes spelled out. */
#include "check.h"
#include "gateway/render.h"

static struct render make(enum genreq_dialect dialect, bool stream) {
    struct render r;
    render_init(&r, dialect, stream, (struct u128){0xabc, 0x1}, 1700000000, bytes_str("m\"1"));
    return r;
}

#define CHAT_HEAD                                                                                                      \
    "data: {\"id\":\"chatcmpl-00000000000000010000000000000abc\",\"object\":\"chat.completion.chunk\",\"created\":"    \
    "1700000000,\"model\":\"m\\\"1\",\"choices\":["
#define COMP_HEAD                                                                                                      \
    "{\"id\":\"cmpl-00000000000000010000000000000abc\",\"object\":\"text_completion\",\"created\":1700000000,"         \
    "\"model\":\"m\\\"1\",\"choices\":["

TEST(chat_chunks) {
    struct render r = make(GENREQ_CHAT, true);
    const struct bytes none = {0};
    struct buf out;
    buf_init(&out, 0);
    render_chunk_begin(&r, 0, &out);
    EXPECT_STR(buf_text(&out),
               CHAT_HEAD "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":"
                         "null,\"finish_reason\":null}]}\n\n");
    buf_reset(&out);
    render_chunk_text(&r, 12, &(struct render_text){bytes_str("a\"b\n\x01é"), none, none}, none, none, NULL, &out);
    EXPECT_STR(buf_text(&out),
               CHAT_HEAD "{\"index\":12,\"delta\":{\"content\":\"a\\\"b\\n\\u0001é\"},\"logprobs\":null,"
                         "\"finish_reason\":null}]}\n\n");
    buf_reset(&out);
    render_chunk_finish(&r, 1, CHOICE_LENGTH, NULL, &out);
    EXPECT_STR(buf_text(&out),
               CHAT_HEAD "{\"index\":1,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
    buf_release(&out);
    render_release(&r);
}

TEST(usage_is_null_until_its_own_chunk) {
    struct render r = make(GENREQ_CHAT, true);
    struct render_usage usage = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 8};
    struct buf out;
    buf_init(&out, 0);
    r.include_usage = true;
    render_chunk_finish(&r, 0, CHOICE_STOP, &usage, &out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD
               "{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n");
    buf_reset(&out);
    render_chunk_usage(&r, &usage, &out);
    render_done(&out);
    EXPECT_STR(buf_text(&out),
               CHAT_HEAD "],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,\"total_tokens\":13,"
                         "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n");
    buf_reset(&out);
    r.continuous_usage = true;
    usage.other_fingerprint = true;
    render_chunk_text(&r, 0, &(struct render_text){.content = bytes_str("x")}, bytes_of(NULL, 0), bytes_of(NULL, 0),
                      &usage, &out);
    EXPECT(strstr(buf_text(&out), "}],\"usage\":{\"prompt_tokens\":10,"));
    EXPECT(strstr(buf_text(&out), "\"other_fingerprint\":true"));
    buf_release(&out);
    render_release(&r);
}

TEST(a_whole_chat_answer) {
    struct render r = make(GENREQ_CHAT, false);
    const struct bytes none = {0};
    struct render_usage usage = {.prompt_tokens = 1, .completion_tokens = 2};
    struct buf out;
    buf_init(&out, 0);
    render_full_begin(&r, &out);
    render_full_choice(&r, true, 0, &(struct render_text){.content = bytes_str("hi")}, none, none, CHOICE_STOP, &out);
    render_full_choice(&r, false, 1, &(struct render_text){.content = none}, none, bytes_str(",\"token_ids\":[5]"),
                       CHOICE_LENGTH, &out);
    render_full_end(&r, &usage, &out);
    EXPECT_STR(buf_text(&out),
               "{\"id\":\"chatcmpl-00000000000000010000000000000abc\",\"object\":\"chat.completion\",\"created\":"
               "1700000000,\"model\":\"m\\\"1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
               "\"content\":\"hi\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"},{\"index\":1,"
               "\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"token_ids\":[5],\"logprobs\":"
               "null,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,"
               "\"total_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    buf_release(&out);
    render_release(&r);
}

TEST(a_whole_completion) {
    struct render r = make(GENREQ_COMPLETIONS, false);
    const struct bytes none = {0};
    struct render_usage usage = {0};
    struct buf out;
    buf_init(&out, 0);
    render_full_begin(&r, &out);
    render_chunk_begin(&r, 0, &out); /* completions have no first chunk */
    render_full_choice(&r, true, 0, &(struct render_text){.content = bytes_str("hi")}, bytes_str("{}"), none,
                       CHOICE_STOP, &out);
    render_full_end(&r, &usage, &out);
    EXPECT_STR(buf_text(&out), COMP_HEAD "{\"index\":0,\"text\":\"hi\",\"logprobs\":{},\"finish_reason\":\"stop\"}],"
                                         "\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0,"
                                         "\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    buf_release(&out);
    render_release(&r);
}

TEST(errors_inside_a_stream_are_events) {
    struct api_error err;
    struct buf out;
    buf_init(&out, 0);
    api_error_set(&err, API_TIMEOUT, NULL, "late");
    render_chunk_error(&err, &out);
    EXPECT_STR(buf_text(&out), "data: {\"error\":{\"message\":\"late\",\"type\":\"server_error\",\"param\":null,"
                               "\"code\":\"timeout\"}}\n\n");
    buf_release(&out);
}
