#include "text/tokenizer/split.h"

#include "text/tokenizer/vocab.h"
#include "text/unicode.h"

struct run {
    const struct splitter *splitter;
    struct split_scratch *scratch;
    split_piece_fn *piece;
    void *ctx;
    struct split_track *track; /* or NULL */
    struct error *err;
    const uint8_t *limit; /* of the buffer that spans point into now */
};

static int run_stage(struct run *r, size_t stage_idx, struct bytes span, bool at_start);

/* ---- what to do with matches ---- */

/* Matches and the gaps between them come in order; `behavior` says which are joined or dropped. */
struct joiner {
    struct run *run;
    size_t next_stage;
    enum split_behavior behavior;
    const uint8_t *start; /* of the stage's span */
    bool at_start;
    const uint8_t *pending_begin, *pending_end; /* begin NULL: nothing pending */
    bool previous_match;
};

static int emit(struct joiner *j, const uint8_t *begin, const uint8_t *end) {
    if (begin == end)
        return 0;
    return run_stage(j->run, j->next_stage, bytes_of(begin, (size_t)(end - begin)),
                     j->at_start && begin == j->start);
}

static int emit_pending(struct joiner *j) {
    const uint8_t *begin = j->pending_begin;
    j->pending_begin = NULL;
    return begin ? emit(j, begin, j->pending_end) : 0;
}

/* Adds the span to what is pending when join, else emits that and starts anew. */
static int hold(struct joiner *j, const uint8_t *begin, const uint8_t *end, bool join) {
    int rc = 0;
    if (!join || !j->pending_begin) {
        rc = emit_pending(j);
        j->pending_begin = begin;
    }
    j->pending_end = end;
    return rc;
}

static int join_span(struct joiner *j, const uint8_t *begin, const uint8_t *end, bool is_match) {
    bool join = false;
    switch (j->behavior) {
    case SPLIT_ISOLATED: return emit(j, begin, end);
    case SPLIT_REMOVED: return is_match ? 0 : emit(j, begin, end);
    case SPLIT_CONTIGUOUS: join = is_match == j->previous_match; break;
    case SPLIT_MERGED_WITH_PREVIOUS: join = is_match && !j->previous_match; break;
    case SPLIT_MERGED_WITH_NEXT: join = !is_match && j->previous_match; break;
    }
    j->previous_match = is_match;
    return hold(j, begin, end, join);
}

/* ---- stages that match something ---- */

/* Finds the next match in [at, end): false when there is none. */
typedef int find_fn(struct run *r, const struct split_stage *stage, struct bytes span, size_t at,
                    size_t *begin, size_t *end);

enum { FOUND = 1, NOT_FOUND = 0 };

static int find_regex(struct run *r, const struct split_stage *stage, struct bytes span, size_t at,
                      size_t *begin, size_t *end) {
    return regex_run_find(&r->scratch->regex, &stage->regex, span, at, begin, end, r->err);
}

static int find_literal(struct run *r, const struct split_stage *stage, struct bytes span,
                        size_t at, size_t *begin, size_t *end) {
    (void)r;
    const uint8_t *hit = memmem(span.data + at, span.len - at, stage->literal, stage->literal_len);
    if (!hit)
        return NOT_FOUND;
    *begin = (size_t)(hit - span.data);
    *end = *begin + stage->literal_len;
    return FOUND;
}

static bool is_kind(enum split_kind kind, uint32_t cp) {
    if (kind == SPLIT_SPACES)
        return unicode_is_space(cp);
    if (kind == SPLIT_PUNCTUATION) {
        bool ascii = (cp >= 33 && cp <= 47) || (cp >= 58 && cp <= 64) || (cp >= 91 && cp <= 96) ||
                     (cp >= 123 && cp <= 126);
        return ascii || unicode_in_old(cp, UNICODE_P);
    }
    return unicode_in(cp, UNICODE_N);
}

static int find_char(struct run *r, const struct split_stage *stage, struct bytes span, size_t at,
                     size_t *begin, size_t *end) {
    (void)r;
    uint32_t cp;
    size_t n;
    for (; at < span.len; at += n) {
        n = unicode_next(span.data + at, &cp);
        if (!is_kind(stage->kind, cp))
            continue;
        *begin = at;
        *end = at + n;
        return FOUND;
    }
    return NOT_FOUND;
}

static int find_word(struct run *r, const struct split_stage *stage, struct bytes span, size_t at,
                     size_t *begin, size_t *end) {
    (void)r, (void)stage;
    uint32_t cp = 0;
    size_t n;
    for (; at < span.len; at += n) {
        n = unicode_next(span.data + at, &cp);
        if (!unicode_is_space(cp))
            break;
    }
    if (at == span.len)
        return NOT_FOUND;
    bool word = unicode_is_word(cp);
    *begin = at;
    for (; at < span.len; at += n) {
        n = unicode_next(span.data + at, &cp);
        if (unicode_is_word(cp) != word || unicode_is_space(cp))
            break;
    }
    *end = at;
    return FOUND;
}

static int run_matches(struct run *r, const struct split_stage *stage, size_t stage_idx,
                       struct bytes span, bool at_start, find_fn *find) {
    struct joiner j = {r, stage_idx + 1, stage->behavior, span.data, at_start, NULL, NULL, false};
    size_t done = 0, at = 0, begin, end;
    bool matched = false;
    int rc = 0;
    while (at <= span.len && (rc = find(r, stage, span, at, &begin, &end)) == FOUND) {
        if (begin > done &&
            (rc = join_span(&j, span.data + done, span.data + begin, stage->invert)))
            return rc;
        uint32_t cp;
        /* right behind a match: no match */
        bool behind_match = begin == end && begin == done && matched;
        if (!behind_match &&
            (rc = join_span(&j, span.data + begin, span.data + end, !stage->invert)))
            return rc;
        done = at = end;
        matched = end > begin;
        if (matched)
            continue;
        if (at == span.len)
            break; /* an empty match: look on behind the next character */
        at += unicode_next(span.data + at, &cp);
    }
    if (rc < 0)
        return rc;
    if (done < span.len &&
        (rc = join_span(&j, span.data + done, span.data + span.len, stage->invert)))
        return rc;
    return emit_pending(&j);
}

/* ---- stages that cover everything, and rewrites ---- */

static int run_scan(struct run *r, const struct split_stage *stage, size_t stage_idx,
                    struct bytes span, bool at_start) {
    const uint8_t *p = span.data, *end = span.data + span.len;
    int rc = 0;
    while (p < end && !rc) {
        size_t len = stage->scan(p, end);
        rc = run_stage(r, stage_idx + 1, bytes_of(p, len), at_start && p == span.data);
        p += len;
    }
    return rc;
}

static bool begins_with(struct bytes span, const char *s, size_t len) {
    return span.len >= len && !memcmp(span.data, s, len);
}

/* Bytes that a stage makes of one. */
static size_t width_of(const struct split_stage *stage, uint8_t byte) {
    if (stage->kind == SPLIT_METASPACE)
        return byte == ' ' ? stage->literal_len : 1;
    return stage->kind == SPLIT_BYTE_MAP ? byte_alphabet_width(byte) : 1;
}

/* Where the bytes of a stage's rewritten span come from: those it put in front go with the
 * first. */
static void track_rewritten(struct run *r, size_t stage_idx, struct bytes span,
                            const struct buf *out) {
    const struct split_stage *stage = &r->splitter->stages[stage_idx];
    struct offset_map *map = &r->track->maps[stage_idx];
    size_t len = 0;
    for (size_t i = 0; i < span.len; i++)
        len += width_of(stage, span.data[i]);
    map->spans.count = 0;
    offset_map_add(map, offset_at(&r->track->view, span.data), out->len - len);
    for (size_t i = 0; i < span.len; i++)
        offset_map_add(map, offset_at(&r->track->view, span.data + i),
                       width_of(stage, span.data[i]));
    r->track->view = (struct offset_view){(const uint8_t *)buf_text(out), map};
}

/* Goes on with what the stage made of span, in another buffer: cut by `find`, or as it is
 * (NULL). */
static int rewritten(struct run *r, size_t stage_idx, struct bytes span, bool at_start,
                     find_fn *find) {
    struct buf *out = &r->scratch->rewritten[stage_idx];
    if (out->failed)
        return error_set(r->err, ERR_MEMORY, "out of memory");
    struct bytes text = bytes_of(buf_text(out), out->len);
    const uint8_t *limit = r->limit;
    struct offset_view view = r->track ? r->track->view : (struct offset_view){0};
    if (r->track)
        track_rewritten(r, stage_idx, span, out);
    r->limit = text.data + text.len;
    int rc = find ? run_matches(r, &r->splitter->stages[stage_idx], stage_idx, text, at_start, find)
                  : run_stage(r, stage_idx + 1, text, at_start);
    r->limit = limit;
    if (r->track)
        r->track->view = view;
    return rc;
}

static int run_prefix_space(struct run *r, size_t stage_idx, struct bytes span, bool at_start) {
    if (begins_with(span, " ", 1))
        return run_stage(r, stage_idx + 1, span, at_start);
    struct buf *out = &r->scratch->rewritten[stage_idx];
    buf_reset(out);
    buf_add_byte(out, ' ');
    buf_add_bytes(out, span);
    return rewritten(r, stage_idx, span, at_start, NULL);
}

static void add_metaspaced(struct buf *out, const struct split_stage *stage, struct bytes span) {
    const uint8_t *p = span.data, *end = span.data + span.len, *hit;
    while (p < end && (hit = memchr(p, ' ', (size_t)(end - p)))) {
        buf_add(out, p, (size_t)(hit - p));
        buf_add(out, stage->literal, stage->literal_len);
        p = hit + 1;
    }
    buf_add(out, p, (size_t)(end - p));
}

static int run_metaspace(struct run *r, const struct split_stage *stage, size_t stage_idx,
                         struct bytes span, bool at_start) {
    struct buf *out = &r->scratch->rewritten[stage_idx];
    buf_reset(out);
    bool first = r->track ? offset_at(&r->track->view, span.data).begin == 0 : at_start;
    bool prepend =
        stage->prepend == METASPACE_ALWAYS || (stage->prepend == METASPACE_FIRST && first);
    if (prepend && !begins_with(span, " ", 1) &&
        !begins_with(span, stage->literal, stage->literal_len))
        buf_add(out, stage->literal, stage->literal_len);
    add_metaspaced(out, stage, span);
    return rewritten(r, stage_idx, span, at_start, stage->metaspace_split ? find_literal : NULL);
}

static int run_byte_map(struct run *r, size_t stage_idx, struct bytes span, bool at_start) {
    struct buf *out = &r->scratch->rewritten[stage_idx];
    buf_reset(out);
    byte_alphabet_to_text(span, out);
    return rewritten(r, stage_idx, span, at_start, NULL);
}

static int run_length(struct run *r, const struct split_stage *stage, size_t stage_idx,
                      struct bytes span, bool at_start) {
    int rc = 0;
    for (size_t at = 0; at < span.len && !rc;) {
        size_t end = at;
        uint32_t cp;
        for (uint32_t i = 0; i < stage->length && end < span.len; i++)
            end += unicode_next(span.data + end, &cp);
        rc = run_stage(r, stage_idx + 1, bytes_of(span.data + at, end - at), at_start && at == 0);
        at = end;
    }
    return rc;
}

static bool is_decimal(uint32_t cp) {
    return unicode_in(cp, 1 << UNICODE_ND);
}

static size_t count_decimals(struct bytes s) {
    size_t count = 0;
    uint32_t cp;
    for (size_t at = 0; at < s.len; count++) {
        at += unicode_next(s.data + at, &cp);
        if (!is_decimal(cp))
            break;
    }
    return count;
}

/* Each run of digits is counted once; the pattern would look to its end from each of them. */
static int run_groups(struct run *r, size_t stage_idx, struct bytes span, bool at_start) {
    size_t begin = 0, left = 0, n; /* left: digits in the run from here on */
    uint32_t cp;
    int rc = 0;
    for (size_t at = 0; at < span.len && !rc; at += n) {
        n = unicode_next(span.data + at, &cp);
        if (!is_decimal(cp))
            continue;
        if (!left)
            left = count_decimals(bytes_of(span.data + at, span.len - at));
        if (left-- % 3 || at == begin)
            continue;
        rc = run_stage(r, stage_idx + 1, bytes_of(span.data + begin, at - begin),
                       at_start && begin == 0);
        begin = at;
    }
    return rc ? rc
              : run_stage(r, stage_idx + 1, bytes_of(span.data + begin, span.len - begin),
                          at_start && begin == 0);
}

static int run_scripts(struct run *r, size_t stage_idx, struct bytes span, bool at_start) {
    size_t begin = 0, n;
    uint32_t cp;
    uint8_t last = 0;
    int rc = 0;
    for (size_t at = 0; at < span.len && !rc; at += n) {
        n = unicode_next(span.data + at, &cp);
        uint8_t script = unicode_script(cp);
        if (!script || script == last)
            continue;
        if (last)
            rc = run_stage(r, stage_idx + 1, bytes_of(span.data + begin, at - begin),
                           at_start && begin == 0);
        last = script;
        begin = at;
    }
    if (rc || !last)
        return rc;
    return run_stage(r, stage_idx + 1, bytes_of(span.data + begin, span.len - begin),
                     at_start && begin == 0);
}

/* Each character of the byte alphabet becomes a byte. */
static void track_raw(struct split_track *track, struct bytes span, const uint8_t *raw) {
    struct offset_map *map = &track->maps[SPLIT_STAGES_MAX];
    map->spans.count = 0;
    for (size_t i = 0; i < span.len; i++)
        if ((span.data[i] & 0xC0) != 0x80)
            offset_map_add(map, offset_at(&track->view, span.data + i), 1);
    track->view = (struct offset_view){raw, map};
}

static int finish_piece(struct run *r, struct bytes span) {
    if (!r->splitter->mapped)
        return r->piece(r->ctx, span, r->limit);
    buf_reset(&r->scratch->raw);
    if (!byte_alphabet_to_bytes(span, &r->scratch->raw))
        return error_set(r->err, ERR_UNSUPPORTED,
                         "a pre-tokenizer behind ByteLevel makes characters that are no bytes");
    struct bytes raw = bytes_of(buf_text(&r->scratch->raw), r->scratch->raw.len);
    struct offset_view view = r->track ? r->track->view : (struct offset_view){0};
    if (r->track)
        track_raw(r->track, span, raw.data);
    int rc = r->piece(r->ctx, raw, raw.data + raw.len);
    if (r->track)
        r->track->view = view;
    return rc;
}

static int run_stage(struct run *r, size_t stage_idx, struct bytes span, bool at_start) {
    if (!span.len)
        return 0;
    if (stage_idx == r->splitter->stage_count)
        return finish_piece(r, span);
    const struct split_stage *stage = &r->splitter->stages[stage_idx];
    switch (stage->kind) {
    case SPLIT_SCAN: return run_scan(r, stage, stage_idx, span, at_start);
    case SPLIT_METASPACE: return run_metaspace(r, stage, stage_idx, span, at_start);
    case SPLIT_PREFIX_SPACE: return run_prefix_space(r, stage_idx, span, at_start);
    case SPLIT_BYTE_MAP: return run_byte_map(r, stage_idx, span, at_start);
    case SPLIT_LENGTH: return run_length(r, stage, stage_idx, span, at_start);
    case SPLIT_GROUPS: return run_groups(r, stage_idx, span, at_start);
    case SPLIT_SCRIPTS: return run_scripts(r, stage_idx, span, at_start);
    case SPLIT_REGEX: return run_matches(r, stage, stage_idx, span, at_start, find_regex);
    case SPLIT_LITERAL: return run_matches(r, stage, stage_idx, span, at_start, find_literal);
    case SPLIT_WORDS: return run_matches(r, stage, stage_idx, span, at_start, find_word);
    case SPLIT_DIGITS:
    case SPLIT_DIGIT:
    case SPLIT_PUNCTUATION:
    case SPLIT_SPACES: return run_matches(r, stage, stage_idx, span, at_start, find_char);
    }
    CHECK(!"split kind");
    return 0;
}

int splitter_run(const struct splitter *s, struct split_scratch *scratch, struct bytes text,
                 bool at_start, split_piece_fn *piece, void *ctx, struct split_track *track,
                 struct error *err) {
    CHECK(piece && s->stage_count <= SPLIT_STAGES_MAX);
    regex_run_allow(&scratch->regex, text.len);
    struct run r = {s, scratch, piece, ctx, track, err, text.data + text.len};
    return run_stage(&r, 0, text, at_start);
}

void split_scratch_release(struct split_scratch *scratch) {
    for (size_t i = 0; i < SPLIT_STAGES_MAX; i++)
        buf_release(&scratch->rewritten[i]);
    buf_release(&scratch->raw);
    regex_run_release(&scratch->regex);
    *scratch = (struct split_scratch){0};
}

void split_track_release(struct split_track *track) {
    for (size_t i = 0; i < ARRAY_LEN(track->maps); i++)
        vec_release(&track->maps[i].spans);
    *track = (struct split_track){0};
}
