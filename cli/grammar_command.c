/*
 * grammar_command.c - trireme grammar: what a constraint accepts, for people and for checks.
 *
 * One JSON object a line comes in: a constraint ("schema", "regex", "gbnf", "lark" or "structure") and
 * "texts"; one goes out, in order: {"ok": true, "accepts": [...]}, or {"ok": false, "error"} where
 * the constraint cannot be compiled.
 */
#include "cli/commands.h"
#include "cli/lines.h"

#include "formats/json.h"
#include "grammar/grammar.h"

#include <stdio.h>

struct grammar_settings {
    bool jsonl, ordered, compact;
};

static const struct option_row ROWS[] = {
    {.name = "jsonl",
     .type = OPTION_BOOL,
     .offset = offsetof(struct grammar_settings, jsonl),
     .help = "One JSON object a line, in and out; this is always so."},
    {.name = "ordered",
     .type = OPTION_BOOL,
     .offset = offsetof(struct grammar_settings, ordered),
     .help = "Members of objects come in the order of the schema's properties."},
    {.name = "compact",
     .type = OPTION_BOOL,
     .offset = offsetof(struct grammar_settings, compact),
     .help = "JSON holds no white space between its tokens."}};
const struct option_table grammar_options = {
    .program = "trireme grammar",
    .synopsis = "[OPTIONS]",
    .summary =
        "Says which texts a constraint accepts: reads {\"schema\" | \"regex\" | \"gbnf\" | \"lark\" | "
        "\"structure\", \"texts\"} a line, writes {\"ok\", \"accepts\"} or {\"ok\", \"error\"}.",
    .rows = ROWS,
    .count = ARRAY_LEN(ROWS)};

struct question {
    struct grammar_source source;
    struct buf text;  /* of the constraint */
    struct buf texts; /* back to back */
    VEC(size_t) ends; /* of each text */
    bool found;
};

/* A value as text: a string is its content, all else is the JSON as it stands. */
static bool read_constraint(struct json_reader *r, struct buf *out) {
    enum json_event event = json_next(r);
    if (event == JSON_STRING) {
        buf_add_bytes(out, r->text);
        return true;
    }
    struct bytes raw;
    if (event == JSON_ERROR || event == JSON_END || !json_take(r, &raw))
        return false;
    buf_add_bytes(out, raw);
    return true;
}

static bool read_texts(struct json_reader *r, struct question *q) {
    if (!json_expect(r, JSON_ARRAY_BEGIN))
        return false;
    for (enum json_event event; (event = json_next(r)) != JSON_ARRAY_END;) {
        if (event != JSON_STRING)
            return json_fail(r, "\"texts\" holds something that is no string");
        buf_add_bytes(&q->texts, r->text);
        vec_push(&q->ends, q->texts.len);
    }
    return true;
}

static bool read_member(struct json_reader *r, struct question *q) {
    static const struct {
        const char *key;
        enum grammar_kind kind;
    } KINDS[] = {{"schema", GRAMMAR_JSON_SCHEMA},
                 {"regex", GRAMMAR_REGEX},
                 {"gbnf", GRAMMAR_GBNF},
                 {"lark", GRAMMAR_LARK},
                 {"structure", GRAMMAR_STRUCTURE}};
    for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
        if (bytes_equal(r->text, bytes_str(KINDS[i].key))) {
            if (q->found)
                return json_fail(r, "there is more than one constraint");
            q->found = true;
            q->source.kind = KINDS[i].kind;
            return read_constraint(r, &q->text);
        }
    return bytes_equal(r->text, bytes_str("texts"))
               ? read_texts(r, q)
               : json_fail(r, "unknown key; known are schema, regex, gbnf, lark, structure, texts");
}

static int read_question(struct bytes line, struct question *q, struct error *err) {
    struct json_reader r;
    json_reader_init(&r, line, JSON_DEPTH_MAX, JSON_ALLOW_NUL);
    bool ok = json_expect(&r, JSON_OBJECT_BEGIN);
    for (enum json_event event; ok && (event = json_next(&r)) != JSON_OBJECT_END;)
        ok = event == JSON_KEY && read_member(&r, q);
    if (ok && !q->found)
        ok = json_fail(&r, "there is no constraint (schema, regex, gbnf, lark or structure)");
    int rc = ok ? 0 : error_set(err, ERR_INVALID, "%s", r.error.text);
    json_reader_release(&r);
    q->source.text = bytes_of(buf_text(&q->text), q->text.len);
    return rc;
}

/* In pieces: tables are made anew between two of them, so a text may be of any length. */
static bool fits(struct matcher *m, struct bytes text) {
    enum { PIECE = 4096 };
    bool on = true;
    matcher_reset(m);
    for (size_t at = 0; at < text.len && on; at += PIECE)
        on = matcher_bytes(m, bytes_of(text.data + at, MIN(text.len - at, (size_t)PIECE)));
    return on && matcher_may_end(m);
}

static void write_accepts(struct json_writer *w, const struct question *q,
                          const struct program *program) {
    struct grammar_run *run = grammar_run_new(program, NULL);
    struct matcher *m = matcher_new(run);
    json_key(w, "accepts");
    json_begin_array(w);
    for (size_t i = 0, from = 0; i < q->ends.count; from = q->ends.items[i++]) {
        json_bool(w, fits(m, bytes_of(buf_text(&q->texts) + from, q->ends.items[i] - from)));
    }
    json_end_array(w);
    matcher_free(&m);
    grammar_run_free(&run);
}

static int answer(void *ctx, struct bytes line, struct buf *out, struct error *ignored) {
    const struct grammar_settings *s = ctx;
    struct question q = {
        .source = {.ordered = s->ordered, .compact = s->compact, .may_refuse_all = true}};
    struct program program = {0};
    struct json_writer w;
    struct error err;
    int rc = read_question(line, &q, &err);
    if (!rc)
        rc = grammar_compile(&q.source, NULL, &program, &err);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_key(&w, "ok");
    json_bool(&w, rc == 0);
    if (rc) {
        json_key(&w, "error");
        json_string(&w, err.text);
    } else {
        write_accepts(&w, &q, &program);
    }
    json_end_object(&w);
    program_release(&program);
    buf_release(&q.text);
    buf_release(&q.texts);
    vec_release(&q.ends);
    return 0;
}

int grammar_main(int argc, char **argv) {
    struct grammar_settings s;
    struct error err;
    size_t count = 0;
    int rc = option_parse(&grammar_options, &s, argc, argv, NULL, 0, &count, &err);
    if (rc == OPTION_HELP_PRINTED)
        return 0;
    if (rc)
        return command_misused("grammar", &grammar_options, &s, &err);
    rc = lines_run(answer, &s, &err);
    if (rc)
        fprintf(stderr, "trireme grammar: %s\n", err.text);
    option_free(&grammar_options, &s);
    return rc ? 1 : 0;
}
