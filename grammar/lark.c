/*
 * lark.c - a recursive reader; the depth of groups and templates is bounded by the builder's limit.
 *
 * Names of terminals are upper case. Inside a rule a terminal stands behind whatever is ignored; in
 * a terminal's own definition nothing is. A template is kept as text and read anew for each list of
 * arguments.
 */
#include "grammar/lark.h"
#include "grammar/lark_internal.h"
#include "grammar/regex.h"

enum { REPEAT_MAX = 100000, TEMPLATE_DEPTH = 16, INSTANCES_MAX = 2000 };

/* ---- names and definitions ---- */

static bool is_terminal(struct bytes name) {
    size_t i = 0;
    while (i < name.len && name.data[i] == '_')
        i++;
    return i < name.len && name.data[i] >= 'A' && name.data[i] <= 'Z';
}

/* Passes what may stand between a definition's name and its colon: a priority, parameters,
 * attributes. False: it is no definition. */
static bool pass_head(struct lark_reader *r) {
    while (r->at < r->end && (*r->at == '?' || *r->at == '!'))
        r->at++;
    if (!lark_take_name(r).len)
        return false;
    if (lark_skip_text(r, "."))
        while (r->at < r->end && (is_name_byte(*r->at)))
            r->at++;
    for (const char *pair = "{}[]"; *pair; pair += 2) {
        if (r->at >= r->end || *r->at != (uint8_t)pair[0])
            continue;
        while (r->at < r->end && *r->at != (uint8_t)pair[1] && *r->at != '\n')
            r->at++;
        r->at += r->at < r->end;
    }
    lark_skip(r, false);
    return r->at < r->end && *r->at == ':';
}

/* Whether the next line, or the rest of this, begins something new. */
static bool definition_begins(struct lark_reader *r) {
    const uint8_t *before = r->at;
    bool found = r->at >= r->end || *r->at == '%' || pass_head(r);
    r->at = before;
    return found;
}

/* ---- expressions ---- */

static uint32_t read_alternatives(struct lark_reader *r, bool grouped);

/* A terminal where a rule has it. */
static uint32_t placed(struct lark_reader *r, uint32_t terminal) {
    if (r->in_terminal)
        return terminal;
    return expr_concat(r->b, (uint32_t[]){expr_rule(r->b, r->ignore), terminal}, 2);
}

static size_t template_of(const struct lark_reader *r, struct bytes name) {
    size_t i = 0;
    while (i < r->templates.count && !bytes_equal(r->templates.items[i].name, name))
        i++;
    return i;
}

/* The rule of a template with these arguments. */
static uint32_t instance_rule(struct lark_reader *r, size_t template, const uint32_t *arguments) {
    for (size_t i = 0; i < r->instances.count; i++)
        if (r->instances.items[i].template == template &&
            !memcmp(r->instances.items[i].arguments, arguments,
                    LARK_PARAMETERS_MAX * sizeof *arguments))
            return r->instances.items[i].rule;
    if (r->template_depth == TEMPLATE_DEPTH || r->instances.count == INSTANCES_MAX) {
        lark_fail(r, ERR_LIMIT, "templates that use each other too often");
        return 0;
    }
    struct lark_instance made = {.template = template, .rule = builder_rule(r->b)};
    memcpy(made.arguments, arguments, sizeof made.arguments);
    vec_push(&r->instances, made);
    struct lark_reader outer = *r;
    r->at = r->templates.items[template].body.data;
    r->end = r->at + r->templates.items[template].body.len;
    struct lark_template of = r->templates.items[template];
    r->scope = (struct lark_scope){&of, made.arguments};
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
static uint32_t read_instance(struct lark_reader *r, struct bytes name) {
    uint32_t arguments[LARK_PARAMETERS_MAX] = {0};
    size_t template = template_of(r, name), count = 0;
    if (template == r->templates.count)
        return lark_fail(r, ERR_INVALID, "a template that is not defined");
    do {
        if (count == LARK_PARAMETERS_MAX)
            return lark_fail(r, ERR_LIMIT, "too many arguments of a template");
        uint32_t e = read_alternatives(r, true);
        /* Equal names are equal arguments, so that a template may use itself. */
        arguments[count] = e;
        for (uint32_t i = 0; i < e && r->b->exprs.items[e].kind == EXPR_RULE; i++)
            if (!memcmp(&r->b->exprs.items[i], &r->b->exprs.items[e], sizeof(struct expr))) {
                arguments[count] = i;
                break;
            }
        count++;
    } while (!r->rc && lark_skip_text(r, ","));
    if (!r->rc && !lark_skip_text(r, "}"))
        lark_fail(r, ERR_INVALID, "a template's arguments without }");
    if (!r->rc && count != r->templates.items[template].count)
        lark_fail(r, ERR_INVALID, "a template with the wrong number of arguments");
    return r->rc ? 0 : expr_rule(r->b, instance_rule(r, template, arguments));
}

static void pass_attributes(struct lark_reader *r) {
    static const char *const HARMLESS[] = {"capture", "lazy"};
    while (!r->rc && !lark_skip_text(r, "]")) {
        lark_skip(r, true);
        struct bytes name = lark_take_name(r);
        bool harmless = false;
        for (size_t i = 0; i < ARRAY_LEN(HARMLESS); i++)
            harmless |= bytes_equal(name, bytes_str(HARMLESS[i]));
        if (!harmless) {
            lark_fail(r, ERR_UNSUPPORTED, "an attribute of a rule other than capture and lazy");
            return;
        }
        while (r->at < r->end && *r->at != ',' && *r->at != ']' && *r->at != '\n')
            r->at++;
        if (!lark_skip_text(r, ",") && !lark_begins(r, "]"))
            lark_fail(r, ERR_INVALID, "attributes without ]");
    }
}

static uint32_t read_name(struct lark_reader *r) {
    struct bytes name = lark_take_name(r);
    const struct lark_scope *scope = &r->scope;
    if (!name.len)
        return lark_fail(r, ERR_INVALID, "an unexpected character");
    for (size_t i = 0; scope->of && i < scope->of->count; i++)
        if (bytes_equal(scope->of->parameters[i], name))
            return scope->arguments[i];
    if (lark_begins(r, "{") && r->end - r->at >= 2 && !(r->at[1] >= '0' && r->at[1] <= '9') &&
        r->at[1] != ',') {
        r->at++;
        return read_instance(r, name);
    }
    uint32_t e = expr_rule(r->b, names_get(&r->names, r->b, name)->rule);
    if (is_terminal(name))
        return placed(r, e);
    if (r->in_terminal)
        return lark_fail(r, ERR_INVALID, "a rule in a terminal");
    return e;
}

static uint32_t read_group(struct lark_reader *r, const char *close) {
    if (++r->depth > r->b->limits.depth)
        return lark_fail(r, ERR_LIMIT, "groups nested too deeply");
    uint32_t e = read_alternatives(r, true);
    r->depth--;
    return lark_skip_text(r, close) ? e : lark_fail(r, ERR_INVALID, "a group without its end");
}

static uint32_t read_atom(struct lark_reader *r) {
    if (lark_skip_text(r, "\""))
        return placed(r, lark_read_string(r));
    if (lark_skip_text(r, "/"))
        return placed(r, lark_read_regex(r));
    if (lark_skip_text(r, "("))
        return read_group(r, ")");
    if (lark_skip_text(r, "["))
        return expr_repeat(r->b, read_group(r, "]"), 0, 1);
    if (lark_skip_text(r, "%json"))
        return placed(r, lark_read_json(r));
    if (lark_begins(r, "<"))
        return lark_read_token(r);
    if (lark_begins(r, "%") || lark_begins(r, "@"))
        return lark_fail(r, ERR_UNSUPPORTED, "a grammar within the grammar other than %json");
    return read_name(r);
}

static bool take_number(struct lark_reader *r, uint32_t *out) {
    const uint8_t *first = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++)
        *out = MIN(*out * 10 + (uint32_t)(*r->at - '0'), (uint32_t)REPEAT_MAX + 1);
    return r->at > first;
}

/* ~2, ~2..3; {2}, {2,}, {,3}, {2,3} */
static void read_bounds(struct lark_reader *r, bool braces, uint32_t *min, uint32_t *max) {
    lark_skip(r, false);
    bool from = take_number(r, min);
    *max = *min;
    lark_skip(r, false);
    if (braces ? lark_skip_text(r, ",") : lark_skip_text(r, "..")) {
        lark_skip(r, false);
        if (!take_number(r, max)) {
            *max = REPEAT_NO_END;
            from &= braces;
        } else {
            from |= braces;
        }
    }
    lark_skip(r, false);
    if (!from || (braces && !lark_skip_text(r, "}")))
        lark_fail(r, ERR_INVALID, "a repetition without its numbers");
    else if (*min > *max)
        lark_fail(r, ERR_INVALID, "a repetition whose end is below its beginning");
    else if (*min > REPEAT_MAX || (*max != REPEAT_NO_END && *max > REPEAT_MAX))
        lark_fail(r, ERR_LIMIT, "a repetition of more than 100000");
}

static uint32_t read_repeated(struct lark_reader *r) {
    uint32_t e = read_atom(r);
    for (;;) {
        uint32_t min = 0, max = REPEAT_NO_END;
        if (lark_skip_text(r, "[")) /* right behind: an optional part stands behind a blank */
            pass_attributes(r);
        lark_skip(r, false);
        if (r->rc || r->at >= r->end)
            return e;
        if (lark_skip_text(r, "+"))
            min = 1;
        else if (lark_skip_text(r, "?"))
            max = 1;
        else if (lark_skip_text(r, "~"))
            read_bounds(r, false, &min, &max);
        else if (lark_skip_text(r, "{"))
            read_bounds(r, true, &min, &max);
        else if (!lark_skip_text(r, "*"))
            return e;
        if (!r->rc)
            e = expr_repeat(r->b, e, min, max);
    }
}

/* Whether a sequence ends here. Line ends inside of it are passed. */
static bool sequence_ends(struct lark_reader *r, bool grouped) {
    lark_skip(r, false);
    if (r->rc || r->at >= r->end)
        return true;
    if (*r->at == '\n') {
        const uint8_t *line = r->at;
        lark_skip(r, true);
        if (!grouped && definition_begins(r)) {
            r->at = line;
            return true;
        }
    }
    if (lark_skip_text(r, "->")) {
        lark_skip(r, false);
        (void)lark_take_name(r);
        return sequence_ends(r, grouped);
    }
    return r->at >= r->end || strchr("|)]},", *r->at);
}

static uint32_t read_sequence(struct lark_reader *r, bool grouped) {
    VEC(uint32_t) terms = {0};
    while (!sequence_ends(r, grouped)) {
        uint32_t e = read_repeated(r);
        vec_push(&terms, e);
    }
    uint32_t e = expr_concat(r->b, terms.items, terms.count);
    vec_release(&terms);
    return e;
}

static uint32_t read_alternatives(struct lark_reader *r, bool grouped) {
    VEC(uint32_t) terms = {0};
    lark_skip(r, grouped);
    (void)lark_skip_text(r, "|");
    do {
        uint32_t e = read_sequence(r, grouped);
        vec_push(&terms, e);
    } while (!r->rc && lark_skip_text(r, "|"));
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

static void define(struct lark_reader *r, struct bytes text, uint32_t e) {
    struct name *name = names_get(&r->names, r->b, text);
    if (name->defined)
        lark_fail(r, ERR_INVALID, "a second definition of one name");
    name->defined = true;
    builder_set_rule(r->b, name->rule, without_recursion(r->b, e, name->rule));
}

static void read_template(struct lark_reader *r, struct bytes name) {
    struct lark_template t = {.name = name};
    do {
        lark_skip(r, false);
        if (t.count == LARK_PARAMETERS_MAX) {
            lark_fail(r, ERR_LIMIT, "too many parameters of a template");
            return;
        }
        t.parameters[t.count++] = lark_take_name(r);
        lark_skip(r, false);
    } while (lark_skip_text(r, ","));
    if (!lark_skip_text(r, "}")) {
        lark_fail(r, ERR_INVALID, "a template's parameters without }");
        return;
    }
    if (lark_skip_text(r, "."))
        (void)lark_take_name(r);
    lark_skip(r, false);
    if (!lark_skip_text(r, ":")) {
        lark_fail(r, ERR_INVALID, "a template without a colon");
        return;
    }
    t.body.data = r->at;
    vec_push(&r->templates, t);
}

/* To the next definition, strings and patterns passed whole. */
static void pass_body(struct lark_reader *r) {
    for (bool fresh = false; r->at < r->end;) {
        if (fresh && definition_begins(r))
            return;
        fresh = false;
        uint8_t c = *r->at++;
        if (c == '\n') {
            lark_skip(r, true);
            fresh = true;
        } else if (c == '"' || c == '/') {
            while (r->at < r->end && *r->at != c && *r->at != '\n')
                r->at += *r->at == '\\' && r->end - r->at >= 2 ? 2 : 1;
            r->at += r->at < r->end && *r->at == c;
        }
    }
}

static void read_definition(struct lark_reader *r, bool templates) {
    while (r->at < r->end && (*r->at == '?' || *r->at == '!'))
        r->at++;
    struct bytes name = lark_take_name(r);
    if (!name.len) {
        lark_fail(r, ERR_INVALID, "a definition without a name");
        return;
    }
    bool template = lark_skip_text(r, "{");
    if (template && templates) {
        read_template(r, name);
        if (!r->rc) {
            pass_body(r);
            struct lark_template *t = &r->templates.items[r->templates.count - 1];
            t->body.len = (size_t)(r->at - t->body.data);
        }
        return;
    }
    if (template || templates) {
        pass_body(r);
        return;
    }
    if (lark_skip_text(r, ".")) {
        (void)lark_skip_text(r, "-");
        (void)lark_take_name(r);
    }
    if (lark_skip_text(r, "["))
        pass_attributes(r);
    lark_skip(r, false);
    if (!lark_skip_text(r, ":")) {
        lark_fail(r, ERR_INVALID, "a definition without a colon");
        return;
    }
    r->in_terminal = is_terminal(name);
    uint32_t e = read_alternatives(r, false);
    r->in_terminal = false;
    if (!r->rc)
        define(r, name, e);
    if (!r->rc && r->at < r->end && *r->at != '\n')
        lark_fail(r, ERR_INVALID, "an unexpected character");
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

static void import(struct lark_reader *r, struct bytes what, struct bytes as) {
    struct dfa d;
    struct error err;
    size_t i = 0;
    while (i < ARRAY_LEN(COMMON) && !bytes_equal(what, bytes_str(COMMON[i].name)))
        i++;
    if (i == ARRAY_LEN(COMMON)) {
        lark_fail(r, ERR_UNSUPPORTED, "an import that is not known");
        return;
    }
    int rc = regex_to_dfa(r->b, bytes_str(COMMON[i].pattern), true, &d, &err);
    if (rc)
        r->rc = error_set(r->err, rc, "%s", err.text);
    else
        define(r, as, expr_dfa(r->b, &d, EXPR_DFA));
}

/* common.NAME, common.NAME -> OTHER, common (NAME, NAME) */
static void read_import(struct lark_reader *r) {
    lark_skip(r, false);
    if (!lark_skip_text(r, "common")) {
        lark_fail(r, ERR_UNSUPPORTED, "an import of something else than common");
        return;
    }
    bool list = false;
    if (!lark_skip_text(r, ".")) {
        lark_skip(r, false);
        list = lark_skip_text(r, "(");
    }
    do {
        lark_skip(r, list);
        struct bytes name = lark_take_name(r), as = name;
        lark_skip(r, list);
        if (lark_skip_text(r, "->")) {
            lark_skip(r, false);
            as = lark_take_name(r);
        }
        import(r, name, as);
        lark_skip(r, list);
    } while (!r->rc && list && lark_skip_text(r, ","));
    if (!r->rc && list && !lark_skip_text(r, ")"))
        lark_fail(r, ERR_INVALID, "an import without )");
}

static void read_directive(struct lark_reader *r) {
    if (lark_skip_text(r, "%ignore")) {
        r->in_terminal = true;
        uint32_t e = read_alternatives(r, false);
        r->in_terminal = false;
        vec_push(&r->ignored, e);
    } else if (lark_skip_text(r, "%import")) {
        read_import(r);
    } else if (lark_skip_text(r, "%declare")) {
        lark_fail(r, ERR_UNSUPPORTED, "%declare: a terminal without a definition");
    } else if (lark_skip_text(r, "%llguidance")) {
        while (r->at < r->end && *r->at != '\n')
            r->at++;
    } else {
        lark_fail(r, ERR_UNSUPPORTED, "an unknown directive");
    }
}

static void read_all(struct lark_reader *r, bool templates) {
    r->at = r->start;
    lark_skip(r, true);
    while (!r->rc && !r->b->failed && r->at < r->end) {
        if (*r->at != '%')
            read_definition(r, templates);
        else if (!templates)
            read_directive(r);
        else
            pass_body(r);
        lark_skip(r, true);
    }
}

bool lark_is_likely(struct bytes text) {
    for (size_t i = 0; i + 2 < text.len; i++)
        if (!memcmp(text.data + i, "::=", 3))
            return false;
    return true;
}

uint32_t lark_to_rule(struct builder *b, struct bytes text, bool ordered, struct error *err) {
    struct lark_reader r = {
        .b = b, .start = text.data, .end = text.data + text.len, .ordered = ordered, .err = err};
    uint32_t root = FA_NONE, rule = FA_NONE;
    if (text.len > b->limits.bytes) {
        r.at = r.start;
        lark_fail(&r, ERR_LIMIT, "too many bytes");
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
