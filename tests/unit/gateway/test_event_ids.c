/* Ids of events, and what is left out of a stream that is resumed. */
#include "check.h"
#include "gateway/answers/event_ids.h"
#include "gateway/generation/presentation.h"

/* A stream of two choices: what a gateway writes, part by part. */
static const struct {
    uint32_t part;
    const char *events;
} WRITTEN[] = {{0, "data: begin 0\n\ndata: begin 1\n\n"},
               {1, "data: a\n\n"},
               {2, "data: x\n\nevent: e\ndata: y\n\n"},
               {1, "data: b\n\n"},
               {0, "data: [DONE]\n\n"}};

static void write_all(uint32_t choices, const struct event_position *behind, struct buf *out) {
    struct event_ids ids;
    event_ids_init(&ids, choices, behind);
    for (size_t i = 0; i < ARRAY_LEN(WRITTEN); i++) {
        size_t from = out->len;
        buf_add_str(out, WRITTEN[i].events);
        event_ids_mark(&ids, MIN(WRITTEN[i].part, choices), out, from);
    }
    event_ids_release(&ids);
}

TEST(event_ids_count_the_answer_and_each_choice) {
    struct buf out = {0};
    write_all(2, NULL, &out);
    EXPECT(bytes_equal(buf_bytes(&out),
                       bytes_str("id: 1-0-0\ndata: begin 0\n\nid: 2-0-0\ndata: begin 1\n\n"
                                 "id: 2-1-0\ndata: a\n\nid: 2-1-1\ndata: x\n\n"
                                 "id: 2-1-2\nevent: e\ndata: y\n\nid: 2-2-2\ndata: b\n\n"
                                 "id: 3-2-2\ndata: [DONE]\n\n")));
    buf_release(&out);
}

TEST(event_ids_leave_out_what_is_there) {
    struct event_position at;
    struct buf out = {0};
    EXPECT(event_position_parse(bytes_str("2-1-1"), &at));
    write_all(2, &at, &out);
    EXPECT(bytes_equal(buf_bytes(&out),
                       bytes_str("id: 2-1-2\nevent: e\ndata: y\n\nid: 2-2-2\ndata: b\n\n"
                                 "id: 3-2-2\ndata: [DONE]\n\n")));
    buf_reset(&out);
    EXPECT(event_position_parse(bytes_str("3-2-2"), &at));
    write_all(2, &at, &out);
    EXPECT_EQ(out.len, 0);
    buf_release(&out);
}

TEST(event_ids_leave_out_every_count_of_bytes) {
    struct buf whole = {0}, out = {0};
    write_all(1, NULL, &whole);
    for (size_t n = 0; n <= whole.len; n++) {
        const struct event_position at = {.bytes = n};
        buf_reset(&out);
        write_all(1, &at, &out);
        EXPECT(bytes_equal(buf_bytes(&out), bytes_of(whole.data + n, whole.len - n)));
    }
    buf_release(&whole);
    buf_release(&out);
}

TEST(event_ids_are_read_strictly) {
    static const char *const BAD[] = {"",     "7",    "-",   "1-",   "-1",
                                      "1--2", "1-x2", "1 2", "1-2 ", "1-4294967296"};
    struct event_position at;
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        EXPECT(!event_position_parse(bytes_str(BAD[i]), &at));
    EXPECT(event_position_parse(bytes_str("4294967295-17"), &at));
    EXPECT(at.count == 2 && at.counts[0] == UINT32_MAX && at.counts[1] == 17);
    EXPECT(event_position_fits(&at, 1) && !event_position_fits(&at, 2));
    struct buf many = {0};
    for (int i = 0; i < 130; i++)
        buf_add_str(&many, i ? "-1" : "1");
    EXPECT(!event_position_parse(buf_bytes(&many), &at));
    EXPECT(event_position_parse(bytes_of(many.data, many.len - 2), &at) && at.count == 129);
    buf_release(&many);
    const struct event_position bytes = {.bytes = 5}, none = {0};
    EXPECT(event_position_fits(&bytes, 1) && !event_position_fits(&bytes, 2));
    EXPECT(event_position_fits(&none, 128));
}

TEST(presentation_is_read_as_it_was_written) {
    static const struct bytes STOPS[] = {{(const uint8_t *)"a\0\"b", 4},
                                         {(const uint8_t *)"\n", 1}};
    const struct parse_config parse = {.in_reasoning = true,
                                       .reasoning = reasoning_format_find(bytes_str("think"))};
    struct genreq g, back;
    struct presentation shown;
    struct buf text = {0};
    struct error err;
    genreq_init(&g, GENREQ_MESSAGES);
    g.stops = STOPS;
    g.stop_count = 2;
    g.stop_patterns = &STOPS[1];
    g.stop_pattern_count = 1;
    g.include_usage = g.logprobs = g.include_stop_text = true;
    g.skip_special_tokens = g.parallel_tool_calls = false;
    presentation_write(&g, &parse, (struct u128){7, 9}, 1234, &text);
    EXPECT_EQ(presentation_read(buf_bytes(&text), &back, &shown, &err), 0);
    EXPECT(shown.number.lo == 7 && shown.number.hi == 9 && shown.created_s == 1234);
    EXPECT(shown.in_reasoning && !shown.in_call);
    EXPECT(reasoning_format_find(shown.reasoning) == parse.reasoning && parse.reasoning);
    EXPECT(call_format_find(shown.calls) == NULL);
    EXPECT(back.dialect == GENREQ_MESSAGES && back.stream && back.stop_count == 2);
    EXPECT(bytes_equal(back.stops[0], STOPS[0]) && bytes_equal(back.stops[1], STOPS[1]));
    EXPECT(back.stop_pattern_count == 1 && bytes_equal(back.stop_patterns[0], STOPS[1]));
    EXPECT(back.include_usage && back.logprobs && back.include_stop_text);
    EXPECT(!back.skip_special_tokens && !back.parallel_tool_calls && !back.continuous_usage &&
           !back.return_token_ids && back.include_reasoning);
    genreq_release(&back);
    for (size_t len = 0; len < text.len; len++) { /* no part of it is taken for the whole */
        EXPECT(presentation_read(bytes_of(text.data, len), &back, &shown, &err) != 0);
        genreq_release(&back);
    }
    genreq_release(&g);
    buf_release(&text);
}
