#include "grammar/names.h"

#include "base/hash.h"

int names_error(struct error *err, int code, const char *what, const uint8_t *start,
                const uint8_t *at) {
    size_t line = 1;
    for (const uint8_t *p = start; p < at; p++)
        line += *p == '\n';
    return error_set(err, code, "%s in line %zu of the grammar", what, line);
}

static void grow(struct names *n) {
    size_t count = n->slot_count ? n->slot_count * 2 : 64;
    mem_free(n->slots);
    n->slots = mem_calloc(count, sizeof *n->slots);
    n->slot_count = count;
    for (uint32_t i = 0; i < n->items.count; i++) {
        struct bytes text = n->items.items[i].text;
        size_t at = hash64_secret(text.data, text.len) & (count - 1);
        while (n->slots[at])
            at = (at + 1) & (count - 1);
        n->slots[at] = i + 1;
    }
}

struct name *names_get(struct names *n, struct builder *b, struct bytes text) {
    if (n->items.count * 2 >= n->slot_count)
        grow(n);
    size_t at = hash64_secret(text.data, text.len) & (n->slot_count - 1);
    for (; n->slots[at]; at = (at + 1) & (n->slot_count - 1))
        if (bytes_equal(n->items.items[n->slots[at] - 1].text, text))
            return &n->items.items[n->slots[at] - 1];
    vec_push(&n->items, ((struct name){text, builder_rule(b), false}));
    n->slots[at] = (uint32_t)n->items.count;
    return &n->items.items[n->items.count - 1];
}

int names_root(const struct names *n, const char *root, uint32_t *rule, struct error *err) {
    *rule = FA_NONE;
    for (size_t i = 0; i < n->items.count; i++) {
        const struct name *name = &n->items.items[i];
        if (!name->defined)
            return error_set(err, ERR_INVALID, "the grammar has no rule '%.*s'",
                             (int)MIN(name->text.len, (size_t)100), (const char *)name->text.data);
        if (bytes_equal(name->text, bytes_str(root)))
            *rule = name->rule;
    }
    return *rule == FA_NONE ? error_set(err, ERR_INVALID, "the grammar has no rule '%s'", root) : 0;
}

void names_release(struct names *n) {
    vec_release(&n->items);
    mem_free(n->slots);
    *n = (struct names){0};
}
