/* The bytes of answers, whole and streamed, against OpenAI's shapes spelled out. */
#include "check.h"
#include "gateway/dialects/anthropic.h"
#include "gateway/dialects/response.h"

static struct response_writer make(enum genreq_dialect dialect, bool stream) {
    struct response_writer r;
    response_init(&r, dialect, stream, (struct u128){0xabc, 0x1}, 1700000000, bytes_str("m\"1"));
    return r;
}

#define CHAT_HEAD                                                                                  \
    "data: "                                                                                       \
    "{\"id\":\"chatcmpl-00000000000000010000000000000abc\",\"object\":\"chat.completion.chunk\","  \
    "\"created\":"                                                                                 \
    "1700000000,\"model\":\"m\\\"1\",\"choices\":["
#define COMP_HEAD                                                                                  \
    "{\"id\":\"cmpl-00000000000000010000000000000abc\",\"object\":\"text_completion\","            \
    "\"created\":1700000000,"                                                                      \
    "\"model\":\"m\\\"1\",\"choices\":["

TEST(chat_chunks) {
    struct response_writer r = make(GENREQ_CHAT, true);
    const struct bytes none = {0};
    struct buf out;
    buf_init(&out, 0);
    response_chunk_begin(&r, 0, &out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD
               "{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":"
               "null,\"finish_reason\":null}]}\n\n");
    buf_reset(&out);
    response_chunk_text(&r, 12, &(struct response_text){bytes_str("a\"b\n\x01é"), none, none}, none,
                        none, NULL, &out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD
               "{\"index\":12,\"delta\":{\"content\":\"a\\\"b\\n\\u0001é\"},\"logprobs\":null,"
               "\"finish_reason\":null}]}\n\n");
    buf_reset(&out);
    response_chunk_finish(&r, 1, CHOICE_LENGTH, NULL, &out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD
               "{\"index\":1,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
    buf_release(&out);
    response_release(&r);
}

TEST(usage_is_null_until_its_own_chunk) {
    struct response_writer r = make(GENREQ_CHAT, true);
    struct usage usage = {.prompt_tokens = 10, .completion_tokens = 3, .cached_tokens = 8};
    struct buf out;
    buf_init(&out, 0);
    r.include_usage = true;
    response_chunk_finish(&r, 0, CHOICE_STOP, &usage, &out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD "{\"index\":0,"
                                         "\"delta\":{},"
                                         "\"logprobs\":null,"
                                         "\"finish_reason\":\"stop\"}],"
                                         "\"usage\":null}\n\n");
    buf_reset(&out);
    response_chunk_usage(&r, &usage, &out);
    response_done(&out);
    EXPECT_STR(buf_text(&out), CHAT_HEAD
               "],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":3,\"total_tokens\":13,"
               "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\ndata: [DONE]\n\n");
    buf_reset(&out);
    r.continuous_usage = true;
    usage.other_fingerprint = true;
    response_chunk_text(&r, 0, &(struct response_text){.content = bytes_str("x")},
                        bytes_of(NULL, 0), bytes_of(NULL, 0), &usage, &out);
    EXPECT(strstr(buf_text(&out), "}],\"usage\":{\"prompt_tokens\":10,"));
    EXPECT(strstr(buf_text(&out), "\"other_fingerprint\":true"));
    buf_release(&out);
    response_release(&r);
}

/* In the chunks that are one for each choice or stream, from when the replica is known on. */
TEST(the_fingerprint_is_told) {
    static const char FINGERPRINT[] = "],\"system_fingerprint\":\"fp_f0000000000000f5\"";
    struct response_writer r = make(GENREQ_CHAT, true);
    struct usage usage = {.prompt_tokens = 1};
    struct buf out;
    buf_init(&out, 0);
    response_chunk_begin(&r, 0, &out);
    EXPECT(!strstr(buf_text(&out), "system_fingerprint"));
    r.fingerprint = (struct u128){.hi = 0x50, .lo = 0xf0000000000000a5};
    for (int chunk = 0; chunk < 5; chunk++) {
        buf_reset(&out);
        switch (chunk) {
        case 0: response_chunk_begin(&r, 0, &out); break;
        case 1: response_chunk_finish(&r, 0, CHOICE_STOP, NULL, &out); break;
        case 2: response_chunk_usage(&r, &usage, &out); break;
        case 3: response_full_end(&r, &usage, &out); break;
        default:
            response_chunk_text(&r, 0, &(struct response_text){.content = bytes_str("x")},
                                bytes_of(NULL, 0), bytes_of(NULL, 0), NULL, &out);
        }
        const char *at = strstr(buf_text(&out), FINGERPRINT);
        EXPECT_EQ(at != NULL, chunk < 4);
    }
    buf_release(&out);
    response_release(&r);
}

TEST(a_whole_chat_answer) {
    struct response_writer r = make(GENREQ_CHAT, false);
    const struct bytes none = {0};
    struct usage usage = {.prompt_tokens = 1, .completion_tokens = 2};
    struct buf out;
    buf_init(&out, 0);
    response_full_begin(&r, &out);
    response_full_choice(&r, true, 0, &(struct response_text){.content = bytes_str("hi")}, none,
                         none, CHOICE_STOP, &out);
    response_full_choice(&r, false, 1, &(struct response_text){.content = none}, none,
                         bytes_str(",\"token_ids\":[5]"), CHOICE_LENGTH, &out);
    response_full_end(&r, &usage, &out);
    EXPECT_STR(
        buf_text(&out),
        "{\"id\":\"chatcmpl-00000000000000010000000000000abc\","
        "\"object\":\"chat.completion\","
        "\"created\":1700000000,"
        "\"model\":\"m\\\"1\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"hi\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"stop\"},{\"index\":1,\"message\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"token_ids\":[5],\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    buf_release(&out);
    response_release(&r);
}

TEST(a_whole_completion) {
    struct response_writer r = make(GENREQ_COMPLETIONS, false);
    const struct bytes none = {0};
    struct usage usage = {0};
    struct buf out;
    buf_init(&out, 0);
    response_full_begin(&r, &out);
    response_chunk_begin(&r, 0, &out); /* completions have no first chunk */
    response_full_choice(&r, true, 0, &(struct response_text){.content = bytes_str("hi")},
                         bytes_str("{}"), none, CHOICE_STOP, &out);
    response_full_end(&r, &usage, &out);
    EXPECT_STR(buf_text(&out), COMP_HEAD
               "{\"index\":0,\"text\":\"hi\",\"logprobs\":{},\"finish_reason\":\"stop\"}],"
               "\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0,\"total_tokens\":0,"
               "\"prompt_tokens_details\":{\"cached_tokens\":0}}}");
    buf_release(&out);
    response_release(&r);
}

TEST(errors_inside_a_stream_are_events) {
    struct api_error err;
    struct buf out;
    buf_init(&out, 0);
    api_error_set(&err, API_TIMEOUT, NULL, "late");
    response_chunk_error(&err, &out);
    EXPECT_STR(buf_text(&out),
               "data: {\"error\":{\"message\":\"late\",\"type\":\"server_error\",\"param\":null,"
               "\"code\":\"timeout\"}}\n\n");
    buf_release(&out);
}

#define EVENT(name, members) "event: " name "\ndata: {\"type\":\"" name "\"" members "}\n\n"

/* The end of a call, text, and the beginning of the next call may come together: the call that can
 * still go on is the open block. */
TEST(a_call_that_goes_on_is_the_open_block) {
    struct answer a = {0};
    const struct bytes none = {0};
    struct buf out = {0};
    const struct response_text first = {
        none, none,
        bytes_str("{\"index\":0,\"id\":\"i\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                  "\"arguments\":\"{\"}}")};
    const struct response_text second = {
        bytes_str("t"), none,
        bytes_str("{\"index\":0,\"function\":{\"arguments\":\"}\"}},{\"index\":1,\"id\":\"j\","
                  "\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"\"}}")};
    const struct response_text third = {
        none, none, bytes_str("{\"index\":1,\"function\":{\"arguments\":\"{\\\"a\\\":1}\"}}")};
    answer_anthropic.text(&a, NULL, &first, none, none, &out);
    answer_anthropic.text(&a, NULL, &second, none, none, &out);
    answer_anthropic.text(&a, NULL, &third, none, none, &out);
    EXPECT_STR(
        buf_text(&out),
        EVENT("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"tool_use\","
                                     "\"id\":\"i\",\"name\":\"f\",\"input\":{}}")
            EVENT("content_block_delta",
                  ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\"}")
                EVENT(
                    "content_block_delta",
                    ",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"}\"}")
                    EVENT("content_block_stop", ",\"index\":0")
                        EVENT("content_block_start",
                              ",\"index\":1,\"content_block\":{\"type\":\"text\",\"text\":\"\"}")
                            EVENT("content_block_delta",
                                  ",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"t\"}")
                                EVENT("content_block_stop", ",\"index\":1") EVENT(
                                    "content_block_start",
                                    ",\"index\":2,\"content_block\":{\"type\":\"tool_use\","
                                    "\"id\":\"j\",\"name\":\"g\",\"input\":{}}")
                                    EVENT("content_block_delta",
                                          ",\"index\":2,\"delta\":{\"type\":\"input_json_delta\","
                                          "\"partial_json\":\"{\\\"a\\\":1}\"}"));
    buf_release(&out);
}
