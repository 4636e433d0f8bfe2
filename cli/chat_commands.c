#include "cli/chat_commands.h"

#include "base/fsutil.h"
#include "cli/commands.h"
#include "formats/json.h"
#include "formats/json_document.h"

#include <inttypes.h>
#include <stdio.h>

void conversation_init(struct conversation *c, const struct talk_settings *settings) {
    *c = (struct conversation){.settings = *settings};
    c->system = settings->system ? mem_strdup(settings->system) : NULL;
}

void conversation_release(struct conversation *c) {
    conversation_clear(c);
    vec_release(&c->said);
    mem_free(c->system);
    c->system = NULL;
}

void conversation_clear(struct conversation *c) {
    while (c->said.count)
        conversation_drop_last(c);
}

void conversation_add(struct conversation *c, const char *text) {
    vec_push(&c->said, mem_strdup(text));
}

void conversation_drop_last(struct conversation *c) {
    CHECK(c->said.count);
    mem_free(c->said.items[--c->said.count]);
}

static void add_message(struct json_writer *w, const char *role, const char *text) {
    json_begin_object(w);
    json_key(w, "role");
    json_string(w, role);
    json_key(w, "content");
    json_string(w, text);
    json_end_object(w);
}

static void write_messages(const struct conversation *c, struct json_writer *w) {
    json_begin_array(w);
    if (c->system)
        add_message(w, "system", c->system);
    for (size_t i = 0; i < c->said.count; i++)
        add_message(w, i % 2 ? "assistant" : "user", c->said.items[i]);
    json_end_array(w);
}

void conversation_messages(const struct conversation *c, struct buf *json) {
    struct json_writer w;
    json_writer_init(&w, json);
    write_messages(c, &w);
}

int conversation_save(const struct conversation *c, const char *path, bool over,
                      struct error *err) {
    struct json_writer w;
    struct buf out;
    if (!over && file_exists(path))
        return error_set(err, ERR_INVALID, "'%s' is there already; /save! writes over it", path);
    buf_init(&out, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, "messages");
    write_messages(c, &w);
    json_end_object(&w);
    buf_add_byte(&out, '\n');
    int rc = file_write_atomic(path, out.data, out.len, 0600, err);
    buf_release(&out);
    return rc;
}

/* Fills an empty conversation from the document's messages. */
static int take_messages(struct conversation *c, const cJSON *document, const char *path,
                         struct error *err) {
    const cJSON *list = json_document_find(document, "messages"), *message;
    if (!cJSON_IsArray(list))
        return error_set(err, ERR_INVALID, "'%s' has no \"messages\"", path);
    cJSON_ArrayForEach(message, list) {
        const char *role = json_document_text(message, "role"),
                   *text = json_document_text(message, "content");
        bool system = role && !strcmp(role, "system") && !c->system && !c->said.count;
        const char *turn = c->said.count % 2 ? "assistant" : "user";
        if (!role || !text || (!system && strcmp(role, turn) != 0))
            return error_set(err, ERR_INVALID,
                             "'%s' is no conversation: perhaps a system message, then user and "
                             "assistant in turn, each with text as its content",
                             path);
        if (system)
            c->system = mem_strdup(text);
        else
            conversation_add(c, text);
    }
    if (c->said.count % 2)
        return error_set(err, ERR_INVALID, "'%s' ends with a question", path);
    return 0;
}

int conversation_load(struct conversation *c, const char *path, struct error *err) {
    struct conversation loaded = {.settings = c->settings};
    struct buf text;
    cJSON *document = NULL;
    buf_init(&text, 0);
    int rc = file_read_any(path, JSON_DOCUMENT_MAX, &text, err);
    if (!rc)
        rc = json_document_parse(buf_bytes(&text), &document, err);
    if (!rc)
        rc = take_messages(&loaded, document, path, err);
    cJSON_Delete(document);
    buf_release(&text);
    if (rc) {
        conversation_release(&loaded);
        return rc;
    }
    conversation_release(c);
    *c = loaded;
    return 0;
}

/* ---- commands ---- */

static int do_help(struct conversation *c, const char *rest, struct error *err);

static int do_clear(struct conversation *c, const char *rest, struct error *err) {
    conversation_clear(c);
    return 0;
}

static int do_system(struct conversation *c, const char *rest, struct error *err) {
    if (*rest) {
        mem_free(c->system);
        c->system = strcmp(rest, "none") ? mem_strdup(rest) : NULL;
    }
    printf("system message: %s\n", c->system ? c->system : "none");
    return 0;
}

static int save(struct conversation *c, const char *path, bool over, struct error *err) {
    if (!*path)
        return error_set(err, ERR_INVALID, over ? "/save! FILE" : "/save FILE");
    int rc = conversation_save(c, path, over, err);
    if (!rc)
        printf("saved as %s\n", path);
    return rc;
}

static int do_save(struct conversation *c, const char *rest, struct error *err) {
    return save(c, rest, false, err);
}

static int do_save_over(struct conversation *c, const char *rest, struct error *err) {
    return save(c, rest, true, err);
}

static int do_load(struct conversation *c, const char *rest, struct error *err) {
    if (!*rest)
        return error_set(err, ERR_INVALID, "/load FILE");
    int rc = conversation_load(c, rest, err);
    if (!rc)
        printf("loaded, %zu messages\n", c->said.count);
    return rc;
}

static void show_settings(const struct talk_settings *s) {
    printf("temperature %g\ntop-p %g\nmax-tokens %" PRId64 "\nseed %" PRId64 "\n", s->temperature,
           s->top_p, s->max_tokens, s->seed);
}

static int do_history(struct conversation *c, const char *rest, struct error *err) {
    if (c->system)
        printf("system: %s\n", c->system);
    for (size_t i = 0; i < c->said.count; i++)
        printf("%s: %s\n", i % 2 ? "assistant" : "user", c->said.items[i]);
    if (!c->said.count)
        printf("nothing was said yet\n");
    return 0;
}

/* "temperature 0.2", read as the option of that name would be. */
static int do_set(struct conversation *c, const char *rest, struct error *err) {
    static const char *const NAMES[] = {"temperature", "top-p", "max-tokens", "seed"};
    struct talk_settings parsed;
    char name[32], value[64], flag[128];
    bool known = false;
    if (!*rest) {
        show_settings(&c->settings);
        return 0;
    }
    if (sscanf(rest, "%31[^ =]%*[ =]%63s", name, value) != 2)
        return error_set(err, ERR_INVALID, "/set NAME VALUE");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        known = known || !strcmp(name, NAMES[i]);
    if (!known)
        return error_set(err, ERR_INVALID,
                         "'%s' cannot be set; temperature, top-p, max-tokens and seed can", name);
    snprintf(flag, sizeof flag, "--%s=%s", name, value);
    char *argv[] = {"/set", flag};
    int rc = option_parse(&chat_options, &parsed, 2, argv, NULL, 0, NULL, err);
    if (rc)
        return rc;
    if (!strcmp(name, "temperature"))
        c->settings.temperature = parsed.temperature;
    else if (!strcmp(name, "top-p"))
        c->settings.top_p = parsed.top_p;
    else if (!strcmp(name, "max-tokens"))
        c->settings.max_tokens = parsed.max_tokens;
    else
        c->settings.seed = parsed.seed;
    option_free(&chat_options, &parsed);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(struct conversation *c, const char *rest, struct error *err);
    const char *arguments, *help;
} COMMANDS[] = {
    {"/help", do_help, "", "print this"},
    {"/clear", do_clear, "", "begin anew; the system message stays (also /new)"},
    {"/new", do_clear, NULL, NULL},
    {"/system", do_system, "[TEXT]", "show or set the system message; none: take it away"},
    {"/history", do_history, "", "show what was said"},
    {"/set", do_set, "[NAME VALUE]",
     "show the settings or change one: temperature, top-p, "
     "max-tokens, seed"},
    {"/save", do_save, "FILE", "write the conversation to a new file (/save! over one)"},
    {"/save!", do_save_over, NULL, NULL},
    {"/load", do_load, "FILE", "take up the conversation of a file"},
    {"/quit", NULL, "", "end, as Ctrl-D does (also /exit, /bye)"},
    {"/exit", NULL, NULL, NULL},
    {"/bye", NULL, NULL, NULL},
};

static int do_help(struct conversation *c, const char *rest, struct error *err) {
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++)
        if (COMMANDS[i].help)
            printf("%-8s %-14s %s\n", COMMANDS[i].name, COMMANDS[i].arguments, COMMANDS[i].help);
    printf("A line that ends with \\ goes on in the next; \"\"\" begins and ends many lines.\n"
           "Ctrl-C ends an answer.\n");
    return 0;
}

enum chat_outcome chat_command(struct conversation *c, const char *line) {
    size_t len = strcspn(line, " ");
    const char *rest = line + len + strspn(line + len, " ");
    for (size_t i = 0; i < ARRAY_LEN(COMMANDS); i++) {
        struct error err;
        if (strlen(COMMANDS[i].name) != len || memcmp(COMMANDS[i].name, line, len) != 0)
            continue;
        if (!COMMANDS[i].run)
            return CHAT_QUIT;
        if (COMMANDS[i].run(c, rest, &err))
            fprintf(stderr, "trireme chat: %s\n", err.text);
        return CHAT_GO_ON;
    }
    fprintf(stderr, "trireme chat: there is no %.*s; /help lists what there is\n", (int)len, line);
    return CHAT_GO_ON;
}
