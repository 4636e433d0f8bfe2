/* A conversation, what its commands print, and what it is in a file. */
#include "base/fsutil.h"
#include "capture.h"
#include "check.h"
#include "cli/chat_commands.h"

#include <stdlib.h>

static struct buf out, err;
static struct conversation c;
static const struct talk_settings SETTINGS = {
    .temperature = 0.5, .top_p = 0.9, .max_tokens = 100, .seed = 7};

static char folder[] = "/tmp/trm-chat-XXXXXX";

static void remove_folder(void) {
    char text[100];
    snprintf(text, sizeof text, "rm -rf '%s'", folder);
    if (system(text))
        abort();
}

/* A line with the test's folder in place of %s. */
static enum chat_outcome say(const char *line) {
    char text[256];
    if (strstr(folder, "XXXXXX")) {
        CHECK(mkdtemp(folder));
        atexit(remove_folder);
    }
    const char *at = strstr(line, "%s");
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - line) : 256, line, at ? folder : "",
             at ? at + 2 : "");
    struct capture o = capture_begin(STDOUT_FILENO), e = capture_begin(STDERR_FILENO);
    enum chat_outcome outcome = chat_command(&c, text);
    capture_end(&e, &err);
    capture_end(&o, &out);
    return outcome;
}

static void begin(void) {
    conversation_init(&c, &SETTINGS);
    conversation_add(&c, "one");
    conversation_add(&c, "two \"2\"");
}

static const char *messages(void) {
    static struct buf json;
    buf_reset(&json);
    conversation_messages(&c, &json);
    return buf_text(&json);
}

TEST(commands_answer_with_what_they_did) {
    static const struct {
        const char *line, *out, *err;
    } LINES[] = {
        {"/system", "system message: none\n", ""},
        {"/system be brief", "system message: be brief\n", ""},
        {"/system", "system message: be brief\n", ""},
        {"/system   be   long", "system message: be   long\n", ""},
        {"/system none", "system message: none\n", ""},
        {"/set", "temperature 0.5\ntop-p 0.9\nmax-tokens 100\nseed 7\n", ""},
        {"/set temperature 0.25", "", ""},
        {"/set top-p=0.75", "", ""},
        {"/set max-tokens = 9", "", ""},
        {"/set seed 8", "", ""},
        {"/set", "temperature 0.25\ntop-p 0.75\nmax-tokens 9\nseed 8\n", ""},
        {"/set seed", "", "trireme chat: /set NAME VALUE\n"},
        {"/set model x", "",
         "trireme chat: 'model' cannot be set; temperature, top-p, max-tokens and seed can\n"},
        {"/save", "", "trireme chat: /save FILE\n"},
        {"/save!", "", "trireme chat: /save! FILE\n"},
        {"/load", "", "trireme chat: /load FILE\n"},
        {"/sail", "", "trireme chat: there is no /sail; /help lists what there is\n"},
        {"/set2 x", "", "trireme chat: there is no /set2; /help lists what there is\n"},
        {"/", "", "trireme chat: there is no /; /help lists what there is\n"},
    };
    begin();
    for (size_t i = 0; i < ARRAY_LEN(LINES); i++)
        if (say(LINES[i].line) != CHAT_GO_ON || strcmp(buf_text(&out), LINES[i].out) != 0 ||
            strcmp(buf_text(&err), LINES[i].err) != 0)
            check_fail(__FILE__, __LINE__, "%s: '%s' and '%s'", LINES[i].line, buf_text(&out),
                       buf_text(&err));
    EXPECT_EQ(say("/set temperature hot"), CHAT_GO_ON);
    EXPECT(strstr(buf_text(&err), "hot") && c.settings.temperature == 0.25);
    EXPECT_EQ(say("/help"), CHAT_GO_ON);
    EXPECT(!strncmp(buf_text(&out), "/help                   print this\n/clear ", 42));
    EXPECT(strstr(buf_text(&out), "\n/quit ") && !strstr(buf_text(&out), "\n/bye "));
    EXPECT(say("/quit") == CHAT_QUIT && say("/exit") == CHAT_QUIT && say("/bye") == CHAT_QUIT);
    conversation_release(&c);
}

TEST(what_was_said_is_forgotten_but_for_the_system_message) {
    static const char *const CLEARING[] = {"/clear", "/new"};
    for (size_t i = 0; i < ARRAY_LEN(CLEARING); i++) {
        begin();
        EXPECT_STR(messages(), "[{\"role\":\"user\",\"content\":\"one\"},"
                               "{\"role\":\"assistant\",\"content\":\"two \\\"2\\\"\"}]");
        conversation_add(&c, "three");
        conversation_drop_last(&c);
        EXPECT_EQ(c.said.count, 2);
        (void)say("/system s");
        EXPECT_EQ(say(CLEARING[i]), CHAT_GO_ON);
        EXPECT_STR(messages(), "[{\"role\":\"system\",\"content\":\"s\"}]");
        conversation_release(&c);
        EXPECT(!c.system && !c.said.count);
    }
}

TEST(conversations_come_back_from_their_files) {
    struct buf kept = {0};
    begin();
    (void)say("/system s");
    buf_add_str(&kept, messages());
    (void)say("/save %s/a");
    EXPECT(!strncmp(buf_text(&out), "saved as ", 9) && !err.len);
    (void)say("/save %s/a");
    EXPECT(strstr(buf_text(&err), "' is there already; /save! writes over it\n"));
    (void)say("/save! %s/a");
    EXPECT(!strncmp(buf_text(&out), "saved as ", 9) && !err.len);
    (void)say("/clear");
    (void)say("/system none");
    (void)say("/load %s/a");
    EXPECT_STR(buf_text(&out), "loaded, 2 messages\n");
    EXPECT_STR(messages(), buf_text(&kept));
    EXPECT(c.settings.seed == 7);
    conversation_release(&c);
    buf_release(&kept);
}

/* Nothing changes by a file that is none. */
TEST(files_that_are_no_conversations_are_refused) {
    static const char NONE[] =
        "is no conversation: perhaps a system message, then user and assistant in turn";
    static const struct {
        const char *text, *err;
    } FILES[] = {
        {"{}", "has no \"messages\""},
        {"{\"messages\": 3}", "has no \"messages\""},
        {"{", "trireme chat: "},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}", NONE},
        {"{\"messages\": [{\"role\": \"user\"}]}", NONE},
        {"{\"messages\": [{\"content\": \"a\"}]}", NONE},
        {"{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": \"system\", "
         "\"content\": \"b\"}]}",
         NONE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"user\", "
         "\"content\": \"b\"}]}",
         NONE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"system\", "
         "\"content\": \"b\"}]}",
         NONE},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "ends with a question"},
    };
    char path[64];
    begin();
    (void)say("/load %s/none");
    EXPECT(strstr(buf_text(&err), "/none'"));
    snprintf(path, sizeof path, "%s/b", folder);
    for (size_t i = 0; i < ARRAY_LEN(FILES); i++) {
        CHECK(!file_write_atomic(path, FILES[i].text, strlen(FILES[i].text), 0600, NULL));
        (void)say("/load %s/b");
        if (!strstr(buf_text(&err), FILES[i].err) || c.said.count != 2)
            check_fail(__FILE__, __LINE__, "file %zu: %s", i, buf_text(&err));
    }
    conversation_release(&c);
}
