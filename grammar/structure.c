#include "grammar/structure.h"

#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/marks.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/tree.h"

enum { STRUCTURE_DEPTH = 24, MARKS_MAX = 256, NODES_MAX = 4096 };

struct structure {
    struct builder *b;
    struct tree t;
    bool ordered;
    uint32_t depth, nodes;
};

static uint32_t node_expr(struct structure *s, uint32_t node);

static uint32_t fail(struct structure *s, const char *what, uint32_t node) {
    struct bytes text = node ? tree_text(&s->t, node) : bytes_str("");
    return builder_fail(s->b, ERR_INVALID, "a structure's %s%s%.*s", what, text.len ? ": " : "",
                        (int)MIN(text.len, (size_t)40), (const char *)text.data);
}

static uint32_t get(const struct structure *s, uint32_t node, const char *key) {
    return tree_get(&s->t, node, key);
}

/* A member that must be a text. */
static bool text_of(struct structure *s, uint32_t node, const char *key, struct bytes *out) {
    uint32_t member = get(s, node, key);
    if (!member || tree_kind(&s->t, member) != TREE_STRING) {
        (void)builder_fail(s->b, ERR_INVALID, "a structure's part lacks the text '%s'", key);
        return false;
    }
    *out = tree_text(&s->t, member);
    return true;
}

static bool list_of(struct structure *s, uint32_t node, const char *key, uint32_t *out) {
    *out = get(s, node, key);
    if (*out && tree_kind(&s->t, *out) == TREE_ARRAY)
        return true;
    (void)builder_fail(s->b, ERR_INVALID, "a structure's part lacks the list '%s'", key);
    return false;
}

static bool flag_of(struct structure *s, uint32_t node, const char *key) {
    uint32_t member = get(s, node, key);
    return member && tree_kind(&s->t, member) == TREE_TRUE;
}

/* ---- free text ---- */

static int marks_dfa(struct structure *s, const struct bytes *marks, size_t count, bool free,
                     struct dfa *out) {
    int rc = dfa_of_marks(s->b, marks, count, free, out, &s->b->error);
    s->b->failed |= rc != 0;
    return rc;
}

static uint32_t any_text(struct structure *s) {
    static const struct code_range ALL = {0, 0x10ffff};
    return expr_repeat(s->b, expr_chars(s->b, &ALL, 1), 0, REPEAT_NO_END);
}

static uint32_t free_text(struct structure *s, const struct bytes *marks, size_t count) {
    struct dfa d;
    if (count == 0)
        return any_text(s);
    return marks_dfa(s, marks, count, true, &d) ? 0 : expr_dfa(s->b, &d, EXPR_DFA);
}

/* Free text up to and including the first of the marks, which is the one of this number. */
static uint32_t text_until(struct structure *s, const struct bytes *marks, size_t count,
                           uint32_t which) {
    struct dfa d;
    if (marks_dfa(s, marks, count, false, &d))
        return 0;
    for (size_t i = 0; i < d.states.count; i++)
        if (d.states.items[i].label != which)
            d.states.items[i].label = FA_NONE;
    return expr_dfa(s->b, &d, EXPR_DFA);
}

/* The texts of a list, none of them empty. */
static bool marks_of(struct structure *s, uint32_t list, struct bytes *out, size_t most,
                     size_t *count) {
    *count = 0;
    for (uint32_t v = list ? tree_first(&s->t, list) : 0; v; v = tree_next(&s->t, v)) {
        if (tree_kind(&s->t, v) != TREE_STRING || !tree_text(&s->t, v).len || *count == most) {
            (void)fail(s, "marks are no list of texts, or too many", 0);
            return false;
        }
        out[(*count)++] = tree_text(&s->t, v);
    }
    return true;
}

static uint32_t node_any_text(struct structure *s, uint32_t node) {
    struct bytes marks[MARKS_MAX];
    size_t count;
    return marks_of(s, get(s, node, "excludes"), marks, MARKS_MAX, &count)
               ? free_text(s, marks, count)
               : 0;
}

static uint32_t node_until(struct structure *s, uint32_t node) {
    struct bytes marks[MARKS_MAX];
    size_t count;
    if (!text_of(s, node, "value", &marks[0]))
        return 0;
    if (!marks[0].len)
        return fail(s, "mark is empty", 0);
    if (!marks_of(s, get(s, node, "excludes"), marks + 1, MARKS_MAX - 1, &count))
        return 0;
    return text_until(s, marks, 1 + count, 0);
}

/* ---- leaves ---- */

static uint32_t node_const(struct structure *s, uint32_t node) {
    struct bytes value;
    return text_of(s, node, "value", &value) ? expr_bytes(s->b, value) : 0;
}

static uint32_t node_choice(struct structure *s, uint32_t node) {
    VEC(struct bytes) texts = {0};
    struct error err = {0};
    struct dfa d = {0};
    uint32_t list, e = 0;
    if (!list_of(s, node, "values", &list))
        return 0;
    for (uint32_t v = tree_first(&s->t, list); v && !s->b->failed; v = tree_next(&s->t, v)) {
        if (tree_kind(&s->t, v) != TREE_STRING)
            (void)fail(s, "values are no list of texts", 0);
        vec_push(&texts, tree_text(&s->t, v));
    }
    if (!s->b->failed)
        e = dfa_of_texts(s->b, texts.items, texts.count, false, &d, &err)
                ? builder_fail(s->b, err.code, "%s", err.text)
                : expr_dfa(s->b, &d, EXPR_DFA);
    vec_release(&texts);
    return e;
}

static uint32_t node_token(struct structure *s, uint32_t node) {
    static const uint8_t BYTE = STRUCTURE_TOKEN_BYTE;
    struct bytes value;
    if (!text_of(s, node, "value", &value))
        return 0;
    uint32_t both[] = {expr_bytes(s->b, bytes_of(&BYTE, 1)), expr_bytes(s->b, value)};
    return expr_concat(s->b, both, 2);
}

static uint32_t of_rule(struct structure *s, uint32_t rule, const struct error *err) {
    if (rule != FA_NONE)
        return expr_rule(s->b, rule);
    return builder_fail(s->b, err->code, "%s", err->text);
}

static uint32_t schema_expr(struct structure *s, uint32_t schema, bool closed) {
    struct error err = {0};
    if (!schema)
        return fail(s, "part lacks its schema", 0);
    return of_rule(s, schema_node_to_rule(s->b, &s->t, schema, s->ordered, closed, &err), &err);
}

static uint32_t node_schema(struct structure *s, uint32_t node) {
    return schema_expr(s, get(s, node, "json_schema"), flag_of(s, node, "closed"));
}

/* A member that is a part; without it, the other. */
static uint32_t node_or_other(struct structure *s, uint32_t node, const char *key, uint32_t other) {
    uint32_t member = get(s, node, key);
    return member ? node_expr(s, member) : other;
}

static uint32_t node_arguments(struct structure *s, uint32_t node) {
    struct bytes stops[MARKS_MAX];
    struct error err = {0};
    uint32_t empty = expr_empty(s->b), schema = get(s, node, "json_schema");
    struct arguments_form form = {.stops = stops,
                                  .nested = flag_of(s, node, "nested"),
                                  .python = flag_of(s, node, "python"),
                                  .trusts_types = flag_of(s, node, "trusts_types"),
                                  .trims = flag_of(s, node, "trims")};
    if (!schema)
        return fail(s, "part lacks its schema", 0);
    if (!marks_of(s, get(s, node, "stops"), stops, MARKS_MAX, &form.stop_count))
        return 0;
    form.before = node_or_other(s, node, "before", empty);
    form.middle = node_or_other(s, node, "middle", empty);
    form.text_middle = node_or_other(s, node, "text_middle", form.middle);
    form.type_end = node_or_other(s, node, "type_end", FA_NONE);
    form.after = node_or_other(s, node, "after", empty);
    form.after_end = node_or_other(s, node, "after_end", FA_NONE);
    form.separator = node_or_other(s, node, "separator", empty);
    form.quote = node_or_other(s, node, "quote", empty);
    if (s->b->failed)
        return 0;
    return of_rule(s, schema_arguments_to_rule(s->b, &s->t, schema, &form, &err), &err);
}

static uint32_t node_regex(struct structure *s, uint32_t node) {
    struct bytes pattern;
    struct error err = {0};
    if (!text_of(s, node, "pattern", &pattern))
        return 0;
    uint32_t e = regex_to_expr(s->b, pattern, &err);
    return e == FA_NONE ? builder_fail(s->b, err.code, "%s", err.text) : e;
}

static uint32_t node_grammar(struct structure *s, uint32_t node) {
    struct bytes text;
    struct error err = {0};
    if (!text_of(s, node, "grammar", &text))
        return 0;
    if (lark_is_likely(text))
        return of_rule(s, lark_to_rule(s->b, text, s->ordered, &err), &err);
    return of_rule(s, gbnf_to_rule(s->b, text, &err), &err);
}

/* ---- parts of parts ---- */

typedef VEC(uint32_t) expr_vec;

static bool terms_of(struct structure *s, uint32_t node, const char *key, expr_vec *out) {
    uint32_t list;
    if (!list_of(s, node, key, &list))
        return false;
    for (uint32_t v = tree_first(&s->t, list); v && !s->b->failed; v = tree_next(&s->t, v))
        vec_push(out, node_expr(s, v));
    return !s->b->failed;
}

static uint32_t node_sequence(struct structure *s, uint32_t node) {
    expr_vec terms = {0};
    uint32_t e =
        terms_of(s, node, "elements", &terms) ? expr_concat(s->b, terms.items, terms.count) : 0;
    vec_release(&terms);
    return e;
}

static uint32_t node_or(struct structure *s, uint32_t node) {
    expr_vec terms = {0};
    uint32_t e =
        terms_of(s, node, "elements", &terms) ? expr_alt(s->b, terms.items, terms.count) : 0;
    vec_release(&terms);
    return e;
}

static uint32_t node_repeat(struct structure *s, uint32_t node, uint32_t min, uint32_t max) {
    uint32_t content = get(s, node, "content");
    return content ? expr_repeat(s->b, node_expr(s, content), min, max)
                   : fail(s, "part lacks its content", 0);
}
static uint32_t node_optional(struct structure *s, uint32_t node) {
    return node_repeat(s, node, 0, 1);
}
static uint32_t node_plus(struct structure *s, uint32_t node) {
    return node_repeat(s, node, 1, REPEAT_NO_END);
}
static uint32_t node_star(struct structure *s, uint32_t node) {
    return node_repeat(s, node, 0, REPEAT_NO_END);
}

/* ---- tags ---- */

/* What stands between a tag's begin and the end of its end. */
static uint32_t tag_behind_begin(struct structure *s, uint32_t tag) {
    struct bytes ends[MARKS_MAX];
    size_t count = 1;
    uint32_t end = get(s, tag, "end"), content = get(s, tag, "content"),
             schema = get(s, tag, "schema");
    if (!end || (!content && !schema))
        return fail(s, "tag needs 'begin', 'content' and 'end'", 0);
    if (tree_kind(&s->t, end) == TREE_STRING)
        ends[0] = tree_text(&s->t, end);
    else if (tree_kind(&s->t, end) != TREE_ARRAY || !marks_of(s, end, ends, MARKS_MAX, &count) ||
             !count)
        return fail(s, "tag needs an 'end'", 0);
    if (content && tree_is(&s->t, get(s, content, "type"), "any_text") && ends[0].len &&
        !get(s, content, "excludes")) {
        uint32_t ways[MARKS_MAX];
        for (size_t i = 0; i < count; i++)
            ways[i] = text_until(s, ends, count, (uint32_t)i);
        return expr_alt(s->b, ways, count);
    }
    uint32_t both[] = {content ? node_expr(s, content) : schema_expr(s, schema, false), 0},
             ways[MARKS_MAX];
    for (size_t i = 0; i < count; i++)
        ways[i] = expr_bytes(s->b, ends[i]);
    both[1] = expr_alt(s->b, ways, count);
    return expr_concat(s->b, both, 2);
}

/* A tag whose first `skip` bytes have come. */
static uint32_t tag_from(struct structure *s, uint32_t tag, size_t skip) {
    struct bytes begin;
    if (!text_of(s, tag, "begin", &begin))
        return 0;
    uint32_t terms[] = {expr_bytes(s->b, bytes_of(begin.data + skip, begin.len - skip)),
                        tag_behind_begin(s, tag)};
    return expr_concat(s->b, terms, 2);
}

static uint32_t node_tag(struct structure *s, uint32_t node) {
    return tag_from(s, node, 0);
}

static uint32_t tag_alternatives(struct structure *s, uint32_t tags) {
    expr_vec ways = {0};
    for (uint32_t v = tree_first(&s->t, tags); v && !s->b->failed; v = tree_next(&s->t, v))
        vec_push(&ways, node_tag(s, v));
    uint32_t e = expr_alt(s->b, ways.items, ways.count);
    vec_release(&ways);
    return e;
}

static uint32_t node_separated(struct structure *s, uint32_t node) {
    uint32_t tags;
    struct bytes separator;
    if (!list_of(s, node, "tags", &tags) || !text_of(s, node, "separator", &separator))
        return 0;
    uint32_t one = tag_alternatives(s, tags);
    uint32_t next[] = {expr_bytes(s->b, separator), one};
    uint32_t all[] = {one, expr_repeat(s->b, expr_concat(s->b, next, 2), 0, REPEAT_NO_END)};
    uint32_t e = flag_of(s, node, "stop_after_first") ? one : expr_concat(s->b, all, 2);
    return flag_of(s, node, "at_least_one") ? e : expr_repeat(s->b, e, 0, 1);
}

/* Free text up to a trigger, then one of the tags that begin with it. */
static uint32_t triggered_tag(struct structure *s, uint32_t tags, const struct bytes *triggers,
                              size_t count) {
    uint32_t ways[MARKS_MAX];
    expr_vec behind = {0};
    for (size_t i = 0; i < count; i++) {
        behind.count = 0;
        for (uint32_t v = tree_first(&s->t, tags); v && !s->b->failed; v = tree_next(&s->t, v)) {
            struct bytes begin;
            if (text_of(s, v, "begin", &begin) && begin.len >= triggers[i].len &&
                !memcmp(begin.data, triggers[i].data, triggers[i].len))
                vec_push(&behind, tag_from(s, v, triggers[i].len));
        }
        uint32_t both[] = {text_until(s, triggers, count, (uint32_t)i),
                           expr_alt(s->b, behind.items, behind.count)};
        ways[i] = expr_concat(s->b, both, 2);
    }
    vec_release(&behind);
    return expr_alt(s->b, ways, count);
}

static uint32_t triggered(struct structure *s, uint32_t node, uint32_t tags) {
    struct bytes triggers[MARKS_MAX];
    size_t count;
    uint32_t list;
    if (!list_of(s, node, "triggers", &list) || !marks_of(s, list, triggers, MARKS_MAX, &count))
        return 0;
    if (!count)
        return fail(s, "list of triggers is empty", 0);
    uint32_t one = triggered_tag(s, tags, triggers, count);
    bool needs = flag_of(s, node, "at_least_one"), first = flag_of(s, node, "stop_after_first");
    if (first)
        return needs ? one : expr_alt(s->b, (uint32_t[]){one, free_text(s, triggers, count)}, 2);
    uint32_t all[] = {expr_repeat(s->b, one, needs, REPEAT_NO_END), free_text(s, triggers, count)};
    return expr_concat(s->b, all, 2);
}

static uint32_t node_triggered(struct structure *s, uint32_t node) {
    uint32_t tags;
    return list_of(s, node, "tags", &tags) ? triggered(s, node, tags) : 0;
}

static uint32_t node_structural(struct structure *s, uint32_t node) {
    uint32_t format = get(s, node, "format"), tags;
    if (format)
        return node_expr(s, format);
    return list_of(s, node, "structures", &tags) ? triggered(s, node, tags) : 0;
}

/* ---- all ---- */

static const struct {
    const char *type;
    uint32_t (*make)(struct structure *s, uint32_t node);
} NODE_TYPES[] = {
    {"const_string", node_const},
    {"choice", node_choice},
    {"token", node_token},
    {"json_schema", node_schema},
    {"arguments", node_arguments},
    {"regex", node_regex},
    {"grammar", node_grammar},
    {"any_text", node_any_text},
    {"until", node_until},
    {"sequence", node_sequence},
    {"or", node_or},
    {"optional", node_optional},
    {"plus", node_plus},
    {"star", node_star},
    {"tag", node_tag},
    {"triggered_tags", node_triggered},
    {"tags_with_separator", node_separated},
    {"structural_tag", node_structural},
};

static uint32_t node_expr(struct structure *s, uint32_t node) {
    uint32_t e = 0, type = 0;
    if (s->b->failed)
        return 0;
    if (tree_kind(&s->t, node) == TREE_OBJECT)
        type = get(s, node, "type");
    if (!type || tree_kind(&s->t, type) != TREE_STRING)
        return fail(s, "part is no object with a 'type'", 0);
    if (s->depth >= STRUCTURE_DEPTH || s->nodes >= NODES_MAX)
        return builder_fail(s->b, ERR_LIMIT, "the structure is nested too deeply or too large");
    s->depth++;
    s->nodes++;
    size_t i = 0;
    while (i < ARRAY_LEN(NODE_TYPES) && !tree_is(&s->t, type, NODE_TYPES[i].type))
        i++;
    if (i < ARRAY_LEN(NODE_TYPES))
        e = NODE_TYPES[i].make(s, node);
    else
        e = builder_fail(s->b, ERR_UNSUPPORTED, "a structure's part of type '%.*s'",
                         (int)MIN(tree_text(&s->t, type).len, (size_t)40),
                         (const char *)tree_text(&s->t, type).data);
    s->depth--;
    return e;
}

uint32_t structure_to_rule(struct builder *b, struct bytes text, bool ordered, struct error *err) {
    struct structure s = {.b = b, .ordered = ordered};
    uint32_t rule = FA_NONE, root;
    int rc =
        text.len > b->limits.bytes
            ? error_set(err, ERR_LIMIT, "the structure is larger than %u bytes", b->limits.bytes)
            : tree_read(&s.t, text, b->limits.depth + STRUCTURE_DEPTH, &root, err);
    if (!rc) {
        uint32_t e = node_expr(&s, root);
        rule = builder_rule(b);
        builder_set_rule(b, rule, e);
    }
    if (!rc && b->failed) {
        (void)error_set(err, b->error.code, "%s", b->error.text);
        rule = FA_NONE;
    }
    tree_release(&s.t);
    return rule;
}
