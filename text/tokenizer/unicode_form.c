#include "text/tokenizer/unicode_form.h"

#include <stdlib.h>

enum { CODES_MAX = 32 }; /* more than any character is decomposed into (18, by its compatibility) */

static uint64_t class_of(utf8proc_int32_t cp) {
    return utf8proc_get_property(cp)->combining_class;
}

/* Decomposes s into `codes`; NULL: only counts. Negative: s is no UTF-8. */
static utf8proc_ssize_t decompose(struct bytes s, utf8proc_option_t options,
                                  utf8proc_int32_t *codes) {
    utf8proc_ssize_t count = 0, len;
    for (size_t at = 0; at < s.len; at += (size_t)len) {
        utf8proc_int32_t cp, become[CODES_MAX];
        int boundary = 0;
        len = utf8proc_iterate(s.data + at, (utf8proc_ssize_t)(s.len - at), &cp);
        if (len < 1)
            return -1;
        utf8proc_ssize_t n = utf8proc_decompose_char(cp, become, CODES_MAX, options, &boundary);
        if (n < 0 || n > CODES_MAX)
            return -1;
        if (codes)
            memcpy(codes + count, become, (size_t)n * sizeof *become);
        count += n;
    }
    return count;
}

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Marks that follow each other into the order of their classes; those of one class stay in theirs.
 * False: out of memory. */
static bool order_marks(utf8proc_int32_t *marks, size_t count) {
    size_t ordered = 1;
    while (ordered < count && class_of(marks[ordered - 1]) <= class_of(marks[ordered]))
        ordered++;
    if (ordered >= count)
        return true;
    uint64_t *keys = mem_try_alloc(count * sizeof *keys); /* class, place, character */
    if (!keys)
        return false;
    for (size_t i = 0; i < count; i++)
        keys[i] = class_of(marks[i]) << 56 | (uint64_t)i << 21 | (uint64_t)marks[i];
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++)
        marks[i] = (utf8proc_int32_t)(keys[i] & 0x1FFFFF);
    mem_free(keys);
    return true;
}

static bool order(utf8proc_int32_t *codes, size_t count) {
    size_t from = 0; /* the first mark behind the last starter */
    for (size_t i = 0; i <= count; i++) {
        if (i < count && class_of(codes[i]))
            continue;
        if (!order_marks(codes + from, i - from))
            return false;
        from = i + 1;
    }
    return true;
}

bool unicode_form(struct bytes s, utf8proc_option_t options, struct buf *out) {
    options |= UTF8PROC_STABLE;
    utf8proc_ssize_t count = decompose(s, options, NULL);
    if (count < 0)
        return false;
    /* utf8proc_reencode writes UTF-8 over the codes, and a zero behind it */
    utf8proc_int32_t *codes = mem_try_alloc(((size_t)count + 1) * sizeof *codes);
    if (!codes)
        return false;
    (void)decompose(s, options, codes);
    utf8proc_ssize_t len =
        order(codes, (size_t)count) ? utf8proc_reencode(codes, count, options) : -1;
    if (len >= 0)
        buf_add(out, codes, (size_t)len);
    mem_free(codes);
    return len >= 0 && !out->failed;
}
