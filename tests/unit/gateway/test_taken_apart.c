/* Answers taken apart: reasoning, calls and content, streamed and whole. */
#include "world.h"

#define SAYS                                                                                       \
    "<think>I "                                                                                    \
    "look.</"                                                                                      \
    "think>Wait.\\n<tool_call>{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"a\\\":"               \
    "\\\"\\\\\\\"é\\\"}}</"                                                                       \
    "tool_call>"                                                                                   \
    "<tool_call>{\\\"name\\\":\\\"g\\\"}</tool_call>"

TEST(chats_are_taken_apart_streamed_and_whole) {
    struct world w;
    struct answer whole, streamed;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    CHAT(&w, SAYS, TOOL ",\"seed\":1", &whole);
    CHAT(&w, SAYS, TOOL ",\"seed\":1,\"stream\":true", &streamed);
    EXPECT_STR(buf_text(&whole.text[0]), "Wait.");
    EXPECT_STR(buf_text(&whole.reasoning), "I look.");
    EXPECT(strncmp(buf_text(&whole.calls), "f ", 2) == 0);
    EXPECT(strstr(buf_text(&whole.calls), " {\"a\":\"\\\"é\"}\ng "));
    EXPECT_STR(whole.finish[0], "tool_calls");
    EXPECT_STR(buf_text(&streamed.text[0]), buf_text(&whole.text[0]));
    EXPECT_STR(buf_text(&streamed.reasoning), buf_text(&whole.reasoning));
    EXPECT_STR(streamed.finish[0], "tool_calls");
    EXPECT(strstr(buf_text(&streamed.calls), " {\"a\":\"\\\"é\"}\ng "));
    EXPECT(strstr(buf_text(&streamed.body), "\"tool_calls\":[{\"index\":0,\"id\":\""));
    EXPECT(strstr(buf_text(&whole.body), "\"reasoning_content\":\"I look.\""));
    EXPECT(strstr(buf_text(&whole.body), "\"completion_tokens_details\":{\"reasoning_tokens\":"));
    EXPECT(!strstr(buf_text(&whole.body), "\"reasoning_tokens\":0"));
    answer_release(&whole);
    answer_release(&streamed);
    world_echo_end(&w);
}

TEST(fields_say_what_is_taken_apart) {
    struct world w;
    struct answer a;
    world_echo(&w, ECHO_TEMPLATE);
    EXPECT(world_start(&w));
    CHAT(&w, SAYS, "", &a); /* no tools: calls are text */
    EXPECT(strstr(buf_text(&a.text[0]), "Wait.\n<tool_call>"));
    EXPECT_STR(a.finish[0], "stop");
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"tool_choice\":\"none\",\"include_reasoning\":false", &a);
    EXPECT(strstr(buf_text(&a.text[0]), "Wait.\n<tool_call>"));
    EXPECT_STR(buf_text(&a.reasoning), "");
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"separate_reasoning\":false", &a);
    EXPECT_STR(buf_text(&a.text[0]), "<think>I look.</think>Wait.");
    EXPECT(!a.reasoning.len && a.calls.len && !strstr(buf_text(&a.body), "reasoning_tokens"));
    answer_release(&a);
    CHAT(&w, SAYS, TOOL ",\"parallel_tool_calls\":false", &a);
    EXPECT(!strstr(buf_text(&a.calls), "\ng "));
    answer_release(&a);
    /* as the fake echoes the whole prompt */
    CHAT(&w, "x</think>y", ",\"chat_template_kwargs\":{\"open\":1}", &a);
    EXPECT_STR(buf_text(&a.reasoning), "x");
    EXPECT_STR(buf_text(&a.text[0]), "y");
    answer_release(&a);
    CHAT(&w, "x", ",\"tool_choice\":\"required\"", &a); /* of no tools */
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    CHAT(&w, "x", ",\"reasoning_effort\":\"huge\"", &a);
    EXPECT_EQ(a.status, 400);
    answer_release(&a);
    world_echo_end(&w);
}

TEST(parsers_may_be_chosen_by_name) {
    struct world w;
    struct answer a;
    struct error err;
    world_echo(&w, "{{ messages[-1]['content'] }}");
    w.settings.reasoning_parser = "magistral";
    w.settings.tool_call_parser = "mistral";
    EXPECT(world_start(&w));
    CHAT(&w, "[THINK]a[/THINK][TOOL_CALLS]f[ARGS]{}", TOOL, &a);
    EXPECT_STR(buf_text(&a.reasoning), "a");
    EXPECT(strncmp(buf_text(&a.calls), "f ", 2) == 0);
    answer_release(&a);
    struct gateway *other;
    w.settings.tool_call_parser = "nobody's";
    EXPECT(gateway_new(&other, &w.settings, &err) != 0);
    EXPECT(strstr(err.text, "nobody's"));
    world_echo_end(&w);
}
