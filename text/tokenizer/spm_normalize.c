#include "text/tokenizer/spm_normalize.h"

#include "text/unicode.h"

static const struct bytes METASPACE = {(const uint8_t *)"\xE2\x96\x81", 3};

void spm_normalizer_release(struct spm_normalizer *n) {
    charsmap_release(&n->charsmap);
    added_release(&n->symbols);
}

/* What the text at p becomes, and how much of it. */
static size_t next_chunk(const struct spm_normalizer *n, struct bytes text, struct bytes *out) {
    size_t len;
    uint32_t cp;
    if ((len = added_prefix(&n->symbols, text))) {
        *out = bytes_of(text.data, len);
        return len;
    }
    if (n->charsmap.units && charsmap_longest(&n->charsmap, text, &len, out))
        return len;
    len = unicode_next(text.data, &cp);
    *out = bytes_of(text.data, len);
    return len;
}

static void add_spaces(const struct spm_normalizer *n, size_t count, struct buf *out) {
    size_t len = n->escape ? METASPACE.len : 1;
    buf_reserve(out, count * len);
    if (out->failed)
        return;
    for (size_t i = 0; i < count; i++, out->len += len)
        memcpy(out->data + out->len, n->escape ? (const char *)METASPACE.data : " ", len);
    out->data[out->len] = 0;
}

static void add_escaped(const struct spm_normalizer *n, struct bytes s, struct buf *out) {
    for (const uint8_t *hit; s.len && (hit = memchr(s.data, ' ', s.len));) {
        const uint8_t *stop = hit, *end = s.data + s.len;
        while (stop < end && *stop == ' ')
            stop++;
        buf_add(out, s.data, (size_t)(hit - s.data));
        add_spaces(n, (size_t)(stop - hit), out);
        s = bytes_of(stop, (size_t)(end - stop));
    }
    buf_add_bytes(out, s);
}

static struct bytes skip(struct bytes s, size_t n) {
    return bytes_of(s.data + n, s.len - n);
}

static struct bytes skip_spaces(const struct spm_normalizer *n, struct bytes text) {
    struct bytes chunk;
    while (text.len) {
        size_t len = next_chunk(n, text, &chunk);
        if (chunk.len != 1 || chunk.data[0] != ' ')
            break;
        text = skip(text, len);
    }
    return text;
}

static void trim_end(const struct spm_normalizer *n, size_t floor, struct buf *out) {
    size_t len = n->escape ? METASPACE.len : 1;
    const void *space = n->escape ? (const void *)METASPACE.data : " ";
    while (out->len >= floor + len && !memcmp(out->data + out->len - len, space, len))
        out->len -= len;
}

/* How many bytes of a word in ASCII nothing changes. */
static size_t quiet_run(const struct spm_normalizer *n, struct bytes text) {
    const uint8_t *p = text.data, *end = text.data + text.len;
    while (p < end && *p < 0x80 && *p != ' ' && !n->symbols.roots[*p] &&
           (!n->charsmap.units || charsmap_is_quiet(&n->charsmap, p, end)))
        p++;
    return (size_t)(p - text.data);
}

static void add_chunks(const struct spm_normalizer *n, struct bytes text, struct buf *out) {
    bool after_space = n->remove_extra;
    while (text.len) {
        struct bytes chunk;
        size_t run = quiet_run(n, text);
        if (run) {
            buf_add(out, text.data, run);
            text = skip(text, run);
            after_space = false;
            continue;
        }
        text = skip(text, next_chunk(n, text, &chunk));
        while (after_space && chunk.len && chunk.data[0] == ' ')
            chunk = skip(chunk, 1);
        if (!chunk.len)
            continue;
        add_escaped(n, chunk, out);
        after_space = n->remove_extra && chunk.data[chunk.len - 1] == ' ';
    }
}

void spm_normalize(const struct spm_normalizer *n, struct bytes text, struct buf *out) {
    size_t before = out->len;
    if (n->remove_extra)
        text = skip_spaces(n, text);
    if (!text.len)
        return;
    if (n->dummy_prefix && !n->suffix)
        add_spaces(n, 1, out);
    if (n->charsmap.units || n->symbols.tokens.count || n->remove_extra)
        add_chunks(n, text, out);
    else
        add_escaped(n, text, out);
    if (n->remove_extra)
        trim_end(n, before, out);
    if (n->dummy_prefix && n->suffix)
        add_spaces(n, 1, out);
}

/* ---- where it comes from ---- */

/* n bytes of output that begin at byte `at` of the text; their ends are not known yet. */
static void add_begin(struct offset_map *m, size_t at, size_t n) {
    offset_map_add(m, (struct offset_span){(uint32_t)at, (uint32_t)at}, n);
}

/* Each span ends where the next one begins. */
static void close_spans(struct offset_map *m, size_t end) {
    for (size_t i = 0; i < m->spans.count; i++)
        m->spans.items[i].end =
            i + 1 < m->spans.count ? m->spans.items[i + 1].begin : (uint32_t)end;
}

void spm_normalize_offsets(const struct spm_normalizer *n, struct bytes text, size_t len,
                           struct offset_map *out) {
    const uint8_t *start = text.data;
    size_t space = n->escape ? METASPACE.len : 1;
    bool after_space = n->remove_extra;
    out->spans.count = 0;
    if (n->remove_extra)
        text = skip_spaces(n, text);
    if (!text.len)
        return;
    if (n->dummy_prefix && !n->suffix)
        add_begin(out, (size_t)(text.data - start), space);
    while (text.len) {
        struct bytes chunk;
        size_t at = (size_t)(text.data - start);
        text = skip(text, next_chunk(n, text, &chunk));
        while (after_space && chunk.len && chunk.data[0] == ' ')
            chunk = skip(chunk, 1);
        for (size_t i = 0; i < chunk.len; i++)
            add_begin(out, at, chunk.data[i] == ' ' ? space : 1);
        if (chunk.len)
            after_space = n->remove_extra && chunk.data[chunk.len - 1] == ' ';
    }
    size_t end = (size_t)(text.data - start), suffix = n->dummy_prefix && n->suffix ? space : 0;
    if (out->spans.count + suffix > len) { /* spaces at the end are gone */
        out->spans.count = len - suffix;
        end = out->spans.items[out->spans.count].begin;
    }
    if (suffix)
        add_begin(out, end, space);
    close_spans(out, end);
}
