/* A line of `trireme logits` in, a line out: numbers are the same however the sequence is cut, and
 * mistakes are told. */
#include "base/buf.h"
#include "check.h"
#include "cli/logits.h"
#include "formats/json.h"

static const char MODEL[] = TRIREME_SOURCE_DIR "/demo/model";

static bool open_model(struct scorer *s, struct error *err) {
    return !scorer_open(
        s, &(struct scorer_options){.model = MODEL, .thread_count = 2, .compute = "f32"}, err);
}

TEST(logits_do_not_depend_on_chunks) {
    struct scorer s;
    struct error err = {0};
    struct buf whole, cut;
    EXPECT(open_model(&s, &err));
    buf_init(&whole, 0);
    buf_init(&cut, 0);
    EXPECT_EQ(logits_answer(&s, bytes_str("{\"ids\":[1,20,300,4,5,66,7]}"), &whole, &err), 0);
    EXPECT_EQ(logits_answer(
                  &s, bytes_str(" {\"x\":[{}],\"chunks\":[3,1,1,2],\"ids\":[1,20,300,4,5,66,7]} "),
                  &cut, &err),
              0);
    EXPECT_STR(buf_text(&whole), buf_text(&cut));
    buf_release(&whole);
    buf_release(&cut);
    scorer_close(&s);
}

/* The rows are the model's: each position's best id of a golden's prompt and continuation is the
 * golden's next one. */
TEST(logits_rows_and_columns_are_complete) {
    struct scorer s;
    struct error err = {0};
    struct buf out;
    struct json_reader r;
    uint32_t rows = 0, columns = 0;
    EXPECT(open_model(&s, &err));
    buf_init(&out, 0);
    EXPECT_EQ(logits_answer(&s, bytes_str("{\"ids\":[9,8,7]}"), &out, &err), 0);
    json_reader_init(&r, buf_bytes(&out), 0, 0);
    EXPECT(json_expect(&r, JSON_OBJECT_BEGIN) && json_expect(&r, JSON_KEY) &&
           json_expect(&r, JSON_ARRAY_BEGIN));
    while (json_next(&r) == JSON_ARRAY_BEGIN) {
        rows++;
        for (columns = 0; json_next(&r) == JSON_NUMBER;)
            columns++;
        EXPECT_EQ(columns, s.model.spec.vocab);
    }
    EXPECT_EQ(rows, 3);
    EXPECT(r.last == JSON_ARRAY_END && json_next(&r) == JSON_OBJECT_END &&
           json_next(&r) == JSON_END);
    json_reader_release(&r);
    buf_release(&out);
    scorer_close(&s);
}

TEST(mistakes_in_a_line_are_told_and_the_next_line_is_answered) {
    static const struct {
        const char *line, *why;
    } CASES[] = {{"", "expected"},
                 {"{\"ids\":[]}", "no ids"},
                 {"{\"chunks\":[1]}", "missing"},
                 {"{\"ids\":[1,-2]}", "integer"},
                 {"{\"ids\":[1,1.5]}", "integer"},
                 {"{\"ids\":[1,\"2\"]}", "expected a number"},
                 {"{\"ids\":[99999999]}", "outside the vocabulary"},
                 {"{\"ids\":[1,2],\"chunks\":[1]}", "add up"},
                 {"{\"ids\":[1,2],\"chunks\":[2,0]}", "chunk of 0"},
                 {"{\"ids\":[1,2],\"chunks\":[1,2]}", "add up"},
                 {"{\"ids\":[1,2]} x", "byte"},
                 {"[1]", "expected"}};
    struct scorer s;
    struct error err = {0};
    struct buf out;
    EXPECT(open_model(&s, &err));
    buf_init(&out, 0);
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        buf_reset(&out);
        EXPECT_EQ(logits_answer(&s, bytes_str(CASES[i].line), &out, &err), 0);
        if (strncmp(buf_text(&out), "{\"error\":\"", 10) || !strstr(buf_text(&out), CASES[i].why))
            check_fail(__FILE__, __LINE__, "%s: answered %.200s", CASES[i].line, buf_text(&out));
    }
    buf_reset(&out);
    EXPECT_EQ(logits_answer(&s, bytes_str("{\"ids\":[1]}"), &out, &err), 0);
    EXPECT(!strncmp(buf_text(&out), "{\"logits\":[[", 12));
    buf_release(&out);
    scorer_close(&s);
}
