#include "text/guard.h"

#include "base/vec.h"
#include "text/template/value_data.h"
#include "text/unicode.h"

enum { GUARD_BYTES = 3 }; /* EF B7 90 to EF B7 AF */

static uint32_t used_in_text(struct bytes text) {
    uint32_t used = 0;
    if (!text.len) /* nor data, where it is no string */
        return 0;
    const uint8_t *p = text.data, *end = text.data + text.len;
    while (p < end && (p = memchr(p, 0xEF, (size_t)(end - p)))) {
        if (end - p >= GUARD_BYTES && p[1] == 0xB7 && p[2] >= 0x90 && p[2] <= 0xAF)
            used |= 1u << (p[2] - 0x90);
        p++;
    }
    return used;
}

uint32_t guards_used(struct tvalue v) {
    uint32_t used = used_in_text(tvalue_text(v));
    for (size_t i = 0; v.kind == TVALUE_LIST && i < tvalue_count(v); i++)
        used |= guards_used(tvalue_list_at(v, i));
    for (uint32_t i = 0; v.kind == TVALUE_DICT && i < v.dict->count; i++)
        used |= guards_used(v.dict->entries[i].key) | guards_used(v.dict->entries[i].value);
    return used;
}

static bool guard_string(struct arena *a, const struct tokenizer *t, unsigned guard,
                         struct tvalue *v) {
    const char mark[GUARD_BYTES] = {(char)0xEF, (char)0xB7, (char)(0x90 + guard)};
    struct bytes text = tvalue_text(*v);
    struct special_walk walk = {.text = text};
    size_t begin, end, done = 0;
    struct buf out = {0};
    while (tokenizer_next_special(t, &walk, &begin, &end)) {
        uint32_t cp;
        size_t first = begin + unicode_next(text.data + begin, &cp);
        buf_add(&out, text.data + done, first - done);
        buf_add(&out, mark, sizeof mark);
        done = first;
    }
    if (done) {
        buf_add(&out, text.data + done, text.len - done);
        *v = out.failed ? (struct tvalue){0} : tvalue_string_copy(a, buf_bytes(&out));
    }
    buf_release(&out);
    return v->kind == TVALUE_STRING;
}

bool guard_strings(struct arena *a, const struct tokenizer *t, unsigned guard, struct tvalue *v) {
    CHECK(a && t && v && guard < 32);
    bool good = true;
    if (v->kind == TVALUE_STRING)
        return guard_string(a, t, guard, v);
    for (uint32_t i = 0; v->kind == TVALUE_LIST && good && i < v->list->count; i++)
        good = guard_strings(a, t, guard, &v->list->items[i]);
    for (uint32_t i = 0; v->kind == TVALUE_DICT && good && i < v->dict->count; i++)
        good = guard_strings(a, t, guard, &v->dict->entries[i].value);
    return good;
}

bool guard_messages(struct arena *a, const struct tokenizer *t, unsigned guard,
                    struct tvalue messages) {
    CHECK(a && t && guard < 32);
    bool good = true;
    for (size_t i = 0; good && i < tvalue_count(messages); i++) {
        struct tvalue message = tvalue_list_at(messages, i);
        struct bytes role = tvalue_text(tvalue_dict_get(message, bytes_str("role")));
        if (!bytes_equal(role, bytes_str("assistant")))
            good = guard_strings(a, t, guard, &message);
    }
    return good;
}

void guards_take_out(struct buf *text, size_t from, unsigned guard, struct plain_spots *spots) {
    CHECK(text && spots && guard < 32 && from <= text->len);
    const uint8_t mark[GUARD_BYTES] = {0xEF, 0xB7, (uint8_t)(0x90 + guard)};
    uint8_t *begin = (uint8_t *)text->data + from, *end = (uint8_t *)text->data + text->len,
            *to = begin, *p = begin;
    while (p < end) {
        uint8_t *hit = memmem(p, (size_t)(end - p), mark, sizeof mark), *stop = hit ? hit : end;
        memmove(to, p, (size_t)(stop - p));
        to += stop - p;
        p = stop;
        if (!hit)
            break;
        uint32_t cp;
        if (to > begin)
            vec_push(spots, (size_t)(to - begin) - unicode_prev(to, &cp));
        p += sizeof mark;
    }
    text->len = from + (size_t)(to - begin);
    if (text->data)
        text->data[text->len] = 0;
}
