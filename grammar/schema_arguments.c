/*
 * schema_arguments.c - the arguments of a call as elements, in the notations of models that write no
 * JSON object: `<parameter=city>Rome</parameter>`, `city="Rome"`, `city:<|"|>Rome<|"|>`.
 *
 * The conjunction of the arguments has one more member, schema.top, so that references and
 * alternatives are worked off as everywhere and leaf_object knows where it is. In the same way
 * schema.bare and schema.loose mark the conjunction of a string that stands bare. A loose one may
 * also be something else than a string, so it must not read like JSON.
 */
#include "grammar/marks.h"
#include "grammar/schema_internal.h"

/* What a reader of unquoted values takes for something else than a string. */
static const char NO_STRING[] =
    "\\s*(?:[-+.0-9{\\[(\"'][\\s\\S]*|(?:[Nn][Uu][Ll][Ll]|None|[Tt]rue|[Ff]alse)\\s*)";

/* A line end in front of a string or behind it. */
static const char AT_EDGE[] = "\\n[\\s\\S]*|[\\s\\S]*\\n";

static uint32_t typed(struct schema *s, const char *const *types, size_t count) {
    uint32_t out = tree_new(&s->t, TREE_OBJECT);
    uint32_t list = tree_add(&s->t, out, "type", tree_new(&s->t, TREE_ARRAY));
    for (size_t i = 0; i < count; i++)
        tree_add(&s->t, list, NULL, tree_new_string(&s->t, bytes_str(types[i])));
    return out;
}

void schema_arguments_init(struct schema *s, const struct arguments_form *form) {
    static const char *const OBJECT[] = {"object"}, *const STRING[] = {"string"},
                             *const OTHER[] = {"null", "boolean", "number", "array", "object"};
    s->form = form;
    s->top = typed(s, OBJECT, 1);
    s->bare = typed(s, STRING, 1);
    s->loose = typed(s, STRING, 1);
    s->other = typed(s, OTHER, ARRAY_LEN(OTHER));
    for (size_t i = 0; i < ARRAY_LEN(OTHER); i++)
        s->of_type[i] = typed(s, &OTHER[i], 1);
}

static bool has_member(const conjunction *c, uint32_t node) {
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i].node == node)
            return true;
    return false;
}

bool schema_is_top(const struct schema *s, const conjunction *c) {
    return s->form && has_member(c, s->top);
}

bool schema_is_arguments(const struct schema *s, const conjunction *c) {
    return schema_is_top(s, c) || (s->form && s->form->nested);
}

bool schema_is_bare(const struct schema *s, const conjunction *c) {
    return s->form && s->form->stop_count &&
           (s->form->nested || has_member(c, s->bare) || has_member(c, s->loose));
}

/* ---- strings ---- */

/* Takes from d what a pattern matches as a whole; false: d is empty and *err says why. */
static bool take_away(struct schema *s, const char *pattern, struct dfa *d, struct error *err) {
    struct dfa matched, rest = {0};
    int rc = regex_to_dfa(s->b, bytes_str(pattern), true, &matched, err);
    if (!rc) {
        rc = dfa_without(d, &matched, &s->b->fuel, &rest, err);
        dfa_release(&matched);
    }
    dfa_release(d);
    *d = rest;
    return rc == 0;
}

static bool allowed_dfa(struct schema *s, bool loose, struct dfa *out, struct error *err) {
    return !dfa_of_marks(s->b, s->form->stops, s->form->stop_count, true, out, err) &&
           (!loose || take_away(s, NO_STRING, out, err)) &&
           (!s->form->trims || take_away(s, AT_EDGE, out, err));
}

bool schema_keep_apart(struct schema *s, struct dfa *d) {
    struct dfa allowed, both = {0};
    struct error err = {0};
    if (!s->form || !s->form->stop_count)
        return true;
    int rc = dfa_of_marks(s->b, s->form->stops, s->form->stop_count, true, &allowed, &err);
    if (!rc) {
        rc = dfa_and(d, &allowed, &s->b->fuel, &both, &err);
        dfa_release(&allowed);
    }
    dfa_release(d);
    *d = both;
    if (rc)
        schema_fail(s, err.code, "%s", err.text);
    return rc == 0;
}

uint32_t schema_quoted(struct schema *s, struct dfa *d) {
    struct dfa all = {0};
    struct error err = {0};
    uint32_t quote = expr_text(s->b, "\"");
    if (!d && s->b->any_string)
        return s->b->any_string;
    if (!d && dfa_of_length(s->b, 0, REPEAT_NO_END, &all, &err))
        return schema_fail(s, err.code, "%s", err.text);
    if (!schema_keep_apart(s, d ? d : &all))
        return expr_never(s->b);
    uint32_t text = expr_dfa(s->b, d ? d : &all, EXPR_QUOTED);
    return expr_concat(s->b, (uint32_t[]){quote, text, quote}, 3);
}

uint32_t schema_bare_text(struct schema *s, const conjunction *c, struct dfa *d) {
    bool loose = !s->form->nested && has_member(c, s->loose);
    struct dfa allowed = {0}, both = {0};
    struct error err = {0};
    bool ok = d || !s->bare_any[loose];
    if (!ok)
        return s->bare_any[loose];
    ok = allowed_dfa(s, loose, &allowed, &err);
    if (ok && d) {
        ok = !dfa_and(d, &allowed, &s->b->fuel, &both, &err);
        dfa_release(&allowed);
        allowed = both;
    }
    if (d)
        dfa_release(d);
    if (!ok)
        return schema_fail(s, err.code, "%s", err.text);
    uint32_t quote = s->form->quote, text = expr_dfa(s->b, &allowed, EXPR_DFA);
    uint32_t e = expr_concat(s->b, (uint32_t[]){quote, text, quote}, 3);
    if (!d)
        s->bare_any[loose] = e;
    return e;
}

/* ---- any value, in a notation of its own ---- */

static uint32_t any_key(struct schema *s) {
    static const struct code_range KEY[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    return expr_repeat(s->b, expr_chars(s->b, KEY, ARRAY_LEN(KEY)), 1, REPEAT_NO_END);
}

/* one (separator one)*, or nothing, between brackets. */
static uint32_t bracketed(struct schema *s, const char *open, uint32_t one, const char *close) {
    struct builder *b = s->b;
    uint32_t next = expr_concat(b, (uint32_t[]){s->form->separator, one}, 2);
    uint32_t all = expr_concat(b, (uint32_t[]){one, expr_repeat(b, next, 0, REPEAT_NO_END)}, 2);
    return expr_concat(
        b, (uint32_t[]){expr_text(b, open), expr_repeat(b, all, 0, 1), expr_text(b, close)}, 3);
}

static uint32_t any_members(struct schema *s) {
    uint32_t member[] = {any_key(s), s->form->middle, schema_any(s)};
    return bracketed(s, "{", expr_concat(s->b, member, 3), "}");
}

uint32_t schema_any(struct schema *s) {
    static const conjunction NONE = {0};
    struct builder *b = s->b;
    if (!s->form || !s->form->nested)
        return expr_any_json(b);
    if (!s->any_rule) {
        uint32_t rule = builder_rule(b);
        s->any_rule = rule + 1;
        uint32_t kinds[] = {schema_bare_text(s, &NONE, NULL),
                            expr_number(b, false),
                            any_members(s),
                            bracketed(s, "[", expr_rule(b, rule), "]"),
                            expr_text(b, "true"),
                            expr_text(b, "false"),
                            expr_text(b, "null")};
        builder_set_rule(b, rule, expr_alt(b, kinds, ARRAY_LEN(kinds)));
    }
    return expr_rule(b, s->any_rule - 1);
}

/* ---- one argument ---- */

static uint32_t all_and(struct schema *s, const conjunction *c, uint32_t node) {
    conjunction all = {0};
    for (size_t i = 0; i < c->count; i++)
        vec_push(&all, c->items[i]);
    if (node)
        conjunction_add(&all, node, 0);
    return schema_all(s, &all);
}

static bool is_never(const struct schema *s, uint32_t e) {
    return s->b->exprs.items[e].kind == EXPR_NEVER;
}

/* A value that is no bare string, with its type in front where the form has that. */
static uint32_t stated_value(struct schema *s, const conjunction *c, uint32_t node) {
    static const char *const NAMES[] = {"null", "boolean", NULL, "array", "object"};
    struct builder *b = s->b;
    const struct arguments_form *f = s->form;
    uint32_t ways[ARRAY_LEN(NAMES)];
    if (f->type_end == FA_NONE)
        return expr_concat(b, (uint32_t[]){f->middle, all_and(s, c, node)}, 2);
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        uint32_t number[] = {expr_text(b, "number"), expr_text(b, "integer")};
        uint32_t name = NAMES[i] ? expr_text(b, NAMES[i]) : expr_alt(b, number, 2);
        uint32_t terms[] = {f->middle, name, f->type_end, all_and(s, c, s->of_type[i])};
        ways[i] = expr_concat(b, terms, 4);
    }
    return expr_alt(b, ways, ARRAY_LEN(ways));
}

/* What stands behind a key. */
static uint32_t middle_and_value(struct schema *s, const conjunction *c) {
    struct builder *b = s->b;
    const struct arguments_form *f = s->form;
    if (!f->stop_count || f->nested)
        return expr_concat(b, (uint32_t[]){f->middle, all_and(s, c, 0)}, 2);
    uint32_t text = all_and(s, c, s->bare), other = all_and(s, c, s->other);
    bool only_text = is_never(s, other);
    if (only_text)
        return expr_concat(b, (uint32_t[]){f->text_middle, text}, 2);
    if (is_never(s, text))
        return stated_value(s, c, s->other);
    if (!f->trusts_types)
        text = all_and(s, c, s->loose);
    /* A string that reads like something else stands as JSON writes it. */
    uint32_t ways[] = {expr_concat(b, (uint32_t[]){f->text_middle, text}, 2),
                       stated_value(s, c, f->type_end == FA_NONE ? 0 : s->other)};
    return expr_alt(b, ways, 2);
}

/* ---- all ---- */

struct argument {
    struct bytes name;
    bool required;
};
typedef VEC(struct argument) argument_vec;

static void add_argument(argument_vec *v, struct bytes name, bool required) {
    for (size_t i = 0; i < v->count; i++)
        if (bytes_equal(v->items[i].name, name)) {
            v->items[i].required |= required;
            return;
        }
    vec_push(v, ((struct argument){name, required}));
}

static bool name_is_plain(const struct arguments_form *f, struct bytes name) {
    const char *taken = f->python ? "" : f->nested ? "<>\"&:{}[]," : "<>\"&";
    bool plain = name.len > 0;
    for (size_t i = 0; i < name.len && plain; i++) {
        uint8_t c = name.data[i];
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80 ||
                    (i && c >= '0' && c <= '9');
        bool edge = i == 0 || i + 1 == name.len;
        plain = f->python ? word : c > 0x20 ? !strchr(taken, c) : c == ' ' && !edge;
    }
    return plain;
}

/* All names, those of "properties" first; false, with an error: they are not all there is. */
static bool gather(struct schema *s, const conjunction *c, argument_vec *out) {
    static const char *const REFUSED[] = {
        "patternProperties", "propertyNames", "dependentRequired", "dependencies", "minProperties",
        "maxProperties",     KEY_SOME};
    struct tree *t = &s->t;
    for (size_t i = 0; i < c->count; i++) {
        uint32_t list = tree_get(t, c->items[i].node, "properties");
        for (uint32_t k = tree_first(t, list); k; k = tree_next(t, k))
            add_argument(out, tree_key(t, k), false);
    }
    for (size_t i = 0; i < c->count; i++) {
        uint32_t list = tree_get(t, c->items[i].node, "required");
        for (uint32_t k = tree_kind(t, list) == TREE_ARRAY ? tree_first(t, list) : 0; k;
             k = tree_next(t, k))
            add_argument(out, tree_text(t, k), true);
        for (size_t r = 0; r < ARRAY_LEN(REFUSED); r++)
            if (tree_get(t, c->items[i].node, REFUSED[r])) {
                schema_fail(s, ERR_UNSUPPORTED,
                            "keyword \"%s\" in the notation in which this model writes arguments",
                            REFUSED[r][0] == '\xff' ? "not" : REFUSED[r]);
                return false;
            }
    }
    for (size_t i = 0; i < out->count; i++)
        if (!name_is_plain(s->form, out->items[i].name)) {
            schema_fail(s, ERR_UNSUPPORTED,
                        "the name '%.*s' in the notation in which this model writes arguments",
                        (int)MIN(out->items[i].name.len, (size_t)60),
                        (const char *)out->items[i].name.data);
            return false;
        }
    return true;
}

static uint32_t one_argument(struct schema *s, const conjunction *c, struct bytes name) {
    struct tree *t = &s->t;
    conjunction all = {0};
    for (size_t i = 0; i < c->count; i++) {
        uint32_t node = c->items[i].node;
        uint32_t own = tree_find(t, tree_get(t, node, "properties"), name);
        uint32_t of = own ? own : tree_get(t, node, "additionalProperties");
        if (of)
            conjunction_add(&all, of, 0);
    }
    const struct arguments_form *f = s->form;
    uint32_t written = expr_bytes(s->b, name);
    uint32_t terms[] = {f->before, written, middle_and_value(s, &all),
                        f->after,  written, f->after_end};
    vec_release(&all);
    return expr_concat(s->b, terms, f->after_end == FA_NONE ? 4 : 6);
}

static uint32_t as_rule(struct schema *s, uint32_t e) {
    if (is_never(s, e))
        return e;
    uint32_t rule = builder_rule(s->b);
    builder_set_rule(s->b, rule, e);
    return expr_rule(s->b, rule);
}

uint32_t schema_arguments(struct schema *s, const conjunction *c) {
    struct builder *b = s->b;
    argument_vec names = {0};
    /* What may follow where nothing was written yet, and where something was. */
    uint32_t none = expr_empty(b), some = none;
    bool ok = gather(s, c, &names);
    for (size_t i = ok ? names.count : 0; i-- > 0 && !b->failed;) {
        uint32_t one = as_rule(s, one_argument(s, c, names.items[i].name));
        uint32_t first = expr_concat(b, (uint32_t[]){one, some}, 2);
        uint32_t next = expr_concat(b, (uint32_t[]){s->form->separator, one, some}, 3);
        bool needed = names.items[i].required;
        none = as_rule(s, needed ? first : expr_alt(b, (uint32_t[]){first, none}, 2));
        some = as_rule(s, needed ? next : expr_alt(b, (uint32_t[]){next, some}, 2));
    }
    vec_release(&names);
    if (schema_is_top(s, c))
        return none;
    return expr_concat(b, (uint32_t[]){expr_text(b, "{"), none, expr_text(b, "}")}, 3);
}
