/*
 * schema_drafts.c - the schemas of schemas: what "http://json-schema.org/draft-07/schema" and its kin accept.
 *
 * A document may refer to them, and no other document is fetched, so they are written here as a table: for each
 * keyword the drafts that have it and the form of its value. Their definitions have the names that the drafts
 * give them, since references may lead there.
 *
 * Source: JSON Schema Core and Validation of draft 4, 6, 7, 2019-09 and 2020-12.
 */
#include "grammar/schema_internal.h"

enum {
    D4 = 1,
    D6 = 2,
    D7 = 4,
    D19 = 8,
    D20 = 16,
    FROM_D6 = D6 | D7 | D19 | D20,
    FROM_D7 = D7 | D19 | D20,
    LATE = D19 | D20,
    EARLY = D4 | D6 | D7,
    ALL = D4 | FROM_D6
};

#define DEFINED(name)     "{\"$ref\":\"#/" name "\"}"
#define TEXT              "{\"type\":\"string\"}"
#define FORMATTED(format) "{\"type\":\"string\",\"format\":\"" format "\"}"
#define MATCHED(pattern)  "{\"type\":\"string\",\"pattern\":\"" pattern "\"}"
#define BOOLEAN           "{\"type\":\"boolean\"}"
#define NUMBER            "{\"type\":\"number\"}"
#define EITHER(a, b)      "{\"anyOf\":[" a "," b "]}"
#define MAP(value)        "{\"type\":\"object\",\"additionalProperties\":" value "}"
#define MAP_NAMED(format, value)                                                                   \
    "{\"type\":\"object\",\"additionalProperties\":" value                                         \
    ",\"propertyNames\":{\"format\":\"" format "\"}}"

/* "@" is a schema, "%" the place of the definitions. */
#define SCHEMA  "@"
#define SCHEMAS DEFINED("%/schemaArray")
#define NAMES   DEFINED("%/stringArray")
#define COUNT   DEFINED("%/nonNegativeInteger")
#define COUNT_4 DEFINED("%/positiveInteger")

struct row {
    uint32_t drafts;
    const char *name, *form;
};

static const struct row DEFINITIONS[] = {
    {ALL, "schemaArray", "{\"type\":\"array\",\"minItems\":1,\"items\":" SCHEMA "}"},
    {D4, "positiveInteger", "{\"type\":\"integer\",\"minimum\":0}"},
    {D4, "positiveIntegerDefault0", COUNT_4},
    {FROM_D6, "nonNegativeInteger", "{\"type\":\"integer\",\"minimum\":0}"},
    {FROM_D6, "nonNegativeIntegerDefault0", COUNT},
    {ALL, "simpleTypes",
     "{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\",\"string\"]}"},
    {D4, "stringArray",
     "{\"type\":\"array\",\"minItems\":1,\"items\":" TEXT ",\"uniqueItems\":true}"},
    {FROM_D6, "stringArray", "{\"type\":\"array\",\"items\":" TEXT ",\"uniqueItems\":true}"},
};

static const struct row KEYWORDS[] = {
    {D4, "id", TEXT},
    {D6 | D7, "$id", FORMATTED("uri-reference")},
    {LATE, "$id", "{\"type\":\"string\",\"format\":\"uri-reference\",\"pattern\":\"^[^#]*#?$\"}"},
    {D4, "$schema", TEXT},
    {FROM_D6, "$schema", FORMATTED("uri")},
    {FROM_D6, "$ref", FORMATTED("uri-reference")},
    {D19, "$anchor", MATCHED("^[A-Za-z][-A-Za-z0-9.:_]*$")},
    {D20, "$anchor", MATCHED("^[A-Za-z_][-A-Za-z0-9._]*$")},
    {D20, "$dynamicRef", FORMATTED("uri-reference")},
    {D20, "$dynamicAnchor", MATCHED("^[A-Za-z_][-A-Za-z0-9._]*$")},
    {LATE, "$recursiveRef", FORMATTED("uri-reference")},
    {D19, "$recursiveAnchor", BOOLEAN},
    {D20, "$recursiveAnchor", MATCHED("^[A-Za-z_][-A-Za-z0-9._]*$")},
    {LATE, "$vocabulary", MAP_NAMED("uri", BOOLEAN)},
    {FROM_D7, "$comment", TEXT},
    {LATE, "$defs", MAP(SCHEMA)},
    {ALL, "definitions", MAP(SCHEMA)},
    {ALL, "title", TEXT},
    {ALL, "description", TEXT},
    {ALL, "default", "{}"},
    {LATE, "deprecated", BOOLEAN},
    {FROM_D7, "readOnly", BOOLEAN},
    {FROM_D7, "writeOnly", BOOLEAN},
    {FROM_D6, "examples", "{\"type\":\"array\"}"},
    {ALL, "multipleOf", "{\"type\":\"number\",\"exclusiveMinimum\":0}"},
    {ALL, "maximum", NUMBER},
    {D4, "exclusiveMaximum", BOOLEAN},
    {FROM_D6, "exclusiveMaximum", NUMBER},
    {ALL, "minimum", NUMBER},
    {D4, "exclusiveMinimum", BOOLEAN},
    {FROM_D6, "exclusiveMinimum", NUMBER},
    {D4, "maxLength", COUNT_4},
    {FROM_D6, "maxLength", COUNT},
    {D4, "minLength", COUNT_4},
    {FROM_D6, "minLength", COUNT},
    {ALL, "pattern", FORMATTED("regex")},
    {EARLY | D19, "items", EITHER(SCHEMA, SCHEMAS)},
    {D20, "items", SCHEMA},
    {D20, "prefixItems", SCHEMAS},
    {D4, "additionalItems", EITHER(BOOLEAN, SCHEMA)},
    {D6 | D7 | D19, "additionalItems", SCHEMA},
    {LATE, "unevaluatedItems", SCHEMA},
    {D4, "maxItems", COUNT_4},
    {FROM_D6, "maxItems", COUNT},
    {D4, "minItems", COUNT_4},
    {FROM_D6, "minItems", COUNT},
    {ALL, "uniqueItems", BOOLEAN},
    {FROM_D6, "contains", SCHEMA},
    {LATE, "maxContains", COUNT},
    {LATE, "minContains", COUNT},
    {D4, "maxProperties", COUNT_4},
    {FROM_D6, "maxProperties", COUNT},
    {D4, "minProperties", COUNT_4},
    {FROM_D6, "minProperties", COUNT},
    {ALL, "required", NAMES},
    {D4, "additionalProperties", EITHER(BOOLEAN, SCHEMA)},
    {FROM_D6, "additionalProperties", SCHEMA},
    {ALL, "properties", MAP(SCHEMA)},
    {D4 | D6, "patternProperties", MAP(SCHEMA)},
    {FROM_D7, "patternProperties", MAP_NAMED("regex", SCHEMA)},
    {FROM_D6, "propertyNames", SCHEMA},
    {LATE, "unevaluatedProperties", SCHEMA},
    {ALL, "dependencies", MAP(EITHER(SCHEMA, NAMES))},
    {LATE, "dependentRequired", MAP(NAMES)},
    {LATE, "dependentSchemas", MAP(SCHEMA)},
    {FROM_D6, "const", "{}"},
    {D4, "enum", "{\"type\":\"array\",\"minItems\":1,\"uniqueItems\":true}"},
    {FROM_D6, "enum", "{\"type\":\"array\"}"},
    {ALL, "type",
     EITHER(DEFINED("%/simpleTypes"), "{\"type\":\"array\",\"minItems\":1,\"uniqueItems\":true,"
                                      "\"items\":" DEFINED("%/simpleTypes") "}")},
    {ALL, "format", TEXT},
    {FROM_D7, "contentMediaType", TEXT},
    {FROM_D7, "contentEncoding", TEXT},
    {LATE, "contentSchema", SCHEMA},
    {FROM_D7, "if", SCHEMA},
    {FROM_D7, "then", SCHEMA},
    {FROM_D7, "else", SCHEMA},
    {ALL, "allOf", SCHEMAS},
    {ALL, "anyOf", SCHEMAS},
    {ALL, "oneOf", SCHEMAS},
    {ALL, "not", SCHEMA},
};

/* The table's form as JSON. */
static void add_form(struct buf *out, uint32_t draft, const char *form) {
    for (; *form; form++)
        if (*form == '@')
            buf_add_str(out, draft == D20 ? "{\"$dynamicRef\":\"#meta\"}" : "{\"$ref\":\"#\"}");
        else if (*form == '%')
            buf_add_str(out, draft & LATE ? "$defs" : "definitions");
        else
            buf_add_byte(out, *form);
}

static void add_rows(struct buf *out, uint32_t draft, const struct row *rows, size_t count) {
    const char *between = "{";
    for (size_t i = 0; i < count; i++)
        if (rows[i].drafts & draft) {
            buf_addf(out, "%s\"%s\":", between, rows[i].name);
            add_form(out, draft, rows[i].form);
            between = ",";
        }
    buf_add_byte(out, '}');
}

bool schema_draft(struct bytes address, struct buf *out, bool *dynamic) {
    static const struct {
        const char *path;
        uint32_t draft;
    } DRAFTS[] = {{"draft-04", D4},
                  {"draft-06", D6},
                  {"draft-07", D7},
                  {"draft/2019-09", D19},
                  {"draft/2020-12", D20}};
    static const char *const SCHEMES[] = {"http", "https"};
    for (size_t i = 0; i < ARRAY_LEN(DRAFTS) * ARRAY_LEN(SCHEMES); i++) {
        uint32_t draft = DRAFTS[i / 2].draft;
        buf_reset(out);
        buf_addf(out, "%s://json-schema.org/%s/schema", SCHEMES[i % 2], DRAFTS[i / 2].path);
        if (!bytes_equal(address, buf_bytes(out)))
            continue;
        buf_reset(out);
        *dynamic = draft == D20;
        buf_addf(out, "{%s",
                 draft == D4 ? "\"type\":\"object\",\"dependencies\":{"
                               "\"exclusiveMaximum\":[\"maximum\"],"
                               "\"exclusiveMinimum\":[\"minimum\"]},"
                             : "\"type\":[\"object\",\"boolean\"],");
        buf_addf(out, "\"%s\":", draft & LATE ? "$defs" : "definitions");
        add_rows(out, draft, DEFINITIONS, ARRAY_LEN(DEFINITIONS));
        buf_add_str(out, ",\"properties\":");
        add_rows(out, draft, KEYWORDS, ARRAY_LEN(KEYWORDS));
        buf_add_byte(out, '}');
        return true;
    }
    return false;
}
