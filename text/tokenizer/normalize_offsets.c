/*
 * normalize_offsets.c - what each byte of a normalized text stands for, by the rules of HF's
 * normalizers.
 */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/spm_normalize.h"
#include "text/unicode.h"

static void add(struct offset_changes *to, size_t len, int32_t more) {
    vec_push(&to->list, ((struct offset_change){(uint32_t)len, more}));
}

/* ---- character by character ---- */

/* What each character becomes by itself; one that becomes nothing goes to the one before it.
 * Returns the bytes that are gone in front of all. */
static size_t change_characters(const struct normalizer_step *step, struct bytes s,
                                struct regex_run *run, struct offset_changes *to) {
    struct buf new = {0};
    size_t gone = 0;
    uint32_t cp;
    for (size_t at = 0, n; at < s.len; at += n) {
        n = unicode_next(s.data + at, &cp);
        buf_reset(&new);
        bool ok =
            normalizer_apply_step(step, bytes_of(s.data + at, n), run, &new, NULL) && !new.failed;
        if (ok && !new.len && to->list.count)
            to->list.items[to->list.count - 1].more--;
        if (ok && !new.len && !to->list.count)
            gone += n;
        for (size_t i = 0, k; i < new.len; i += k) {
            k = unicode_next((const uint8_t *)new.data + i, &cp);
            add(to, k, i > 0);
        }
    }
    buf_release(&new);
    return gone;
}

static void change_prepend(const struct normalizer_step *step, struct bytes s,
                           struct offset_changes *to) {
    uint32_t cp;
    const uint8_t *content = (const uint8_t *)step->content;
    for (size_t i = 0, n; i < step->content_len; i += n)
        add(to, n = unicode_next(content + i, &cp), i > 0);
    for (size_t at = 0, n; at < s.len; at += n)
        add(to, n = unicode_next(s.data + at, &cp), at == 0 && to->list.count);
}

static size_t count_characters(struct bytes s) {
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++)
        count += (s.data[i] & 0xC0) != 0x80;
    return count;
}

static void change_charsmap(const struct charsmap *m, struct bytes s, struct offset_changes *to) {
    struct charsmap_walk walk = {.text = s};
    struct bytes chunk, becomes;
    uint32_t cp;
    while (charsmap_next(m, &walk, &chunk, &becomes)) {
        size_t old = count_characters(chunk), new = 0;
        for (size_t i = 0, n; i < becomes.len; i += n) {
            n = unicode_next(becomes.data + i, &cp);
            add(to, n, new ++ >= old);
        }
        if (new < old && to->list.count)
            to->list.items[to->list.count - 1].more -= (int32_t)(old - new);
    }
}

/* ---- Unicode's forms ---- */

struct mark {
    uint32_t cp;
    int32_t more;
    uint32_t order; /* class << 24 | place, for sorting */
};
struct marks {
    VEC(struct mark) list;
};

static uint8_t class_of(uint32_t cp) {
    if (normalizer_is_young_mark(cp))
        return 0;
    return (uint8_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

static int compare_marks(const void *a, const void *b) {
    uint32_t left = ((const struct mark *)a)->order, right = ((const struct mark *)b)->order;
    return (left > right) - (left < right);
}

/* Marks [from, count) into the order of their classes. */
static void sort_marks(struct marks *m, size_t from) {
    size_t count = m->list.count - from;
    for (size_t i = 0; i < count; i++)
        m->list.items[from + i].order =
            (uint32_t)class_of(m->list.items[from + i].cp) << 24 | (uint32_t)i;
    if (count > 1)
        qsort(m->list.items + from, count, sizeof *m->list.items, compare_marks);
}

static void decompose(struct bytes s, bool compat, struct marks *out) {
    utf8proc_int32_t chunks[32];
    size_t starter = 0; /* where the marks behind the last starter begin */
    uint32_t cp;
    int boundclass = 0;
    for (size_t at = 0; at < s.len;) {
        at += unicode_next(s.data + at, &cp);
        utf8proc_option_t options = UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0);
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, chunks,
                                                     ARRAY_LEN(chunks), options, &boundclass);
        for (utf8proc_ssize_t i = 0; i < n && i < (utf8proc_ssize_t)ARRAY_LEN(chunks); i++) {
            struct mark m = {.cp = (uint32_t)chunks[i], .more = i > 0};
            bool is_starter = !class_of(m.cp);
            if (is_starter)
                sort_marks(out, starter);
            vec_push(&out->list, m);
            if (is_starter)
                starter = out->list.count;
        }
    }
    sort_marks(out, starter);
}

static bool compose_pair(uint32_t first, uint32_t second, uint32_t *out) {
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)first, (utf8proc_int32_t)second};
    if (normalizer_is_young_mark(second) || second < 0x80 || second == UNICODE_NO_JAMO)
        return false;
    if (utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) != 1)
        return false;
    *out = (uint32_t)pair[0];
    return true;
}

/* In place: marks that combine with the starter before them are taken into it. */
static void compose(struct marks *m) {
    size_t starter = SIZE_MAX, kept = 0;
    uint8_t last = 0; /* class of what stands between the starter and here */
    bool between = false;
    for (size_t i = 0; i < m->list.count; i++) {
        struct mark mark = m->list.items[i];
        uint8_t class = class_of(mark.cp);
        struct mark *to = starter == SIZE_MAX ? NULL : &m->list.items[starter];
        if (to && (!between || last < class) && compose_pair(to->cp, mark.cp, &to->cp)) {
            to->more += mark.more - 1;
            continue;
        }
        between = class != 0 && to;
        last = class;
        if (!class)
            starter = kept;
        m->list.items[kept++] = mark;
    }
    m->list.count = kept;
}

static void change_form(enum normalizer_kind kind, struct bytes s, struct offset_changes *to) {
    struct marks marks = {0};
    char utf8[4];
    decompose(s, kind == NORMALIZE_NFKC || kind == NORMALIZE_NFKD, &marks);
    if (kind == NORMALIZE_NFC || kind == NORMALIZE_NFKC)
        compose(&marks);
    for (size_t i = 0; i < marks.list.count; i++)
        add(to, utf8_encode(marks.list.items[i].cp, utf8), marks.list.items[i].more);
    vec_release(&marks.list);
}

/* ---- steps ---- */

static void map_edits(const struct normalizer_step *step, struct bytes s,
                      const struct normalizer_edits *edits, const struct offset_map *from,
                      struct offset_map *to) {
    const struct offset_span *spans = from->spans.items;
    size_t done = 0;
    to->spans.count = 0;
    for (size_t i = 0; i <= edits->list.count; i++) {
        bool last = i == edits->list.count;
        size_t begin = last ? s.len : edits->list.items[i].begin,
               end = last ? s.len : edits->list.items[i].end;
        for (; done < begin; done++)
            offset_map_add(to, spans[done], 1);
        struct offset_span front = {spans[0].begin, spans[0].begin};
        if (!last)
            offset_map_add(to, end ? spans[end - 1] : front, step->content_len);
        done = end;
    }
}

static void map_spm(const struct normalizer_step *step, struct bytes s,
                    const struct offset_map *from, size_t len, struct offset_map *to) {
    const struct offset_span *spans = from->spans.items;
    spm_normalize_offsets(step->spm, s, len, to);
    for (size_t i = 0; i < to->spans.count; i++) {
        struct offset_span *span = &to->spans.items[i];
        span->begin = span->begin < s.len ? spans[span->begin].begin : spans[s.len - 1].end;
        span->end = span->end < s.len ? spans[span->end].begin : spans[s.len - 1].end;
    }
}

static size_t change(const struct normalizer_step *step, struct bytes s, struct regex_run *run,
                     struct offset_changes *to) {
    switch (step->kind) {
    case NORMALIZE_NFC:
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD: change_form(step->kind, s, to); return 0;
    case NORMALIZE_CHARSMAP: change_charsmap(&step->charsmap, s, to); return 0;
    case NORMALIZE_PREPEND: change_prepend(step, s, to); return 0;
    default: return change_characters(step, s, run, to);
    }
}

/* s as the step makes it, in out; the map of s becomes that one's. */
static bool apply_mapped(const struct normalizer_step *step, struct bytes s, struct regex_run *run,
                         struct offset_map *map, struct buf *out) {
    struct normalizer_edits edits = {0};
    struct offset_changes changes = {0};
    struct offset_map new = {0};
    bool ok =
        normalizer_apply_step(step, s, run, out, &edits) && !out->failed && out->len <= out->limit;
    if (!ok) {
        offset_map_fit(&new, 0);
    } else if (step->kind == NORMALIZE_SENTENCEPIECE) {
        map_spm(step, s, map, out->len, &new);
    } else if (step->kind == NORMALIZE_REPLACE || step->kind == NORMALIZE_REPLACE_REGEX) {
        map_edits(step, s, &edits, map, &new);
    } else {
        size_t skip = change(step, s, run, &changes);
        offset_map_change(&new, map, s, skip, &changes);
    }
    if (ok)
        offset_map_fit(&new, out->len);
    vec_release(&edits.list);
    vec_release(&changes.list);
    vec_release(&map->spans);
    *map = new;
    return ok;
}

static struct bytes strip_mapped(const struct normalizer_step *step, struct bytes s,
                                 struct offset_map *map) {
    struct bytes kept = normalizer_strip(step, s);
    size_t gone = (size_t)(kept.data - s.data);
    if (kept.len)
        memmove(map->spans.items, map->spans.items + gone, kept.len * sizeof *map->spans.items);
    map->spans.count = kept.len;
    return kept;
}

struct bytes normalizer_apply_mapped(const struct normalizer *n, struct bytes text,
                                     struct regex_run *run, struct offset_map *map, struct buf *a,
                                     struct buf *b) {
    CHECK(run && a != b && map && n->step_count <= NORMALIZER_STEPS_MAX);
    const size_t given = text.len;
    struct buf *out = a;
    for (size_t i = 0; i < n->step_count && text.len; i++) {
        const struct normalizer_step *step = &n->steps[i];
        if (step->kind == NORMALIZE_STRIP) {
            text = strip_mapped(step, text, map);
            continue;
        }
        if (normalizer_is_identity(step, text))
            continue;
        buf_reset(out);
        out->limit = normalizer_most_bytes(given);
        if (!apply_mapped(step, text, run, map, out))
            return bytes_of(NULL, 0);
        text = bytes_of(buf_text(out), out->len);
        out = out == a ? b : a;
    }
    return text;
}
