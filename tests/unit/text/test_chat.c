#include "text/chat.h"

#include "check.h"
#include "golden.h"

static const char CHATML[] = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ "
                             "m.content }}<|im_end|>\n{% endfor %}"
                             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

static struct chat *load_files(const struct bundle_file *files, size_t count) {
    struct buf packed = {0};
    struct bundle b;
    struct chat *chat = NULL;
    struct error err;
    if (bundle_pack_files(files, count, &packed, &err) ||
        bundle_open(&b, buf_bytes(&packed), &err) || chat_load(&b, &chat, &err))
        check_fail(__FILE__, __LINE__, "%s", err.text);
    buf_release(&packed); /* nothing is borrowed */
    return chat;
}

static struct bundle_file file(const char *name, const char *data) {
    return (struct bundle_file){bytes_str(name), bytes_str(data)};
}

static struct chat *chatml(void) {
    struct bundle_file files[] = {
        file("chat_template.jinja", CHATML),
        file("tokenizer_config.json", "{\"bos_token\": \"<s>\", \"chat_template\": \"other\"}")};
    return load_files(files, 2);
}

/* The rendered text, or "error CODE: text"; valid until the next call. */
static const char *rendered(const struct chat *chat, struct chat_request request) {
    static struct buf out;
    struct error err;
    buf_reset(&out);
    int rc = chat_render(chat, &request, &out, &err);
    if (rc) {
        buf_reset(&out);
        buf_addf(&out, "error %d: %s", rc, err.text);
    }
    return buf_text(&out);
}

#define HELLO "[{\"role\": \"user\", \"content\": \"Hello\"}]"

TEST(a_file_wins_over_the_config) {
    struct chat *chat = chatml();
    EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(HELLO),
                                                    .add_generation_prompt = true}),
               "<s><|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
    EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(HELLO)}),
               "<s><|im_start|>user\nHello<|im_end|>\n");
    chat_free(&chat);
}

TEST(templates_beside_the_default_have_files_of_their_own) {
    struct bundle_file files[] = {
        file("chat_template.jinja", "D"),
        file("additional_chat_templates/rag.jinja", "R{{ documents|length }}"),
        file("additional_chat_templates/.jinja", "without a name"),
        file("tokenizer_config.json", "{}")};
    struct chat *chat = load_files(files, 4);
    struct chat_request r = {.messages = bytes_str(HELLO)};
    EXPECT_STR(rendered(chat, r), "D");
    r.template_name = "rag";
    r.documents = bytes_str("[{}, {}]");
    EXPECT_STR(rendered(chat, r), "R2");
    r.template_name = "";
    EXPECT(strstr(rendered(chat, r), "error"));
    chat_free(&chat);
}

TEST(named_templates_are_chosen_as_hf_does) {
    struct bundle_file files[] = {
        file("tokenizer_config.json",
             "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D{{ tools }}\"},"
             "{\"name\": \"tool_use\", \"template\": \"T{{ tools|length }}\"},"
             "{\"name\": \"rag\", \"template\": \"R{{ documents|length }}\"}]}")};
    struct chat *chat = load_files(files, 1);
    struct chat_request r = {.messages = bytes_str(HELLO)};
    EXPECT_STR(rendered(chat, r), "DNone");
    r.tools = bytes_str("[{\"type\": \"function\"}]");
    EXPECT_STR(rendered(chat, r), "T1");
    r.template_name = "rag";
    r.documents = bytes_str("[{}, {}]");
    EXPECT_STR(rendered(chat, r), "R2");
    r.template_name = "nothing";
    EXPECT_STR(rendered(chat, r), "error -2: the model has no chat template named 'nothing'");
    EXPECT(bytes_equal(chat_template_source(chat, NULL, true), bytes_str("T{{ tools|length }}")));
    chat_free(&chat);
}

TEST(a_model_without_a_template_says_so) {
    struct chat *chat = load_files((struct bundle_file[]){file("tokenizer_config.json", "{}")}, 1);
    EXPECT(!chat_has_template(chat));
    EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(HELLO)}),
               "error -2: the model has no chat template");
    struct error err;
    EXPECT_EQ(chat_set_template(chat, bytes_str("{% if %}"), &err), ERR_INVALID);
    EXPECT_EQ(chat_set_template(chat, bytes_str("<{{ messages[0].content }}>"), &err), 0);
    EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(HELLO)}), "<Hello>");
    chat_free(&chat);
}

TEST(content_parts_fit_the_template) {
    struct chat *chat = chatml();
    struct chat_request r = {
        .messages = bytes_str("[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
                              "\"a\"}, {\"type\": \"text\", \"text\": \"b\"}]}]")};
    EXPECT_STR(rendered(chat, r), "<s><|im_start|>user\na\nb<|im_end|>\n");
    r.messages = bytes_str(
        "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]");
    EXPECT_STR(rendered(chat, r),
               "error -3: messages[0].content[0]: this model takes text only, not 'image_url'");
    r.messages = bytes_str("[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
                           "\"a\"}, {\"type\": \"input_audio\"}]}]");
    EXPECT_STR(rendered(chat, r),
               "error -3: messages[0].content[1]: this model takes text only, not 'input_audio'");
    r.messages = bytes_str("[{\"role\": \"assistant\", \"content\": null}, {\"role\": \"user\"}]");
    EXPECT_STR(rendered(chat, r),
               "<s><|im_start|>assistant\n<|im_end|>\n<|im_start|>user\n<|im_end|>\n");
    struct error err;
    EXPECT_EQ(
        chat_set_template(
            chat, bytes_str("{% for p in messages[0].content %}[{{ p.text }}]{% endfor %}"), &err),
        0);
    r.messages = bytes_str(
        "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"text\", \"text\": \"b\"}]}]");
    EXPECT_STR(rendered(chat, r), "[a][b]");
    /* without a type: a text where it has one, and templates see it so */
    r.messages = bytes_str("[{\"role\":\"user\",\"content\":[{\"text\":\"a\"},{\"text\":\"b\"}]}]");
    EXPECT_STR(rendered(chat, r), "[a][b]");
    EXPECT_EQ(chat_set_template(chat,
                                bytes_str("{% for p in messages[0].content %}{% if p.type == "
                                          "'text' %}[{{ p.text }}]{% endif %}{% endfor %}"),
                                &err),
              0);
    EXPECT_STR(rendered(chat, r), "[a][b]");
    /* and by every name that a text goes by */
    r.messages =
        bytes_str("[{\"role\":\"assistant\",\"content\":[{\"type\":\"input_text\",\"text\":"
                  "\"a\"},{\"type\":\"output_text\",\"text\":\"b\",\"annotations\":[]},"
                  "{\"refusal\":\"c\",\"type\":\"refusal\"}]}]");
    EXPECT_STR(rendered(chat, r), "[a][b][c]");
    r.messages = bytes_str("[{\"role\":\"user\",\"content\":[{\"image_url\":\"a\"}]}]");
    EXPECT_STR(rendered(chat, r),
               "error -3: messages[0].content[0]: this model takes text only, not ''");
    chat_free(&chat);
}

#define CALL_WITH(arguments)                                                                       \
    "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "                \
    "\"arguments\": " arguments "}}]}]"

TEST(tool_arguments_stay_strings_where_objects_do_not_fit) {
    static const char ADDS[] =
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.name + ':' + "
        "c.function.arguments }}{% endfor %}{% endfor %}";
    struct chat *chat = chatml();
    struct buf out = {0};
    struct error err;
    EXPECT_EQ(chat_set_template(chat, bytes_str(ADDS), &err), 0);
    struct chat_request r = {.messages = bytes_str(CALL_WITH("\"{\\\"a\\\":  1}\""))};
    EXPECT_STR(rendered(chat, r), "f:{\"a\":  1}");
    /* an object from the client: nothing to fall back on */
    r.messages = bytes_str(CALL_WITH("{\"a\": 1}"));
    EXPECT_EQ(chat_render(chat, &r, &out, &err), ERR_INVALID);
    EXPECT_EQ(chat_set_template(
                  chat, bytes_str("{{ raise_exception(messages[0].tool_calls|tojson) }}"), &err),
              0);
    r.messages = bytes_str(CALL_WITH("\"{}\""));
    EXPECT_EQ(chat_render(chat, &r, &out, &err), ERR_INVALID);
    EXPECT(strstr(err.text, "\"arguments\": {}") != NULL); /* the first error, of the objects */
    EXPECT_EQ(out.len, 0);
    buf_release(&out);
    chat_free(&chat);
}

TEST(tool_arguments_become_objects) {
    struct chat *chat = chatml();
    struct error err;
    EXPECT_EQ(
        chat_set_template(
            chat, bytes_str("{{ messages[0].tool_calls[0].function.arguments|tojson }}"), &err),
        0);
    struct chat_request r = {
        .messages = bytes_str("[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": "
                              "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": [1, 2.0]}\"}}]}]")};
    EXPECT_STR(rendered(chat, r), "{\"a\": [1, 2.0]}");
    r.raw_messages = true;
    EXPECT_STR(rendered(chat, r), "\"{\\\"a\\\": [1, 2.0]}\"");
    /* what is no object stays as it is; nothing is an empty one */
    static const char *const OTHERS[][2] = {{CALL_WITH("\"[1]\""), "\"[1]\""},
                                            {CALL_WITH("\"{\""), "\"{\""},
                                            {CALL_WITH("\"null\""), "\"null\""},
                                            {CALL_WITH("\"not so\""), "\"not so\""},
                                            {CALL_WITH("\"\""), "{}"},
                                            {CALL_WITH("{\"b\": 1}"), "{\"b\": 1}"},
                                            {CALL_WITH("[1]"), "[1]"}};
    r.raw_messages = false;
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++) {
        r.messages = bytes_str(OTHERS[i][0]);
        EXPECT_STR(rendered(chat, r), OTHERS[i][1]);
    }
    chat_free(&chat);
}

TEST(a_tools_result_may_name_its_tool_as_ollama_does) {
    struct chat *chat = chatml();
    struct error err;
    EXPECT_EQ(chat_set_template(
                  chat, bytes_str("{% for m in messages %}<{{ m.name }}>{% endfor %}"), &err),
              0);
    struct chat_request r = {
        .messages = bytes_str("[{\"role\": \"tool\", \"content\": \"7\", \"tool_name\": \"f\"},"
                              "{\"role\": \"tool\", \"content\": \"7\", \"tool_name\": \"f\","
                              " \"name\": \"g\"}]")};
    EXPECT_STR(rendered(chat, r), "<f><g>");
    chat_free(&chat);
}

TEST(kwargs_reach_the_template_but_not_messages) {
    struct chat *chat = chatml();
    struct error err;
    EXPECT_EQ(chat_set_template(chat, bytes_str("{{ enable_thinking }}{{ bos_token }}"), &err), 0);
    struct chat_request r = {.messages = bytes_str(HELLO),
                             .kwargs =
                                 bytes_str("{\"enable_thinking\": false, \"bos_token\": \"B\"}")};
    EXPECT_STR(rendered(chat, r), "FalseB");
    r.kwargs = bytes_str("{\"messages\": []}");
    EXPECT_STR(rendered(chat, r), "error -1: chat_template_kwargs may not replace messages");
    chat_free(&chat);
}

/* What was thought comes back under one of three names; a template finds it under both of the usual ones. */
TEST(thoughts_of_earlier_answers_have_both_names) {
    static const char *const ROWS[][2] = {
        {"\"reasoning_content\": \"a\"", "<a|a>"},
        {"\"reasoning\": \"b\"", "<b|b>"},
        {"\"thinking\": \"c\"", "<c|c>"},
        {"\"reasoning_content\": \"a\", \"reasoning\": \"b\"", "<a|b>"},
        {"\"reasoning_content\": \"a\", \"thinking\": \"c\"", "<a|a>"},
        {"\"reasoning\": \"b\", \"thinking\": \"c\"", "<b|b>"},
        {"\"reasoning_content\": null, \"reasoning\": \"b\"", "<b|b>"},
        {"\"reasoning_content\": null, \"reasoning\": 5, \"thinking\": \"c\"", "<c|c>"},
        {"\"reasoning_content\": \"\", \"reasoning\": \"b\"", "<|b>"},
        {"\"thinking\": 5", "<|>"},
        {"\"name\": \"x\"", "<|>"},
    };
    struct chat *chat = chatml();
    struct buf messages = {0};
    struct error err;
    EXPECT_EQ(chat_set_template(
                  chat,
                  bytes_str("<{{ messages[0].reasoning_content }}|{{ messages[0].reasoning }}>"),
                  &err),
              0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++) {
        buf_reset(&messages);
        buf_addf(&messages, "[{\"role\": \"assistant\", \"content\": \"\", %s}]", ROWS[i][0]);
        EXPECT_STR(rendered(chat, (struct chat_request){.messages = buf_bytes(&messages)}),
                   ROWS[i][1]);
    }
    buf_release(&messages);
    chat_free(&chat);
}

/* Only "none" turns thinking off, by the two names that templates ask for; kwargs have the last word. */
TEST(an_effort_reaches_the_template_and_none_turns_thinking_off) {
    static const char *const ROWS[][3] = {
        {"", "", "||"},
        {"low", "", "low||"},
        {"none", "", "none|False|False"},
        {"none", "{\"thinking\": true}", "none|False|True"},
        {"none", "{\"enable_thinking\": true}", "none|True|False"},
        {"none", "{\"reasoning_effort\": \"high\"}", "high|False|False"},
        {"nonesuch", "", "nonesuch||"},
    };
    struct chat *chat = chatml();
    struct error err;
    EXPECT_EQ(
        chat_set_template(
            chat, bytes_str("{{ reasoning_effort }}|{{ enable_thinking }}|{{ thinking }}"), &err),
        0);
    for (size_t i = 0; i < ARRAY_LEN(ROWS); i++)
        EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(HELLO),
                                                        .reasoning_effort = bytes_str(ROWS[i][0]),
                                                        .kwargs = bytes_str(ROWS[i][1])}),
                   ROWS[i][2]);
    chat_free(&chat);
}

TEST(the_final_message_is_continued) {
    struct chat *chat = chatml();
    struct chat_request r = {.messages =
                                 bytes_str("[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": "
                                           "\"assistant\", \"content\": \"Sure, \"}]"),
                             .continue_final_message = true};
    EXPECT_STR(rendered(chat, r),
               "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSure, ");
    r.add_generation_prompt = true;
    EXPECT(!strncmp(rendered(chat, r), "error -1", 8));
    r.add_generation_prompt = false;
    struct error err;
    EXPECT_EQ(chat_set_template(chat, bytes_str("{{ messages[-1].content|trim }}</s>"), &err), 0);
    EXPECT_STR(rendered(chat, r), "Sure,");
    /* its text may stand behind it once more, be empty, or be its last part with a text */
    r.messages = bytes_str("[{\"role\": \"assistant\", \"content\": \"s\"}]");
    EXPECT_STR(rendered(chat, r), "s");
    r.messages = bytes_str("[{\"role\": \"assistant\", \"content\": \"\"}]");
    EXPECT_STR(rendered(chat, r), "");
    EXPECT_EQ(
        chat_set_template(
            chat, bytes_str("{% for p in messages[-1].content %}{{ p.text }}|{% endfor %}"), &err),
        0);
    r.messages = bytes_str("[{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", "
                           "\"text\": \"a\"}, {\"type\": "
                           "\"text\", \"text\": \"b \"}]}]");
    EXPECT_STR(rendered(chat, r), "a|b ");
    r.messages = bytes_str("[{\"role\": \"assistant\", \"tool_calls\": []}]");
    EXPECT(!strncmp(rendered(chat, r), "error -1", 8));
    EXPECT_EQ(chat_set_template(chat, bytes_str("nothing"), &err), 0);
    EXPECT(!strncmp(rendered(chat, r), "error -1", 8));
    chat_free(&chat);
}

TEST(templates_that_need_tools_work_without) {
    struct chat *chat = load_files((struct bundle_file[]){file("tokenizer_config.json", "{}")}, 1);
    struct chat_request r = {.messages = bytes_str("[{\"role\": \"user\", \"content\": \"Hi\"}]")};
    struct error err;
    EXPECT_EQ(chat_set_template(chat, bytes_str("{{ tools is none }}"), &err), 0);
    EXPECT_STR(rendered(chat, r), "True");
    EXPECT_EQ(
        chat_set_template(
            chat, bytes_str("{% for t in tools %}{{ t }}{% endfor %}{{ tools is defined }}"), &err),
        0);
    EXPECT_STR(rendered(chat, r), "False");
    r.tools = bytes_str("[5]");
    EXPECT_STR(rendered(chat, r), "5True");
    chat_free(&chat);
}

TEST(bad_messages_are_the_clients_mistake) {
    static const char *const BAD[] = {"",
                                      "{",
                                      "{}",
                                      "[]",
                                      "null",
                                      "[1]",
                                      "[{}]",
                                      "[{\"role\": 1}]",
                                      "[{\"role\": \"user\", \"content\": 5}]",
                                      "[{\"role\": \"user\", \"content\": {\"a\": 1}}]"};
    struct chat *chat = chatml();
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        if (strncmp(rendered(chat, (struct chat_request){.messages = bytes_str(BAD[i])}),
                    "error -1", 8) != 0)
            check_fail(__FILE__, __LINE__, "taken: %s", BAD[i]);
    chat_free(&chat);
}

TEST(prompt_parses_the_templates_own_tokens) {
    struct buf json = golden_read_source("tests/goldens/text/byte_level.tokenizer.json");
    struct bundle_file files[] = {
        {bytes_str("tokenizer.json"), buf_bytes(&json)},
        file("chat_template.jinja", "<|begin|>{{ messages[0].content }}<|end|>")};
    struct buf packed = {0};
    struct bundle b;
    struct chat *chat;
    struct tokenizer *t;
    struct token_vec ids = {0};
    EXPECT_EQ(bundle_pack_files(files, 2, &packed, NULL), 0);
    EXPECT_EQ(bundle_open(&b, buf_bytes(&packed), NULL), 0);
    EXPECT_EQ(tokenizer_load_bundle(&b, &t, NULL), 0);
    EXPECT_EQ(chat_load(&b, &chat, NULL), 0);
    struct chat_request r = {.messages = bytes_str("[{\"role\": \"user\", \"content\": \"Hi\"}]")};
    EXPECT_EQ(chat_prompt(chat, t, &r, &ids, NULL), 0);
    EXPECT(ids.count >= 3);
    EXPECT_EQ(ids.items[0], tokenizer_find(t, bytes_str("<|begin|>")));
    EXPECT_EQ(ids.items[ids.count - 1], tokenizer_find(t, bytes_str("<|end|>")));
    vec_release(&ids);
    chat_free(&chat);
    tokenizer_free(&t);
    buf_release(&packed);
    buf_release(&json);
}

/* ---- probing ---- */

static const char *probed(const char *added, const char *model_type, struct chat **chat) {
    struct buf json = {0};
    struct tokenizer *t;
    struct error err;
    struct bundle_file files[] = {file("tokenizer_config.json", "{\"bos_token\": \"<s>\"}")};
    buf_addf(&json,
             "{\"added_tokens\": [%s], \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, "
             "\"merges\": []}}",
             added);
    if (tokenizer_load(buf_bytes(&json), bytes_of(NULL, 0), bytes_of(NULL, 0), &t, &err)) {
        check_fail(__FILE__, __LINE__, "%s", err.text);
        return NULL;
    }
    *chat = load_files(files, 1);
    const char *name = chat_probe(*chat, t, bytes_str(model_type));
    tokenizer_free(&t);
    buf_release(&json);
    return name;
}

#define ADDED(id, text) "{\"id\": " #id ", \"content\": \"" text "\", \"special\": true}"
#define TALK                                                                                       \
    "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": \"U\"}, "      \
    "{\"role\": "                                                                                  \
    "\"assistant\", "                                                                              \
    "\"content\": \"A\"}, {\"role\": \"user\", \"content\": \"V\"}]"

TEST(models_without_a_template_are_probed) {
    static const struct {
        const char *added, *type, *name, *text;
    } PROBED[] = {
        {ADDED(1, "<|im_start|>") "," ADDED(2, "<|im_end|>"), "", "chatml",
         "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<"
         "|im_end|>\n"
         "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"},
        {ADDED(1, "<|eot_id|>") "," ADDED(2, "<|start_header_id|>") "," ADDED(3,
                                                                              "<|end_header_id|>"),
         "llama", "llama3",
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|"
         "eot_id|><|start_header_id|>user<|end_header_id|>\n\nU<|eot_id|><|"
         "start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|><|start_header_id|"
         ">user<|end_header_id|>\n\nV<|eot_id|><|start_header_id|>assistant<|"
         "end_header_id|>\n\n"},
        {ADDED(1, "<start_of_turn>") "," ADDED(2, "<end_of_turn>"), "gemma", "gemma",
         "<bos><start_of_turn>user\nS\n\nU<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>\n<"
         "start_of_turn>user\nV"
         "<end_of_turn>\n<start_of_turn>model\n"},
        {ADDED(1, "<s>") "," ADDED(2, "</s>") "," ADDED(3, "<0x0A>"), "llama", "llama2",
         "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST] A </s><s>[INST] V [/INST]"},
        {ADDED(1, "<s>") "," ADDED(2, "</s>") "," ADDED(3, "<0x0A>"), "mistral", "mistral",
         "<s>[INST] S\n\nU [/INST]A</s>[INST] V [/INST]"},
        {ADDED(1, "<|user|>") "," ADDED(2, "<|assistant|>") "," ADDED(3, "<|end|>"), "phi3", "phi3",
         "<|system|>\nS<|end|>\n<|user|>\nU<|end|>\n<|assistant|>\nA<|end|>\n<|user|>\nV<|end|>\n<|"
         "assistant|>\n"},
        {ADDED(1, "<|user|>") "," ADDED(2, "<|assistant|>") "," ADDED(3, "</s>"), "", "zephyr",
         "<|system|>\nS</s>\n<|user|>\nU</s>\n<|assistant|>\nA</s>\n<|user|"
         ">\nV</s>\n<|assistant|>\n"},
        {ADDED(1, "<s>"), "llama", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(PROBED); i++) {
        struct chat *chat;
        const char *name = probed(PROBED[i].added, PROBED[i].type, &chat);
        if (PROBED[i].name) {
            EXPECT_STR(name, PROBED[i].name);
            EXPECT_STR(rendered(chat, (struct chat_request){.messages = bytes_str(TALK),
                                                            .add_generation_prompt = true}),
                       PROBED[i].text);
        } else {
            EXPECT(!name && !chat_has_template(chat));
        }
        chat_free(&chat);
    }
    struct chat *own = chatml();
    EXPECT(!chat_probe(own, NULL, bytes_of(NULL, 0)));
    chat_free(&own);
}
