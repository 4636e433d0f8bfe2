/*
 * lark.c - a recursive reader; the depth of groups and templates is bounded by the builder's limit.
 *
 * Names of terminals are upper case. Inside a rule a terminal stands behind whatever is ignored; in
 * a terminal's own definition nothing is. A template is kept as text and read anew for each list of
 * arguments.
 */
#include "grammar/lark.h"

#include "base/utf8.h"
#include "formats/json.h"
#include "grammar/names.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/structure.h"

enum { REPEAT_MAX = 100000, PARAMETERS_MAX = 8, TEMPLATE_DEPTH = 16, INSTANCES_MAX = 2000 };

struct template {
    struct bytes name, body;
    struct bytes parameters[PARAMETERS_MAX];
    size_t count;
};
struct instance {
    size_t template;
    uint32_t arguments[PARAMETERS_MAX];
    uint32_t rule;
};
/* What a template's parameters stand for while its body is read. */
struct scope {
    const struct template *of; /* NULL: no template */
    const uint32_t *arguments;
};
struct reader {
    struct builder *b;
    const uint8_t *start, *at, *end;
    struct names names;
    VEC(struct template) templates;
    VEC(struct instance) instances;
    VEC(uint32_t) ignored; /* expressions */
    uint32_t ignore;       /* the rule of all that may stand in front of a terminal */
    struct scope scope;
    uint32_t depth, template_depth;
    bool in_terminal, ordered;
    struct error *err;
    int rc;
};

static uint32_t fail(struct reader *r, int code, const char *what) {
    if (!r->rc)
        r->rc = names_error(r->err, code, what, r->start, r->at);
    return expr_never(r->b);
}

/* ---- the text ---- */

static bool begins(const struct reader *r, const char *text) {
    size_t len = strlen(text);
    return (size_t)(r->end - r->at) >= len && !memcmp(r->at, text, len);
}

static bool skip_text(struct reader *r, const char *text) {
    bool found = begins(r, text);
    r->at += found ? strlen(text) : 0;
    return found;
}

/* Blanks and comments; line ends only with `lines`. */
static void skip(struct reader *r, bool lines) {
    while (r->at < r->end) {
        if (begins(r, "//") || *r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else if (*r->at == ' ' || *r->at == '\t' || *r->at == '\r' || (lines && *r->at == '\n'))
            r->at++;
        else if (begins(r, "\\\n"))
            r->at += 2;
        else
            return;
    }
}

static struct bytes take_name(struct reader *r) {
    const uint8_t *first = r->at;
    while (r->at < r->end && is_name_byte(*r->at) && !begins(r, "->"))
        r->at++;
    return bytes_of(first, (size_t)(r->at - first));
}

static bool is_terminal(struct bytes name) {
    size_t i = 0;
    while (i < name.len && name.data[i] == '_')
        i++;
    return i < name.len && name.data[i] >= 'A' && name.data[i] <= 'Z';
}

/* Passes what may stand between a definition's name and its colon: a priority, parameters,
 * attributes. False: it is no definition. */
static bool pass_head(struct reader *r) {
    while (r->at < r->end && (*r->at == '?' || *r->at == '!'))
        r->at++;
    if (!take_name(r).len)
        return false;
    if (skip_text(r, "."))
        while (r->at < r->end && (is_name_byte(*r->at)))
            r->at++;
    for (const char *pair = "{}[]"; *pair; pair += 2) {
        if (r->at >= r->end || *r->at != (uint8_t)pair[0])
            continue;
        while (r->at < r->end && *r->at != (uint8_t)pair[1] && *r->at != '\n')
            r->at++;
        r->at += r->at < r->end;
    }
    skip(r, false);
    return r->at < r->end && *r->at == ':';
}

/* Whether the next line, or the rest of this, begins something new. */
static bool definition_begins(struct reader *r) {
    const uint8_t *before = r->at;
    bool found = r->at >= r->end || *r->at == '%' || pass_head(r);
    r->at = before;
    return found;
}

/* ---- leaves ---- */

static uint32_t hex_escape(struct reader *r, int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        int digit = r->at < r->end ? hex_value(*r->at) : -1;
        if (digit < 0)
            return fail(r, ERR_INVALID, "a bad escape");
        value = value << 4 | (uint32_t)digit;
    }
    return value;
}

/* Behind a backslash in a string; what is unknown stays as it stands. */
static void add_escaped(struct reader *r, struct buf *out) {
    static const char FROM[] = "nrtf\\\"'", TO[] = "\n\r\t\f\\\"'";
    uint8_t c = r->at < r->end ? *r->at++ : 0;
    const char *simple = c ? strchr(FROM, c) : NULL;
    char utf8[4];
    if (simple) {
        buf_add_byte(out, TO[simple - FROM]);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        uint32_t cp = hex_escape(r, c == 'x' ? 2 : c == 'u' ? 4 : 8);
        if (cp > 0x10ffff)
            fail(r, ERR_INVALID, "a code point past 10FFFF");
        else
            buf_add(out, utf8, utf8_encode(cp, utf8));
    } else {
        buf_add_byte(out, '\\');
        r->at -= c != 0;
    }
}

/* Behind its opening quote, up to and with the closing one. */
static void take_string(struct reader *r, struct buf *out) {
    while (!r->rc && !skip_text(r, "\"")) {
        if (r->at >= r->end || *r->at == '\n')
            fail(r, ERR_INVALID, "a string without its closing quote");
        else if (skip_text(r, "\\"))
            add_escaped(r, out);
        else
            buf_add_byte(out, (char)*r->at++);
    }
    if (!r->rc && !utf8_valid(out->data, out->len))
        fail(r, ERR_INVALID, "bytes that are not UTF-8");
}

/* Every letter of either case. */
static uint32_t folded(struct builder *b, struct bytes text) {
    VEC(uint32_t) terms = {0};
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        bool letter = (c | 32) >= 'a' && (c | 32) <= 'z';
        struct code_range both[] = {{c, c}, {c ^ 32u, c ^ 32u}};
        uint32_t e = letter ? expr_chars(b, both, 2) : expr_bytes(b, bytes_of(&text.data[i], 1));
        vec_push(&terms, e);
    }
    uint32_t e = expr_concat(b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t one_code(struct reader *r, const struct buf *text) {
    uint32_t cp = 0;
    size_t len = utf8_decode((const uint8_t *)text->data, text->len, &cp);
    return len && len == text->len
               ? cp
               : fail(r, ERR_INVALID, "an end of a range of more than one character");
}

/* "text", "text"i, "a".."z" */
static uint32_t read_string(struct reader *r) {
    struct buf text = {0}, last = {0};
    uint32_t e = 0;
    take_string(r, &text);
    if (!r->rc && skip_text(r, "..")) {
        if (!skip_text(r, "\""))
            fail(r, ERR_INVALID, "a range without its end");
        else
            take_string(r, &last);
        struct code_range range = {r->rc ? 0 : one_code(r, &text), r->rc ? 0 : one_code(r, &last)};
        if (!r->rc && range.lo > range.hi)
            fail(r, ERR_INVALID, "a range whose end is before its beginning");
        e = r->rc ? 0 : expr_chars(r->b, &range, 1);
    } else if (!r->rc) {
        bool fold = begins(r, "i") && (r->end - r->at < 2 || !is_name_byte(r->at[1]));
        r->at += fold;
        e = fold ? folded(r->b, buf_bytes(&text)) : expr_bytes(r->b, buf_bytes(&text));
    }
    buf_release(&text);
    buf_release(&last);
    return e;
}

/* Behind its slash. */
static uint32_t read_regex(struct reader *r) {
    struct buf pattern = {0}, flagged = {0};
    struct error err;
    struct dfa d;
    bool in_class = false;
    while (r->at < r->end && *r->at != '\n' && (in_class || *r->at != '/')) {
        bool escape = *r->at == '\\' && r->end - r->at >= 2;
        in_class = escape ? in_class : *r->at == '[' ? true : *r->at == ']' ? false : in_class;
        if (!(escape && r->at[1] == '/'))
            buf_add_byte(&pattern, (char)*r->at);
        r->at++;
        if (escape)
            buf_add_byte(&pattern, (char)*r->at++);
    }
    if (!skip_text(r, "/"))
        fail(r, ERR_INVALID, "a pattern without its closing slash");
    const uint8_t *flags = r->at;
    while (r->at < r->end && strchr("imslux", *r->at) && *r->at)
        r->at++;
    for (const uint8_t *f = flags; f < r->at && !r->rc; f++)
        if (strchr("mlx", *f))
            fail(r, ERR_UNSUPPORTED, "a flag of a pattern other than i, s and u");
    if (r->at > flags)
        buf_addf(&flagged, "(?%.*s)", (int)(r->at - flags), (const char *)flags);
    buf_add_bytes(&flagged, buf_bytes(&pattern));
    uint32_t e = 0;
    if (!r->rc) {
        r->rc = regex_to_dfa(r->b, buf_bytes(&flagged), true, &d, &err);
        if (r->rc)
            r->rc = error_set(r->err, r->rc, "a pattern of the grammar: %s", err.text);
        else
            e = expr_dfa(r->b, &d, EXPR_DFA);
    }
    buf_release(&pattern);
    buf_release(&flagged);
    return e;
}

/* <|name|> or <name>: a control token. */
static uint32_t read_token(struct reader *r) {
    static const uint8_t BYTE = STRUCTURE_TOKEN_BYTE;
    const uint8_t *first = r->at;
    while (r->at < r->end && *r->at != '>' && *r->at != '\n')
        r->at++;
    if (!skip_text(r, ">"))
        return fail(r, ERR_INVALID, "a token without >");
    if (first[1] == '[')
        return fail(r, ERR_UNSUPPORTED, "a token by its number");
    uint32_t terms[] = {expr_bytes(r->b, bytes_of(&BYTE, 1)),
                        expr_bytes(r->b, bytes_of(first, (size_t)(r->at - first)))};
    return expr_concat(r->b, terms, 2);
}

/* %json {...} */
static uint32_t read_json(struct reader *r) {
    struct json_reader j;
    struct bytes raw;
    struct error err = {0};
    skip(r, true);
    json_reader_init(&j, bytes_of(r->at, (size_t)(r->end - r->at)), r->b->limits.depth, 0);
    enum json_event event = json_next(&j);
    bool ok = event != JSON_ERROR && event != JSON_END && json_take(&j, &raw);
    uint32_t rule = FA_NONE;
    if (!ok)
        fail(r, ERR_INVALID, "%json without JSON");
    else
        rule = schema_to_rule(r->b, raw, r->ordered, &err);
    if (ok)
        r->at = raw.data + raw.len;
    json_reader_release(&j);
    if (ok && rule == FA_NONE && !r->rc)
        r->rc = error_set(r->err, err.code, "%s", err.text);
    return rule == FA_NONE ? 0 : expr_rule(r->b, rule);
}

/* ---- expressions ---- */

static uint32_t read_alternatives(struct reader *r, bool grouped);

/* A terminal where a rule has it. */
static uint32_t placed(struct reader *r, uint32_t terminal) {
    if (r->in_terminal)
        return terminal;
    return expr_concat(r->b, (uint32_t[]){expr_rule(r->b, r->ignore), terminal}, 2);
}

static size_t template_of(const struct reader *r, struct bytes name) {
    size_t i = 0;
    while (i < r->templates.count && !bytes_equal(r->templates.items[i].name, name))
        i++;
    return i;
}

/* The rule of a template with these arguments. */
static uint32_t instance_rule(struct reader *r, size_t template, const uint32_t *arguments) {
    for (size_t i = 0; i < r->instances.count; i++)
        if (r->instances.items[i].template == template &&
            !memcmp(r->instances.items[i].arguments, arguments, PARAMETERS_MAX * sizeof *arguments))
            return r->instances.items[i].rule;
    if (r->template_depth == TEMPLATE_DEPTH || r->instances.count == INSTANCES_MAX) {
        fail(r, ERR_LIMIT, "templates that use each other too often");
        return 0;
    }
    struct instance made = {.template = template, .rule = builder_rule(r->b)};
    memcpy(made.arguments, arguments, sizeof made.arguments);
    vec_push(&r->instances, made);
    struct reader outer = *r;
    r->at = r->templates.items[template].body.data;
    r->end = r->at + r->templates.items[template].body.len;
    struct template of = r->templates.items[template];
    r->scope = (struct scope){&of, made.arguments};
    r->in_terminal = false;
    r->depth = 0;
    r->template_depth++;
    uint32_t e = read_alternatives(r, false);
    r->at = outer.at;
    r->end = outer.end;
    r->scope = outer.scope;
    r->in_terminal = outer.in_terminal;
    r->depth = outer.depth;
    r->template_depth--;
    builder_set_rule(r->b, made.rule, e);
    return made.rule;
}

/* Behind NAME{ */
static uint32_t read_instance(struct reader *r, struct bytes name) {
    uint32_t arguments[PARAMETERS_MAX] = {0};
    size_t template = template_of(r, name), count = 0;
    if (template == r->templates.count)
        return fail(r, ERR_INVALID, "a template that is not defined");
    do {
        if (count == PARAMETERS_MAX)
            return fail(r, ERR_LIMIT, "too many arguments of a template");
        uint32_t e = read_alternatives(r, true);
        /* Equal names are equal arguments, so that a template may use itself. */
        arguments[count] = e;
        for (uint32_t i = 0; i < e && r->b->exprs.items[e].kind == EXPR_RULE; i++)
            if (!memcmp(&r->b->exprs.items[i], &r->b->exprs.items[e], sizeof(struct expr))) {
                arguments[count] = i;
                break;
            }
        count++;
    } while (!r->rc && skip_text(r, ","));
    if (!r->rc && !skip_text(r, "}"))
        fail(r, ERR_INVALID, "a template's arguments without }");
    if (!r->rc && count != r->templates.items[template].count)
        fail(r, ERR_INVALID, "a template with the wrong number of arguments");
    return r->rc ? 0 : expr_rule(r->b, instance_rule(r, template, arguments));
}

static void pass_attributes(struct reader *r) {
    static const char *const HARMLESS[] = {"capture", "lazy"};
    while (!r->rc && !skip_text(r, "]")) {
        skip(r, true);
        struct bytes name = take_name(r);
        bool harmless = false;
        for (size_t i = 0; i < ARRAY_LEN(HARMLESS); i++)
            harmless |= bytes_equal(name, bytes_str(HARMLESS[i]));
        if (!harmless) {
            fail(r, ERR_UNSUPPORTED, "an attribute of a rule other than capture and lazy");
            return;
        }
        while (r->at < r->end && *r->at != ',' && *r->at != ']' && *r->at != '\n')
            r->at++;
        if (!skip_text(r, ",") && !begins(r, "]"))
            fail(r, ERR_INVALID, "attributes without ]");
    }
}

static uint32_t read_name(struct reader *r) {
    struct bytes name = take_name(r);
    const struct scope *scope = &r->scope;
    if (!name.len)
        return fail(r, ERR_INVALID, "an unexpected character");
    for (size_t i = 0; scope->of && i < scope->of->count; i++)
        if (bytes_equal(scope->of->parameters[i], name))
            return scope->arguments[i];
    if (begins(r, "{") && r->end - r->at >= 2 && !(r->at[1] >= '0' && r->at[1] <= '9') &&
        r->at[1] != ',') {
        r->at++;
        return read_instance(r, name);
    }
    uint32_t e = expr_rule(r->b, names_get(&r->names, r->b, name)->rule);
    if (is_terminal(name))
        return placed(r, e);
    if (r->in_terminal)
        return fail(r, ERR_INVALID, "a rule in a terminal");
    return e;
}

static uint32_t read_group(struct reader *r, const char *close) {
    if (++r->depth > r->b->limits.depth)
        return fail(r, ERR_LIMIT, "groups nested too deeply");
    uint32_t e = read_alternatives(r, true);
    r->depth--;
    return skip_text(r, close) ? e : fail(r, ERR_INVALID, "a group without its end");
}

static uint32_t read_atom(struct reader *r) {
    if (skip_text(r, "\""))
        return placed(r, read_string(r));
    if (skip_text(r, "/"))
        return placed(r, read_regex(r));
    if (skip_text(r, "("))
        return read_group(r, ")");
    if (skip_text(r, "["))
        return expr_repeat(r->b, read_group(r, "]"), 0, 1);
    if (skip_text(r, "%json"))
        return placed(r, read_json(r));
    if (begins(r, "<"))
        return read_token(r);
    if (begins(r, "%") || begins(r, "@"))
        return fail(r, ERR_UNSUPPORTED, "a grammar within the grammar other than %json");
    return read_name(r);
}

static bool take_number(struct reader *r, uint32_t *out) {
    const uint8_t *first = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        *out = MIN(*out * 10 + (uint32_t)(*r->at - '0'), (uint32_t)REPEAT_MAX + 1);
    return r->at > first;
}

/* ~2, ~2..3; {2}, {2,}, {,3}, {2,3} */
static void read_bounds(struct reader *r, bool braces, uint32_t *min, uint32_t *max) {
    skip(r, false);
    bool from = take_number(r, min);
    *max = *min;
    skip(r, false);
    if (braces ? skip_text(r, ",") : skip_text(r, "..")) {
        skip(r, false);
        if (!take_number(r, max)) {
            *max = REPEAT_NO_END;
            from &= braces;
        } else {
            from |= braces;
        }
    }
    skip(r, false);
    if (!from || (braces && !skip_text(r, "}")))
        fail(r, ERR_INVALID, "a repetition without its numbers");
    else if (*min > *max)
        fail(r, ERR_INVALID, "a repetition whose end is below its beginning");
    else if (*min > REPEAT_MAX || (*max != REPEAT_NO_END && *max > REPEAT_MAX))
        fail(r, ERR_LIMIT, "a repetition of more than 100000");
}

static uint32_t read_repeated(struct reader *r) {
    uint32_t e = read_atom(r);
    for (;;) {
        uint32_t min = 0, max = REPEAT_NO_END;
        if (skip_text(r, "[")) /* right behind: an optional part stands behind a blank */
            pass_attributes(r);
        skip(r, false);
        if (r->rc || r->at >= r->end)
            return e;
        if (skip_text(r, "+"))
            min = 1;
        else if (skip_text(r, "?"))
            max = 1;
        else if (skip_text(r, "~"))
            read_bounds(r, false, &min, &max);
        else if (skip_text(r, "{"))
            read_bounds(r, true, &min, &max);
        else if (!skip_text(r, "*"))
            return e;
        if (!r->rc)
            e = expr_repeat(r->b, e, min, max);
    }
}

/* Whether a sequence ends here. Line ends inside of it are passed. */
static bool sequence_ends(struct reader *r, bool grouped) {
    skip(r, false);
    if (r->rc || r->at >= r->end)
        return true;
    if (*r->at == '\n') {
        const uint8_t *line = r->at;
        skip(r, true);
        if (!grouped && definition_begins(r)) {
            r->at = line;
            return true;
        }
    }
    if (skip_text(r, "->")) {
        skip(r, false);
        (void)take_name(r);
        return sequence_ends(r, grouped);
    }
    return r->at >= r->end || strchr("|)]},", *r->at);
}

static uint32_t read_sequence(struct reader *r, bool grouped) {
    VEC(uint32_t) terms = {0};
    while (!sequence_ends(r, grouped)) {
        uint32_t e = read_repeated(r);
        vec_push(&terms, e);
    }
    uint32_t e = expr_concat(r->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t read_alternatives(struct reader *r, bool grouped) {
    VEC(uint32_t) terms = {0};
    skip(r, grouped);
    (void)skip_text(r, "|");
    do {
        uint32_t e = read_sequence(r, grouped);
        vec_push(&terms, e);
    } while (!r->rc && skip_text(r, "|"));
    uint32_t e = expr_alt(r->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

/* ---- left recursion ---- */

/* The parts of e behind the rule, where e begins with it. */
static bool begins_with_rule(struct builder *b, uint32_t e, uint32_t rule, uint32_t *behind) {
    const struct expr x = b->exprs.items[e];
    if (x.kind == EXPR_RULE && x.a == rule) {
        *behind = expr_empty(b);
        return true;
    }
    if (x.kind != EXPR_CONCAT)
        return false;
    const struct expr first = b->exprs.items[b->kids.items[x.a]];
    if (first.kind != EXPR_RULE || first.a != rule)
        return false;
    VEC(uint32_t) rest = {0};
    for (uint32_t i = 1; i < x.b; i++)
        vec_push(&rest, b->kids.items[x.a + i]);
    *behind = expr_concat(b, rest.items, rest.count);
    vec_release(&rest);
    return true;
}

/* A: A x | y is y x*. */
static uint32_t without_recursion(struct builder *b, uint32_t e, uint32_t rule) {
    const struct expr x = b->exprs.items[e];
    uint32_t behind;
    if (b->failed || (x.kind != EXPR_ALT && x.kind != EXPR_CONCAT))
        return e;
    if (x.kind == EXPR_CONCAT)
        return begins_with_rule(b, e, rule, &behind) ? expr_never(b) : e;
    VEC(uint32_t) first = {0};
    VEC(uint32_t) more = {0};
    for (uint32_t i = 0; i < x.b; i++) {
        uint32_t kid = b->kids.items[x.a + i];
        if (!begins_with_rule(b, kid, rule, &behind))
            vec_push(&first, kid);
        else if (b->exprs.items[behind].kind != EXPR_EMPTY)
            vec_push(&more, behind);
    }
    uint32_t all[] = {expr_alt(b, first.items, first.count), expr_alt(b, more.items, more.count)};
    if (more.count)
        all[1] = expr_repeat(b, all[1], 0, REPEAT_NO_END);
    uint32_t out = first.count == x.b ? e : more.count ? expr_concat(b, all, 2) : all[0];
    vec_release(&first);
    vec_release(&more);
    return out;
}

/* ---- definitions ---- */

static void define(struct reader *r, struct bytes text, uint32_t e) {
    struct name *name = names_get(&r->names, r->b, text);
    if (name->defined)
        fail(r, ERR_INVALID, "a second definition of one name");
    name->defined = true;
    builder_set_rule(r->b, name->rule, without_recursion(r->b, e, name->rule));
}

static void read_template(struct reader *r, struct bytes name) {
    struct template t = {.name = name};
    do {
        skip(r, false);
        if (t.count == PARAMETERS_MAX) {
            fail(r, ERR_LIMIT, "too many parameters of a template");
            return;
        }
        t.parameters[t.count++] = take_name(r);
        skip(r, false);
    } while (skip_text(r, ","));
    if (!skip_text(r, "}")) {
        fail(r, ERR_INVALID, "a template's parameters without }");
        return;
    }
    if (skip_text(r, "."))
        (void)take_name(r);
    skip(r, false);
    if (!skip_text(r, ":")) {
        fail(r, ERR_INVALID, "a template without a colon");
        return;
    }
    t.body.data = r->at;
    vec_push(&r->templates, t);
}

/* To the next definition, strings and patterns passed whole. */
static void pass_body(struct reader *r) {
    for (bool fresh = false; r->at < r->end;) {
        if (fresh && definition_begins(r))
            return;
        fresh = false;
        uint8_t c = *r->at++;
        if (c == '\n') {
            skip(r, true);
            fresh = true;
        } else if (c == '"' || c == '/') {
            while (r->at < r->end && *r->at != c && *r->at != '\n')
                r->at += *r->at == '\\' && r->end - r->at >= 2 ? 2 : 1;
            r->at += r->at < r->end && *r->at == c;
        }
    }
}

static void read_definition(struct reader *r, bool templates) {
    while (r->at < r->end && (*r->at == '?' || *r->at == '!'))
        r->at++;
    struct bytes name = take_name(r);
    if (!name.len) {
        fail(r, ERR_INVALID, "a definition without a name");
        return;
    }
    bool template = skip_text(r, "{");
    if (template && templates) {
        read_template(r, name);
        if (!r->rc) {
            pass_body(r);
            struct template *t = &r->templates.items[r->templates.count - 1];
            t->body.len = (size_t)(r->at - t->body.data);
        }
        return;
    }
    if (template || templates) {
        pass_body(r);
        return;
    }
    if (skip_text(r, ".")) {
        (void)skip_text(r, "-");
        (void)take_name(r);
    }
    if (skip_text(r, "["))
        pass_attributes(r);
    skip(r, false);
    if (!skip_text(r, ":")) {
        fail(r, ERR_INVALID, "a definition without a colon");
        return;
    }
    r->in_terminal = is_terminal(name);
    uint32_t e = read_alternatives(r, false);
    r->in_terminal = false;
    if (!r->rc)
        define(r, name, e);
    if (!r->rc && r->at < r->end && *r->at != '\n')
        fail(r, ERR_INVALID, "an unexpected character");
}

static const struct {
    const char *name, *pattern;
} COMMON[] = {{"DIGIT", "[0-9]"},
              {"HEXDIGIT", "[0-9a-fA-F]"},
              {"INT", "[0-9]+"},
              {"SIGNED_INT", "[+-]?[0-9]+"},
              {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
              {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
              {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|"
                               "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
              {"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
              {"SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
              {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\.)*\""},
              {"LCASE_LETTER", "[a-z]"},
              {"UCASE_LETTER", "[A-Z]"},
              {"LETTER", "[A-Za-z]"},
              {"WORD", "[A-Za-z]+"},
              {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
              {"WS_INLINE", "[ \\t]+"},
              {"WS", "[ \\t\\f\\r\\n]+"},
              {"CR", "\\r"},
              {"LF", "\\n"},
              {"NEWLINE", "(?:\\r?\\n)+"},
              {"SH_COMMENT", "#[^\\n]*"},
              {"CPP_COMMENT", "//[^\\n]*"},
              {"SQL_COMMENT", "--[^\\n]*"},
              {"C_COMMENT", "/\\*(?:[^*]|\\*+[^*/])*\\*+/"}};

static void import(struct reader *r, struct bytes what, struct bytes as) {
    struct dfa d;
    struct error err;
    size_t i = 0;
    while (i < ARRAY_LEN(COMMON) && !bytes_equal(what, bytes_str(COMMON[i].name)))
        i++;
    if (i == ARRAY_LEN(COMMON)) {
        fail(r, ERR_UNSUPPORTED, "an import that is not known");
        return;
    }
    int rc = regex_to_dfa(r->b, bytes_str(COMMON[i].pattern), true, &d, &err);
    if (rc)
        r->rc = error_set(r->err, rc, "%s", err.text);
    else
        define(r, as, expr_dfa(r->b, &d, EXPR_DFA));
}

/* common.NAME, common.NAME -> OTHER, common (NAME, NAME) */
static void read_import(struct reader *r) {
    skip(r, false);
    if (!skip_text(r, "common")) {
        fail(r, ERR_UNSUPPORTED, "an import of something else than common");
        return;
    }
    bool list = false;
    if (!skip_text(r, ".")) {
        skip(r, false);
        list = skip_text(r, "(");
    }
    do {
        skip(r, list);
        struct bytes name = take_name(r), as = name;
        skip(r, list);
        if (skip_text(r, "->")) {
            skip(r, false);
            as = take_name(r);
        }
        import(r, name, as);
        skip(r, list);
    } while (!r->rc && list && skip_text(r, ","));
    if (!r->rc && list && !skip_text(r, ")"))
        fail(r, ERR_INVALID, "an import without )");
}

static void read_directive(struct reader *r) {
    if (skip_text(r, "%ignore")) {
        r->in_terminal = true;
        uint32_t e = read_alternatives(r, false);
        r->in_terminal = false;
        vec_push(&r->ignored, e);
    } else if (skip_text(r, "%import")) {
        read_import(r);
    } else if (skip_text(r, "%declare")) {
        fail(r, ERR_UNSUPPORTED, "%declare: a terminal without a definition");
    } else if (skip_text(r, "%llguidance")) {
        while (r->at < r->end && *r->at != '\n')
            r->at++;
    } else {
        fail(r, ERR_UNSUPPORTED, "an unknown directive");
    }
}

static void read_all(struct reader *r, bool templates) {
    r->at = r->start;
    skip(r, true);
    while (!r->rc && !r->b->failed && r->at < r->end) {
        if (*r->at != '%')
            read_definition(r, templates);
        else if (!templates)
            read_directive(r);
        else
            pass_body(r);
        skip(r, true);
    }
}

bool lark_is_likely(struct bytes text) {
    for (size_t i = 0; i + 2 < text.len; i++)
        if (!memcmp(text.data + i, "::=", 3))
            return false;
    return true;
}

uint32_t lark_to_rule(struct builder *b, struct bytes text, bool ordered, struct error *err) {
    struct reader r = {
        .b = b, .start = text.data, .end = text.data + text.len, .ordered = ordered, .err = err};
    uint32_t root = FA_NONE, rule = FA_NONE;
    if (text.len > b->limits.bytes) {
        r.at = r.start;
        fail(&r, ERR_LIMIT, "too many bytes");
    }
    r.ignore = builder_rule(b);
    if (!r.rc)
        read_all(&r, true);
    if (!r.rc)
        read_all(&r, false);
    if (!r.rc)
        r.rc = names_root(&r.names, "start", &root, err);
    if (!r.rc && !b->failed) {
        uint32_t ignored = expr_alt(b, r.ignored.items, r.ignored.count);
        builder_set_rule(b, r.ignore,
                         r.ignored.count ? expr_repeat(b, ignored, 0, REPEAT_NO_END)
                                         : expr_empty(b));
        rule = builder_rule(b);
        builder_set_rule(
            b, rule, expr_concat(b, (uint32_t[]){expr_rule(b, root), expr_rule(b, r.ignore)}, 2));
    }
    if (!r.rc && b->failed)
        r.rc = error_set(err, b->error.code, "%s", b->error.text);
    names_release(&r.names);
    vec_release(&r.templates);
    vec_release(&r.instances);
    vec_release(&r.ignored);
    return r.rc ? FA_NONE : rule;
}
