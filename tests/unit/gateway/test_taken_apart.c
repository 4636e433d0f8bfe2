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

/* The fake goes on with the prompt where the gateway's tokens end. */
TEST(reasoning_ends_where_it_must) {
#define THINKS "<think>one two three four five six seven</think>So it is what it is."
    struct world w;
    struct answer free, bound, streamed;
    world_echo(&w, ECHO_TEMPLATE);
    w.fake_config.takes_any = true;
    w.fake_config.with_logprobs = true;
    EXPECT(world_start(&w));
    CHAT(&w, THINKS, "", &free);
    CHAT(&w, THINKS, ",\"thinking_token_budget\":100", &bound);
    EXPECT_STR(buf_text(&bound.reasoning), buf_text(&free.reasoning));
    EXPECT_STR(buf_text(&bound.text[0]), buf_text(&free.text[0]));
    answer_release(&bound);
    CHAT(&w, THINKS, ",\"thinking_token_budget\":2,\"logprobs\":true", &bound);
    CHAT(&w, THINKS, ",\"thinking_token_budget\":2,\"stream\":true", &streamed);
    EXPECT(bound.reasoning.len && bound.reasoning.len < free.reasoning.len);
    EXPECT(strncmp(buf_text(&free.reasoning), buf_text(&bound.reasoning), bound.reasoning.len) ==
           0);
    EXPECT(strstr(buf_text(&bound.body), "\"logprob\":0,")); /* of what ended it */
    EXPECT(bound.text[0].len > free.text[0].len);
    EXPECT(strstr(buf_text(&bound.text[0]), "is what it is."));
    EXPECT_STR(bound.finish[0], "stop");
    EXPECT_STR(buf_text(&streamed.reasoning), buf_text(&bound.reasoning));
    EXPECT_STR(buf_text(&streamed.text[0]), buf_text(&bound.text[0]));
    answer_release(&streamed);
    CHAT(&w, THINKS, ",\"thinking_token_budget\":3", &streamed); /* each token is one more */
    EXPECT(streamed.reasoning.len > bound.reasoning.len);
    EXPECT(strncmp(buf_text(&streamed.reasoning), buf_text(&bound.reasoning),
                   bound.reasoning.len) == 0);
    answer_release(&bound);
    answer_release(&streamed);
    CHAT(&w, "a b c d e f g h i j k l",
         ",\"reasoning\":{\"max_tokens\":0},\"chat_template_kwargs\":{\"open\":1},\"n\":2", &bound);
    EXPECT_STR(buf_text(&bound.reasoning), "");
    EXPECT(bound.text[0].len && bound.text[1].len);
    answer_release(&bound);
    /* no room for its end: the answer ends as it would */
    CHAT(&w, THINKS, ",\"thinking_token_budget\":2,\"max_tokens\":4", &bound);
    EXPECT_STR(bound.finish[0], "length");
    EXPECT_EQ(bound.completion_tokens, 4);
    answer_release(&bound);
    CHAT(&w, THINKS, ",\"thinking_token_budget\":2,\"separate_reasoning\":false", &bound);
    EXPECT_EQ(bound.status, 400);
    EXPECT(strstr(buf_text(&bound.body), "'separate_reasoning'"));
    answer_release(&bound);
    answer_release(&free);
    world_echo_end(&w);
}

TEST(a_bound_on_reasoning_needs_marks) {
    struct world w;
    struct answer a;
    world_echo(&w, "{{ messages[-1]['content'] }}");
    EXPECT(world_start(&w));
    CHAT(&w, "a", ",\"thinking_token_budget\":2", &a);
    EXPECT_EQ(a.status, 400);
    EXPECT(strstr(buf_text(&a.body), "--reasoning-parser"));
    answer_release(&a);
    CHAT(&w, "a", ",\"thinking_token_budget\":-1", &a);
    EXPECT_EQ(a.status, 200);
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
