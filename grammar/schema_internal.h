/*
 * schema_internal.h - a conjunction of schemas and how it becomes a rule. For the schema*.c files.
 *
 * A value must satisfy every schema of a conjunction. Applicators are worked off one after the
 * other: references and allOf add schemas, alternatives (anyOf, and all that is rewritten into it)
 * make one conjunction for each branch. What is left are the keywords of types (leaf).
 *
 * A conjunction is named by its members, so recursion comes back to the same rule.
 */
#ifndef GRAMMAR_SCHEMA_INTERNAL_H
#define GRAMMAR_SCHEMA_INTERNAL_H

#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/tree.h"

enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};

/* Applicators of a member that are worked off already. */
enum {
    DONE_REF = 1,
    DONE_ALL = 2,
    DONE_ANY = 4,
    DONE_ONE = 8,
    DONE_IF = 16,
    DONE_NOT = 32,
    DONE_DEPENDENT = 64,
    DONE_PAIR = 128 /* two branches of its oneOf are tried side by side */
};

/* Keywords of ours, which rewritten schemas have: no JSON spells them, since they are no UTF-8. */
#define KEY_NOT_ENUM                                                                               \
    "\xff"                                                                                         \
    "not-enum"
#define KEY_NOT_PATTERN                                                                            \
    "\xff"                                                                                         \
    "not-pattern"

#define KEY_NOT_FORMAT                                                                             \
    "\xff"                                                                                         \
    "not-format"

#define KEY_NOT_MULTIPLE                                                                           \
    "\xff"                                                                                         \
    "not-multiple"

/* Beside "contains": items in front of this place do not count. */
#define KEY_FROM                                                                                   \
    "\xff"                                                                                         \
    "from"

/* Of an object: a member must be there of which this holds. With "match" its key matches the pattern
 * and its value the pattern's schema. With "keys" that schema refuses its key. Else its key is none of
 * "properties", matches none of "patternProperties", and its value satisfies "value". */
#define KEY_SOME                                                                                   \
    "\xff"                                                                                         \
    "some"

/* A type of ours: numbers that are no integers. */
#define NAME_FRACTION                                                                              \
    "\xff"                                                                                         \
    "fraction"

/* In an object that schema_negate made: what it names counts as evaluated by nobody. */
#define KEY_SILENT                                                                                 \
    "\xff"                                                                                         \
    "silent"

struct member {
    uint32_t node; /* in the tree */
    uint32_t done;
};
typedef VEC(struct member) conjunction;

struct schema_memo {
    uint32_t first, count; /* in schema.memo_members */
    uint32_t rule;
    uint32_t next; /* 1 + the next memo of the same bucket, or 0 */
    bool never;    /* known to accept nothing */
};

/* Values of an enum, found by hash. */
struct value_list {
    uint32_t node; /* the list, in the tree */
    uint32_t next; /* 1 + the next of the same bucket, or 0 */
    uint64_t seed;
    uint32_t *slots; /* [cap, a power of two]: a value of the list, or 0 */
    size_t cap;
};
/* What a schema asks of strings or numbers, or the pattern that leads to it of keys, once made. */
enum text_test_kind { TEST_STRING, TEST_NUMBER, TEST_KEY };
struct text_test {
    uint32_t node, expr;
    uint32_t next; /* as above */
    enum text_test_kind kind;
};

/* Which drafts a document says it follows. */
enum dialect {
    DIALECT_NONE,        /* it says nothing that is known: 2020-12 */
    DIALECT_ID,          /* 4 and before, where "id" is what "$id" is later */
    DIALECT_DEFINITIONS, /* 6 and 7 */
    DIALECT_2019,        /* 2019-09, where "contains" does not evaluate its items */
    DIALECT_NEW,         /* 2020-12 */
    DIALECT_OTHER,       /* one of its own, with vocabularies that are not known */
};

/* A schema with an address of its own; number 0 is the document. */
struct schema_resource {
    uint32_t node;
    struct buf address; /* absolute where the document's is; without fragment */
};
/* A schema with a name within a resource. */
struct schema_anchor {
    uint32_t resource, node;
    struct bytes name;
    bool dynamic;
};

/* A copy of a schema (schema_copies.c). */
struct schema_copy {
    uint32_t node;  /* the schema */
    uint32_t scope; /* what its "$dynamicRef" mean; 0: what they mean anywhere */
    bool silent;    /* what it names counts as evaluated by nobody */
    uint32_t copy;
    uint32_t next; /* 1 + the next of the same bucket, or 0 */
};
/* A reference within a copy. */
struct schema_turn {
    uint32_t ref; /* the one that it comes from */
    uint32_t scope;
    uint32_t target; /* 0: not asked for yet */
    bool silent, dynamic;
};
struct schema_copies {
    VEC(struct bytes) names; /* of dynamic anchors that depend on the way */
    VEC(uint32_t) scopes;    /* [scope - 1][name]: the schema that is meant, or 0 */
    VEC(struct schema_copy) known;
    VEC(struct schema_turn) turns;
    uint32_t buckets[256]; /* 1 + one of `known`, or 0 */
    uint32_t steps;        /* what all copies cost */
};

struct schema {
    struct builder *b;
    struct tree t;
    uint32_t root;
    /* the member whose unevaluatedProperties or -Items hold for the conjunction that is expanded, all
     * others of which apply by it; 0: none */
    uint32_t unevaluated;
    bool has_unevaluated; /* the document has such a keyword */
    bool ordered, closed;
    bool ref_alone; /* drafts up to 7: what stands beside $ref does not count */
    enum dialect dialect;
    bool
        exact; /* by the letter; else what is generated is to be safe to read (grammar.h's plain) */
    bool annotates; /* "format" and "content..." say nothing about the value */
    VEC(struct schema_resource) resources;
    VEC(struct schema_anchor) anchors;
    struct schema_copies copies;
    VEC(uint32_t) bases;       /* by node of the document: 1 + its resource; 0: not known */
    VEC(bool) checked;         /* by node: schema_check found nothing */
    VEC(uint32_t) negations;   /* by node: what schema_negate made of it; FA_NONE: not yet */
    VEC(uint32_t) plain_nodes; /* by node: what schema_without_unevaluated made of it, or 0 */
    uint32_t stuck; /* the first keyword that schema_negate could not turn around, or 0 */
    VEC(struct schema_memo) memos;
    VEC(struct member) memo_members;
    uint32_t buckets[1024]; /* 1 + a memo, by the first member */
    uint32_t depth;
    uint64_t cases; /* conjunctions that were expanded, by their sizes */
    VEC(struct value_list) lists;
    VEC(struct text_test) tests;
    uint32_t list_buckets[256], test_buckets[256]; /* 1 + an item, by the node */
    uint64_t checks;                               /* steps spent on values of enums */
    /* of arguments (schema_arguments.c): members that mark conjunctions, {"type": ...} each */
    const struct arguments_form *form; /* NULL: JSON */
    uint32_t top, bare, loose, other, of_type[5];
    uint32_t bare_any[2]; /* any bare string, any loose one; 0: not made yet */
    uint32_t any_rule;    /* 1 + the rule of any value, or 0 */
};

/* Records the first error; returns EXPR_NEVER's number. */
uint32_t schema_fail(struct schema *s, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The same about a keyword (its node), which is named with its place in the document. what: of the
 * sentence, behind the keyword; stuck: the keyword that cannot be turned around is named, too. */
uint32_t schema_refuse(struct schema *s, uint32_t keyword, const char *what, bool stuck);
/* The expression of values that satisfy all members. Takes what c owns. */
uint32_t schema_all(struct schema *s, conjunction *c);
/* Adds a schema to a conjunction, unless it is there. */
void conjunction_add(conjunction *c, uint32_t node, uint32_t done);
/* The expression of values that satisfy the schema at this node alone. */
uint32_t schema_one(struct schema *s, uint32_t node);
/* Which drafts the document with this root says it follows. */
enum dialect schema_dialect(const struct tree *t, uint32_t root);
/* Notes what the document's schemas call themselves; what is noted is freed by the other. */
void schema_refs_init(struct schema *s);
void schema_refs_release(struct schema *s);
/* The node that a "$ref" means, or 0 with an error. */
uint32_t schema_target(struct schema *s, uint32_t ref);
/* The node that a "$dynamicRef" means, or 0 with an error. */
uint32_t schema_dynamic_target(struct schema *s, uint32_t ref);
/* What stands behind a keyword. */
enum holds { HOLDS_NONE, HOLDS_SCHEMA, HOLDS_MANY };
enum holds schema_keyword_holds(struct bytes keyword);
/* The schema of schemas at this address, as JSON; false: it is none that is known. *dynamic: its references to
 * itself go to the dynamic anchor "meta", which is the whole. */
bool schema_draft(struct bytes address, struct buf *out, bool *dynamic);
/* The resource that begins at this node, or FA_NONE; and the one in which a node lies, whose address is
 * the base there: the document's own where none is known. */
uint32_t schema_resource_at(const struct schema *s, uint32_t node);
uint32_t schema_resource_of(const struct schema *s, uint32_t node);
/* The schema with this dynamic anchor in a resource, or 0. */
uint32_t schema_anchor_of(const struct schema *s, uint32_t resource, struct bytes name);
/* The dynamic anchor to which a "$dynamicRef" leads by itself; NULL: to none. */
const struct schema_anchor *schema_dynamic_anchor(struct schema *s, uint32_t ref);

/* Copies the document where a "$dynamicRef" depends on the way; returns the schema to begin with. What is
 * kept is freed by the other. */
uint32_t schema_copies_init(struct schema *s);
void schema_copies_release(struct schema *s);
/* Whether this is a reference of a copy; and its target, or 0 with an error. */
bool schema_is_copied(const struct schema *s, uint32_t ref);
uint32_t schema_copied_target(struct schema *s, uint32_t ref);
/* A schema that accepts the same and evaluates nothing, where the document asks for that. */
uint32_t schema_silent(struct schema *s, uint32_t node);
/* What a schema asks of the items that satisfy another. */
struct contained {
    uint32_t schema;   /* of "contains"; 0: nothing is asked */
    uint32_t min, max; /* how many; max UINT32_MAX: any number */
    uint32_t from;     /* the first place that counts */
};
struct contained schema_contained(const struct tree *t, uint32_t node);
/* TYPE_* bits of what a "type" keyword says (node: a name, or a list of them). */
uint32_t schema_types(struct schema *s, uint32_t node);

/* A list of values to which those of the conjunction belong. */
struct listed {
    bool known;
    bool alone; /* "const": no other value behind the first */
    uint32_t first, count;
};
/* The shortest list of a member; deep: or of what some of them refer to, or all of which holds. */
struct listed schema_find_listed(struct schema *s, const conjunction *c, bool deep);
/* Two branches of a oneOf are tried side by side: there it does not hold whole. */
bool schema_is_pair(const conjunction *c);
/* Members hold whole before a listed value, whatever of them was worked off (but for pairs, of which all
 * was). */
uint32_t schema_listed_leaf(struct schema *s, const conjunction *c, struct listed list);
/* The values that alone satisfy the members, where these list them; false: they do not. */
MUST_CHECK bool schema_listed(struct schema *s, const conjunction *c, uint32_t *out, size_t most,
                              size_t *count);
/* Finds the member that says what becomes of the unevaluated; it sees what applies by it, so all
 * others must. alone: the conjunction began as one schema. False: that cannot be told. */
MUST_CHECK bool schema_find_unevaluated(struct schema *s, const conjunction *c, bool alone);
/* The same schema without unevaluated..., where nothing else applies in its place; else the schema
 * itself. */
uint32_t schema_without_unevaluated(struct schema *s, uint32_t node);
/* Leaves: the expression of values of one type that satisfy the members' keywords. Of numbers;
 * types: TYPE_INTEGER, TYPE_FRACTION or both. */
uint32_t leaf_number(struct schema *s, const conjunction *c, uint32_t types);
/* Of strings, with their quotes. */
uint32_t leaf_string(struct schema *s, const conjunction *c);
/* An array's schemas by place, and the schema of all items behind them, of any draft; 0: none. */
void schema_items(struct schema *s, uint32_t node, uint32_t *prefix, uint32_t *rest);
/* Of arrays. */
uint32_t leaf_array(struct schema *s, const conjunction *c);
/* Of objects. */
uint32_t leaf_object(struct schema *s, const conjunction *c);
/* The strings that satisfy the members, as an automaton; *any: all strings (then no dfa). */
MUST_CHECK bool string_dfa(struct schema *s, const conjunction *c, struct dfa *out, bool *any);
/* The strings that a schema accepts, its applicators included; false: an error. */
MUST_CHECK bool schema_names(struct schema *s, uint32_t node, uint32_t depth, struct dfa *out);
/* One of the values of a list, as they may be written in c's place (those of an enum that
 * passed). */
uint32_t schema_enum(struct schema *s, const conjunction *c, const uint32_t *values, size_t count);

/* Makes the members that mark conjunctions. Borrows form. */
void schema_arguments_init(struct schema *s, const struct arguments_form *form);
/* The conjunction is of all arguments together. */
bool schema_is_top(const struct schema *s, const conjunction *c);
/* The conjunction is of an object that is written as elements; the expression of them. */
bool schema_is_arguments(const struct schema *s, const conjunction *c);
uint32_t schema_arguments(struct schema *s, const conjunction *c);
/* The conjunction is of strings that stand bare; the expression of those in d, which is taken; d
 * NULL: of all. */
bool schema_is_bare(const struct schema *s, const conjunction *c);
uint32_t schema_bare_text(struct schema *s, const conjunction *c, struct dfa *d);
/* A JSON string with its quotes, of those in d, which is taken (NULL: of all); within arguments
 * none that holds what ends a value. */
uint32_t schema_quoted(struct schema *s, struct dfa *d);
/* Takes from d the texts that hold what ends a value within arguments; false: an error. */
bool schema_keep_apart(struct schema *s, struct dfa *d);
/* Any value. */
uint32_t schema_any(struct schema *s);

/* Whether this is a keyword that may refuse a value; all others say nothing about it. */
bool schema_asks(struct bytes keyword);
/* Whether the keywords of a schema (an object) have values that are ones for them; else one is refused. */
bool schema_check(struct schema *s, uint32_t node);
/* Whether a "format" (this node) is one that binds strings. */
bool schema_format_known(struct schema *s, uint32_t format);
/* A schema that accepts exactly what this one refuses, or 0 (no error is recorded). */
uint32_t schema_negate(struct schema *s, uint32_t node, uint32_t depth);
/* Whether a value satisfies a schema; own: all of it but for what applies in its place (allOf, $ref,
 * ...), which was worked off. False with an error recorded where that is not known. */
bool schema_accepts(struct schema *s, uint32_t node, uint32_t value, bool own);

/* Counts one value against one schema; false, with an error recorded: they were too many. */
bool schema_may_check(struct schema *s, uint32_t node, uint32_t value);
/* Whether a list of values has one that equals this. */
bool schema_in_list(struct schema *s, uint32_t list, uint32_t value);
/* Whether a key matches the pattern of "patternProperties" whose schema is at this node. */
bool schema_key_matches(struct schema *s, uint32_t node, struct bytes key);
/* Whether a string or number satisfies the schema's keywords of its type. */
bool schema_text_accepted(struct schema *s, uint32_t node, uint32_t value);
/* Appends the number without exponent, without needless zeros; false, with nothing appended: it has
 * too many digits. */
bool schema_number_plainly(struct bytes text, struct buf *out);
/* The number of this text. With `plain` (grammar.h) as it is written there; else all that equals it:
 * zeros behind its fraction, and with `exponents` those near 0 or near that of its first digit (0
 * has any). */
uint32_t schema_number_expr(struct schema *s, struct bytes text, bool exponents);
/* Frees what the three keep. */
void schema_values_release(struct schema *s);

#endif
