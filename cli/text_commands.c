/*
 * text_commands.c - trireme tokenize and trireme decode: a vocabulary at work, for people and for
 * checks.
 *
 * With --jsonl one JSON object a line comes in and one goes out, in order; a line that cannot be
 * done gives {"error"}.
 */
#include "cli/commands.h"
#include "cli/lines.h"
#include "cli/model_path.h"

#include "base/arena.h"
#include "formats/json.h"
#include "text/template/value.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/open.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LINE_BYTES_MAX = 1 << 30, LINE_BUDGET = 1 << 30, LINE_CALLS = 64 << 20 };

struct text_settings {
    const char *model, *vocab, *vocab_dir, *cache_dir, *ids;
    bool jsonl, add_special, parse_special, skip_special;
};

#define COMMON_ROWS                                                                                \
    {.name = "model",                                                                              \
     .short_name = 'm',                                                                            \
     .type = OPTION_STRING,                                                                        \
     .offset = offsetof(struct text_settings, model),                                              \
     .help = "A model folder, tokenizer.json, tokenizer.model, tekken.json, .tiktoken or .gguf "   \
             "file."},                                                                             \
        {.name = "vocab",                                                                          \
         .type = OPTION_STRING,                                                                    \
         .offset = offsetof(struct text_settings, vocab),                                          \
         .help = "A well-known vocabulary instead: cl100k_base, o200k_base, p50k_base, "           \
                 "r50k_base, llama3, "                                                             \
                 "deepseek_v3, mistral_v1, mistral_v2 or mistral_v3."},                            \
        {.name = "vocab-dir",                                                                      \
         .type = OPTION_STRING,                                                                    \
         .offset = offsetof(struct text_settings, vocab_dir),                                      \
         .help = "The folder where the files of well-known vocabularies lie, directly or one "     \
                 "folder deeper."},                                                                \
        {.name = "cache-dir",                                                                      \
         .type = OPTION_STRING,                                                                    \
         .offset = offsetof(struct text_settings, cache_dir),                                      \
         .help = "Folder where vocabularies are kept ready to be mapped; default "                 \
                 "XDG_CACHE_HOME/trireme or "                                                      \
                 "~/.cache/trireme, none: keep nothing."},                                         \
    {                                                                                              \
        .name = "jsonl", .type = OPTION_BOOL, .offset = offsetof(struct text_settings, jsonl),     \
        .help = "Read one JSON object a line from standard input, write one a line."               \
    }

static const struct option_row TOKENIZE_ROWS[] = {
    COMMON_ROWS,
    {.name = "add-special",
     .type = OPTION_BOOL,
     .offset = offsetof(struct text_settings, add_special),
     .fallback = "true",
     .help = "Add the tokens that the model wants around a text (BOS); \"add_special\" of a line "
             "wins."},
    {.name = "parse-special",
     .type = OPTION_BOOL,
     .offset = offsetof(struct text_settings, parse_special),
     .help = "Take special tokens spelled in the text as such; \"parse_special\" of a line wins."}};
const struct option_table tokenize_options = {
    .program = "trireme tokenize",
    .synopsis = "[OPTIONS] MODEL [TEXT]  (with --vocab: [TEXT])",
    .summary = "Turns text (or standard input) into a model's tokens. A line of --jsonl is "
               "{\"text\"}, and gets {\"ids\"}; with \"offsets\": true also "
               "\"offsets\", the characters [begin, end) that each stands for.",
    .rows = TOKENIZE_ROWS,
    .count = ARRAY_LEN(TOKENIZE_ROWS)};

static const struct option_row DECODE_ROWS[] = {
    COMMON_ROWS,
    {.name = "ids",
     .type = OPTION_STRING,
     .offset = offsetof(struct text_settings, ids),
     .help = "The tokens, separated by commas or spaces; else they come from standard input."},
    {.name = "skip-special",
     .type = OPTION_BOOL,
     .offset = offsetof(struct text_settings, skip_special),
     .help = "Leave special tokens out; \"skip_special\" of a line wins."}};
const struct option_table decode_options = {.program = "trireme decode",
                                            .synopsis =
                                                "[OPTIONS] MODEL [ID...]  (with --vocab: [ID...])",
                                            .summary = "Turns a model's tokens into text.",
                                            .rows = DECODE_ROWS,
                                            .count = ARRAY_LEN(DECODE_ROWS)};

/* The arguments: a model, unless a flag said which vocabulary, and what is to be done with it.
 * *rest: that, or NULL. */
static int take_arguments(struct text_settings *s, const char *const *words, size_t count,
                          const char **rest, struct error *err) {
    size_t at = 0;
    if (!s->model && !s->vocab && count)
        s->model = mem_strdup(words[at++]);
    *rest = at < count ? words[at++] : NULL;
    if (!s->model == !s->vocab)
        return error_set(err, ERR_INVALID, "give a model, or --vocab");
    return at < count ? error_set(err, ERR_INVALID, "unexpected argument '%s'", words[at]) : 0;
}

static int fail(const char *command, const struct error *err) {
    fprintf(stderr, "trireme %s: %s\n", command, err->text);
    return 1;
}

static int open_vocabulary(struct text_settings *s, struct tokenizer **out, struct error *err) {
    *out = NULL;
    compiled_set_folder(s->cache_dir);
    int rc = model_path_of_option(&s->model, err);
    if (rc)
        return rc;
    return s->model ? tokenizer_open(s->model, out, err)
                    : tokenizer_open_named(s->vocab, s->vocab_dir, out, err);
}

/* ---- lines ---- */

typedef int line_fn(const struct text_settings *s, const struct tokenizer *t, struct tvalue in,
                    struct json_writer *out, struct error *err);

static struct tvalue get_field(struct tvalue v, const char *name) {
    return tvalue_dict_get(v, bytes_str(name));
}

static int read_flag(struct tvalue in, const char *name, bool fallback, bool *out,
                     struct error *err) {
    struct tvalue v = get_field(in, name);
    *out = v.kind == TVALUE_BOOL ? v.boolean : fallback;
    if (v.kind == TVALUE_BOOL || v.kind == TVALUE_UNDEFINED || v.kind == TVALUE_NONE)
        return 0;
    return error_set(err, ERR_INVALID, "\"%s\" must be true or false", name);
}

/* What each id stands for: characters of the text. */
static void write_offsets(const struct offset_map *offsets, struct json_writer *out) {
    json_key(out, "offsets");
    json_begin_array(out);
    for (size_t i = 0; i < offsets->spans.count; i++) {
        json_begin_array(out);
        json_uint(out, offsets->spans.items[i].begin);
        json_uint(out, offsets->spans.items[i].end);
        json_end_array(out);
    }
    json_end_array(out);
}

static int tokenize_line(const struct text_settings *s, const struct tokenizer *t, struct tvalue in,
                         struct json_writer *out, struct error *err) {
    struct tvalue text = get_field(in, "text");
    struct token_vec ids = {0};
    struct offset_map offsets = {0};
    bool add, parse, with_offsets;
    int rc =
        text.kind == TVALUE_STRING ? 0 : error_set(err, ERR_INVALID, "\"text\" must be a string");
    if (!rc)
        rc = read_flag(in, "add_special", s->add_special, &add, err);
    if (!rc)
        rc = read_flag(in, "parse_special", s->parse_special, &parse, err);
    if (!rc)
        rc = read_flag(in, "offsets", false, &with_offsets, err);
    if (!rc) {
        unsigned flags = (add ? TOKENIZE_ADD_SPECIAL : 0) | (parse ? TOKENIZE_PARSE_SPECIAL : 0);
        rc = with_offsets
                 ? tokenizer_encode_offsets(t, tvalue_text(text), flags, &ids, &offsets, err)
                 : tokenizer_encode(t, tvalue_text(text), flags, &ids, err);
    }
    if (!rc) {
        json_key(out, "ids");
        json_begin_array(out);
        for (size_t i = 0; i < ids.count; i++)
            json_uint(out, ids.items[i]);
        json_end_array(out);
        if (with_offsets)
            write_offsets(&offsets, out);
    }
    vec_release(&ids);
    vec_release(&offsets.spans);
    return rc;
}

static int read_ids(const struct tokenizer *t, struct tvalue list, struct token_vec *ids,
                    struct error *err) {
    if (list.kind != TVALUE_LIST)
        return error_set(err, ERR_INVALID, "\"ids\" must be a list of integers");
    for (size_t i = 0; i < tvalue_count(list); i++) {
        struct tvalue id = tvalue_list_at(list, i);
        if (id.kind != TVALUE_INT || id.integer < 0 || id.integer >= tokenizer_vocab_count(t))
            return error_set(err, ERR_INVALID,
                             "\"ids\": entry %zu is no token of the vocabulary (0 to %u)", i,
                             tokenizer_vocab_count(t) - 1);
        vec_push(ids, (uint32_t)id.integer);
    }
    return 0;
}

static int decode_line(const struct text_settings *s, const struct tokenizer *t, struct tvalue in,
                       struct json_writer *out, struct error *err) {
    struct token_vec ids = {0};
    struct buf text = {0};
    bool skip;
    int rc = read_ids(t, get_field(in, "ids"), &ids, err);
    if (!rc)
        rc = read_flag(in, "skip_special", s->skip_special, &skip, err);
    if (!rc) {
        tokenizer_detokenize(t, (struct tokens){ids.items, ids.count},
                             skip ? DETOKENIZE_SKIP_SPECIAL : 0, &text);
        json_key(out, "text");
        json_string_bytes(out, bytes_of(buf_text(&text), text.len));
    }
    vec_release(&ids);
    buf_release(&text);
    return rc;
}

struct answerer {
    const struct text_settings *s;
    const struct tokenizer *t;
    line_fn *fn;
};

static int answer_line(void *ctx, struct bytes line, struct buf *out, struct error *ignored) {
    const struct answerer *a = ctx;
    struct json_writer w;
    struct arena arena;
    struct tvalue in;
    struct error err;
    arena_init(&arena, LINE_BUDGET, LINE_CALLS);
    json_writer_init(&w, out);
    json_begin_object(&w);
    int rc = tvalue_from_json(&arena, line, &in, &err);
    if (!rc && in.kind != TVALUE_DICT)
        rc = error_set(&err, ERR_INVALID, "the line must be a JSON object");
    if (!rc)
        rc = a->fn(a->s, a->t, in, &w, &err);
    if (rc) {
        json_key(&w, "error");
        json_string(&w, err.text);
    }
    json_end_object(&w);
    arena_release(&arena);
    return 0;
}

/* ---- for a person ---- */

static int read_input(struct buf *out, struct error *err) {
    char chunk[65536];
    ssize_t n;
    while ((n = read(STDIN_FILENO, chunk, sizeof chunk)) > 0) {
        buf_add(out, chunk, (size_t)n);
        if (out->len > LINE_BYTES_MAX)
            return error_set(err, ERR_LIMIT, "standard input is larger than 1 GB");
    }
    return n < 0 ? error_set_errno(err, "cannot read standard input") : 0;
}

static int tokenize_text(const struct text_settings *s, const struct tokenizer *t,
                         const char *argument, struct error *err) {
    struct token_vec ids = {0};
    struct buf text = {0};
    unsigned flags = (s->add_special ? TOKENIZE_ADD_SPECIAL : 0) |
                     (s->parse_special ? TOKENIZE_PARSE_SPECIAL : 0);
    int rc = 0;
    if (argument)
        buf_add_str(&text, argument);
    else
        rc = read_input(&text, err);
    if (!rc)
        rc = tokenizer_encode(t, bytes_of(buf_text(&text), text.len), flags, &ids, err);
    for (size_t i = 0; !rc && i < ids.count; i++)
        printf("%s%u", i ? "," : "", ids.items[i]);
    if (!rc)
        printf("\n");
    vec_release(&ids);
    buf_release(&text);
    return rc;
}

static int parse_ids(const char *text, const struct tokenizer *t, struct token_vec *ids,
                     struct error *err) {
    while (*text) {
        char *end;
        if (*text == ',' || *text == ' ' || *text == '\n' || *text == '[' || *text == ']') {
            text++;
            continue;
        }
        unsigned long id = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : ULONG_MAX;
        if (id >= tokenizer_vocab_count(t))
            return error_set(err, ERR_INVALID, "'%.20s' is no token of the vocabulary (0 to %u)",
                             text, tokenizer_vocab_count(t) - 1);
        vec_push(ids, (uint32_t)id);
        text = end;
    }
    return 0;
}

static int decode_ids(const struct text_settings *s, const struct tokenizer *t, const char *given,
                      struct error *err) {
    struct token_vec ids = {0};
    struct buf in = {0}, text = {0};
    int rc = given ? 0 : read_input(&in, err);
    if (!rc)
        rc = parse_ids(given ? given : buf_text(&in), t, &ids, err);
    if (!rc) {
        tokenizer_detokenize(t, (struct tokens){ids.items, ids.count},
                             s->skip_special ? DETOKENIZE_SKIP_SPECIAL : 0, &text);
        fwrite(buf_text(&text), 1, text.len, stdout);
        printf("\n");
    }
    vec_release(&ids);
    buf_release(&in);
    buf_release(&text);
    return rc;
}

/* ---- commands ---- */

int tokenize_main(int argc, char **argv) {
    struct text_settings s;
    struct error err;
    struct tokenizer *t = NULL;
    const char *words[2], *text = NULL;
    size_t count = 0;
    int rc = option_parse(&tokenize_options, &s, argc, argv, words, 2, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (!rc)
        rc = take_arguments(&s, words, count, &text, &err);
    if (rc)
        return command_misused("tokenize", &tokenize_options, &s, &err);
    rc = open_vocabulary(&s, &t, &err);
    struct answerer lines = {&s, t, tokenize_line};
    if (!rc)
        rc = s.jsonl ? lines_run(answer_line, &lines, &err) : tokenize_text(&s, t, text, &err);
    int code = rc ? fail("tokenize", &err) : 0;
    tokenizer_free(&t);
    option_free(&tokenize_options, &s);
    return code;
}

int decode_main(int argc, char **argv) {
    struct text_settings s;
    struct error err;
    struct tokenizer *t = NULL;
    struct buf ids;
    const char **words = mem_calloc((size_t)argc, sizeof *words), *first = NULL;
    size_t count = 0;
    buf_init(&ids, 0);
    int rc = option_parse(&decode_options, &s, argc, argv, words, (size_t)argc, &count, &err);
    size_t own = !rc && !s.model && !s.vocab; /* words before the ids */
    if (!rc)
        rc = take_arguments(&s, words, MIN(count, own + 1), &first, &err);
    for (size_t i = own; !rc && i < count; i++)
        buf_addf(&ids, "%s%s", i > own ? "," : "", words[i]);
    mem_free(words);
    if (rc) {
        buf_release(&ids);
        return rc == OPTION_HELP_PRINTED ? 0 : command_misused("decode", &decode_options, &s, &err);
    }
    rc = open_vocabulary(&s, &t, &err);
    struct answerer lines = {&s, t, decode_line};
    if (!rc)
        rc = s.jsonl ? lines_run(answer_line, &lines, &err)
                     : decode_ids(&s, t, first ? buf_text(&ids) : s.ids, &err);
    int code = rc ? fail("decode", &err) : 0;
    buf_release(&ids);
    tokenizer_free(&t);
    option_free(&decode_options, &s);
    return code;
}
