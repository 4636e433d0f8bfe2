#include "grammar/grammar.h"

#include "base/utf8.h"
#include "grammar/gbnf.h"
#include "grammar/lark.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/structure.h"

static uint32_t regex_rule(struct builder *b, struct bytes text, struct error *err) {
    if (text.len > b->limits.bytes) {
        (void)error_set(err, ERR_LIMIT, "the pattern is larger than %u bytes", b->limits.bytes);
        return FA_NONE;
    }
    uint32_t e = regex_to_expr(b, text, err);
    if (e == FA_NONE)
        return FA_NONE;
    uint32_t rule = builder_rule(b);
    builder_set_rule(b, rule, e);
    return rule;
}

int grammar_compile(const struct grammar_source *source, const struct grammar_limits *limits,
                    struct program *out, struct error *err) {
    struct grammar_limits standard = grammar_limits_default();
    struct builder b;
    struct bytes text = source->text.len ? source->text : bytes_str(""); /* never null */
    uint32_t rule = FA_NONE;
    *out = (struct program){0};
    if (!utf8_valid(text.data, text.len))
        return error_set(err, ERR_INVALID, "the grammar is not UTF-8");
    builder_init(&b, limits ? limits : &standard);
    b.loose_space = !source->compact;
    b.plain = source->plain;
    b.may_refuse_all = source->may_refuse_all && source->kind == GRAMMAR_JSON_SCHEMA;
    switch (source->kind) {
    case GRAMMAR_JSON_SCHEMA: rule = schema_to_rule(&b, text, source->ordered, err); break;
    case GRAMMAR_REGEX: rule = regex_rule(&b, text, err); break;
    case GRAMMAR_GBNF: rule = gbnf_to_rule(&b, text, err); break;
    case GRAMMAR_LARK: rule = lark_to_rule(&b, text, source->ordered, err); break;
    case GRAMMAR_STRUCTURE: rule = structure_to_rule(&b, text, source->ordered, err); break;
    }
    int rc = rule == FA_NONE ? err->code : program_compile(&b, rule, out, err);
    builder_release(&b);
    if (!rc && !source->looked_ahead && !matcher_can_begin(out)) {
        program_release(out);
        rc = error_set(err, ERR_LIMIT,
                       "more than %d alternatives (\"anyOf\" and the like) would be open at once",
                       MATCH_THREADS_MAX);
    }
    return rc;
}
