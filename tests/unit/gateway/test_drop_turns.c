/* What stays of a conversation whose oldest turns go. */
#include "gateway/prompts/drop_turns.h"

#include "check.h"

#define SYSTEM    "{\"role\":\"system\",\"content\":\"s\"}"
#define DEVELOPER "{\"content\":\"d\",\"role\":\"developer\"}"
#define USER(n)   "{\"role\":\"user\",\"content\":\"" n "\"}"
#define ANSWER    "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"role\":\"user\"}]}"
#define TOOL      "{\"role\":\"tool\",\"content\":\"t\"}"

static const struct conversation {
    const char *messages;
    const char *rests[3]; /* what each cut leaves; NULL: there are no more */
} CONVERSATIONS[] = {
    {"[" SYSTEM "," USER("1") "," ANSWER "," TOOL "," USER("2") "]",
     {"[" SYSTEM "," USER("2") "]"}},
    {"[" SYSTEM "," DEVELOPER " , " USER("1") "," USER("2") "," ANSWER "," USER("3") "]",
     {"[" SYSTEM "," DEVELOPER "," USER("2") "," ANSWER "," USER("3") "]",
      "[" SYSTEM "," DEVELOPER "," USER("3") "]"}},
    {"[" USER("1") "," USER("2") "]", {"[" USER("2") "]"}},
    {"[" ANSWER "," USER("1") "," ANSWER "]", {"[" USER("1") "," ANSWER "]"}},
    /* of the system, but not at the beginning */
    {"[" USER("1") "," SYSTEM "," USER("2") "]", {"[" USER("2") "]"}},
    {"[ " SYSTEM " ,\n" USER("1") ",\t" USER("2") " ]", {"[ " SYSTEM "," USER("2") " ]"}},
    /* nothing could go */
    {"[" USER("1") "]", {NULL}},
    {"[" SYSTEM "," USER("1") "," ANSWER "]", {NULL}},
    {"[" SYSTEM "]", {NULL}},
    {"[]", {NULL}},
};

TEST(the_oldest_turns_go_whole_and_what_the_system_says_stays) {
    struct buf out = {0};
    for (size_t i = 0; i < ARRAY_LEN(CONVERSATIONS); i++) {
        const struct conversation *c = &CONVERSATIONS[i];
        struct turn_cuts cuts;
        size_t count = 0;
        turn_cuts_find(&cuts, bytes_str(c->messages));
        while (c->rests[count])
            count++;
        if (cuts.offsets.count != count)
            check_fail(__FILE__, __LINE__, "%zu cuts in %s", cuts.offsets.count, c->messages);
        for (size_t k = 0; k < cuts.offsets.count && k < count; k++) {
            turn_cuts_apply(&cuts, k, bytes_str(c->messages), &out);
            EXPECT_STR(buf_text(&out), c->rests[k]);
        }
        turn_cuts_release(&cuts);
    }
    buf_release(&out);
}
