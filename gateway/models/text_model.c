/* A bundle made usable: tokenizer, chat templates, and the defaults of generation_config.json. */
#include <stdio.h>

#include "formats/json.h"
#include "formats/json_tree.h"
#include "gateway/models/model_table.h"

#include "gateway/prompts/breakers.h"
#include "gateway/prompts/constraint.h"

enum { CONFIG_BUDGET = 16 << 20, LABELS_MAX = 4096 };

static bool read_number(struct json_reader *r, enum json_event event, double min, double max,
                        double *out) {
    double value;
    if (event != JSON_NUMBER || !json_number_double(r->text, &value) || value < min || value > max)
        return false;
    *out = value;
    return true;
}

/* Members that are absent, null or out of range leave the API's own default. */
static void read_defaults(struct bytes json, struct model_defaults *d) {
    struct json_reader r;
    double top_k;
    *d = (struct model_defaults){-1, -1, -1, -1, -1};
    if (json.len == 0)
        return;
    json_reader_init(&r, json, 0, 0);
    bool ok = json_next(&r) == JSON_OBJECT_BEGIN;
    while (ok && json_next(&r) == JSON_KEY) {
        struct bytes key = r.text;
        bool temperature = bytes_equal(key, bytes_str("temperature")),
             top_p = bytes_equal(key, bytes_str("top_p"));
        bool min_p = bytes_equal(key, bytes_str("min_p")), k = bytes_equal(key, bytes_str("top_k"));
        bool repetition = bytes_equal(key, bytes_str("repetition_penalty"));
        enum json_event event = json_next(&r);
        if (temperature)
            read_number(&r, event, 0, 2, &d->temperature);
        if (top_p)
            read_number(&r, event, 0, 1, &d->top_p);
        if (min_p)
            read_number(&r, event, 0, 1, &d->min_p);
        if (k && read_number(&r, event, 0, INT32_MAX, &top_k))
            d->top_k = (int64_t)top_k;
        if (repetition)
            read_number(&r, event, 0.01, 100, &d->repetition_penalty);
        ok = json_skip(&r);
    }
    json_reader_release(&r);
}

static int check_names(const char *names, struct error *err) {
    size_t count = 0;
    for (const char *at = names; at && *at; at += *at != 0) {
        size_t len = strcspn(at, ",;");
        if (!len || ++count > SERVED_NAMES_MAX)
            return error_set(err, ERR_INVALID,
                             "'%s' is no list of at most %d names with commas between, of several "
                             "models with semicolons",
                             names, SERVED_NAMES_MAX);
        at += len;
    }
    return 0;
}

int text_settings_check(const struct text_settings *settings, struct error *err) {
    struct bundle none = {.file_count = 0};
    struct chat *chat;
    int rc = chat_load(&none, &chat, err);
    if (rc)
        return rc;
    if (settings->chat_template.data)
        rc = chat_set_template(chat, settings->chat_template, err);
    if (rc == 0)
        rc = chat_set_formats(chat, settings->reasoning_parser, settings->tool_call_parser, err);
    chat_free(&chat);
    return rc ? rc : check_names(settings->served_names, err);
}

/* Returns owned: model_type of config.json; "" when it has none. */
static char *read_family(const struct bundle *bundle) {
    struct json_reader r;
    struct buf type = {0};
    struct bytes value;
    json_reader_init(&r, bundle_find(bundle, "config.json"), 0, 0);
    bool ok = json_next(&r) == JSON_OBJECT_BEGIN;
    while (ok && json_next(&r) == JSON_KEY) {
        bool is_type = bytes_equal(r.text, bytes_str("model_type"));
        ok = is_type ? json_read_string(&r, &value) : json_skip(&r);
        if (ok && is_type)
            buf_add_bytes(&type, value);
    }
    json_reader_release(&r);
    char *family = mem_strndup(buf_text(&type), type.len);
    buf_release(&type);
    return family;
}

static void labels_release(struct text_labels *labels) {
    for (uint32_t i = 0; i < labels->count; i++)
        mem_free(labels->names[i]);
    mem_free(labels->names);
    *labels = (struct text_labels){0};
}

/* The names in order; false: a number is missing, or a name is no text. */
static bool take_labels(struct json_value names, struct text_labels *out) {
    char number[16];
    out->names = mem_calloc(json_count(names), sizeof *out->names);
    while (out->count < json_count(names)) {
        snprintf(number, sizeof number, "%u", out->count);
        struct json_value name = json_get(names, number);
        struct bytes text = json_text(name);
        if (name.kind != JSON_IS_STRING || memchr(text.data, 0, text.len))
            return false;
        out->names[out->count++] = mem_strndup((const char *)text.data, text.len);
    }
    return true;
}

/* id2label; none where it makes no sense. */
static void read_labels(struct json_value config, struct text_labels *out) {
    struct json_value names = json_get(config, "id2label");
    *out = (struct text_labels){0};
    if (names.kind == JSON_IS_OBJECT && json_count(names) && json_count(names) <= LABELS_MAX &&
        !take_labels(names, out))
        labels_release(out);
}

/* Of config.json what concerns scores. May add a template to the chat. */
static int read_scores(const struct bundle *bundle, struct text_model *t, struct error *err) {
    struct bytes text = bundle_find(bundle, "config.json");
    struct arena arena;
    struct json_value config = {0};
    struct error ignored;
    arena_init(&arena, CONFIG_BUDGET, 0);
    if (text.len && json_parse(&arena, text, &config, &ignored))
        config = (struct json_value){0};
    read_labels(config, &t->labels);
    bool qwen3 = json_is(json_at(json_get(config, "architectures"), 0), "Qwen3ForCausalLM");
    int rc = pair_template_find(t->chat, qwen3, &t->pairs, err);
    arena_release(&arena);
    return rc;
}

/* The model's chat, with what stands in for its own. */
static int load_chat(const struct bundle *bundle, const struct text_settings *settings,
                     struct text_model *t, struct error *err) {
    int rc = chat_load(bundle, &t->chat, err);
    if (rc == 0 && settings->chat_template.data)
        rc = chat_set_template(t->chat, settings->chat_template, err);
    if (rc == 0)
        rc = chat_set_formats(t->chat, settings->reasoning_parser, settings->tool_call_parser, err);
    if (rc)
        return rc;
    t->template_origin = settings->chat_template.data ? "option" : "model";
    if (chat_has_template(t->chat))
        return 0;
    /* a well-known template, by the vocabulary */
    const char *probed = chat_probe(t->chat, t->tokenizer, bytes_str(t->family));
    t->template_origin = probed ? probed : "none";
    return chat_set_formats(t->chat, settings->reasoning_parser, settings->tool_call_parser, err);
}

int text_model_new(struct bytes packed, const struct text_settings *settings,
                   struct text_model **out, struct error *err) {
    struct bundle bundle;
    if (bundle_open(&bundle, packed, err))
        return err->code;
    struct text_model *t = mem_alloc(sizeof *t);
    atomic_init(&t->refs, 1);
    t->bundle = bundle_hash(packed);
    t->breakers = breaker_cache_new();
    t->family = read_family(&bundle);
    t->constraints = constraint_cache_new();
    t->trust_request_template = settings->trust_request_template;
    int rc = tokenizer_load_bundle(&bundle, &t->tokenizer, err);
    if (rc == 0)
        rc = load_chat(&bundle, settings, t, err);
    if (rc == 0)
        rc = read_scores(&bundle, t, err);
    if (rc) {
        text_model_put(t);
        return rc;
    }
    read_defaults(bundle_find(&bundle, "generation_config.json"), &t->defaults);
    t->token_bytes_most = tokenizer_token_bytes_most(t->tokenizer);
    *out = t;
    return 0;
}

void text_model_put(struct text_model *t) {
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    if (t->chat)
        chat_free(&t->chat);
    if (t->tokenizer)
        tokenizer_free(&t->tokenizer);
    constraint_cache_free(&t->constraints);
    breaker_cache_free(&t->breakers);
    labels_release(&t->labels);
    mem_free(t->family);
    mem_free(t);
}
