#include "text/tokenizer/tokenizer.h"

#include "base/utf8.h"
#include "text/tokenizer/fast/compiled.h"
#include "text/tokenizer/fast/fast.h"
#include "text/tokenizer/token_spans.h"
#include "text/tokenizer/tokenizer_data.h"

/* Symbols and bytes: what one very long text needed beyond is given back, so that it does not stay
 * for ever. */
enum { SCRATCH_KEEP = 64 * 1024, NORMALIZED_KEEP = 4 << 20 };

/* ---- scratch ---- */

static struct encode_scratch *scratch_acquire(struct tokenizer *t) {
    pthread_mutex_lock(&t->lock);
    struct encode_scratch *s = t->free_scratch;
    if (s)
        t->free_scratch = s->next_free;
    pthread_mutex_unlock(&t->lock);
    return s ? s : mem_alloc(sizeof *s);
}

static void free_scratch(struct encode_scratch *s) {
    bpe_scratch_release(&s->bpe);
    unigram_scratch_release(&s->unigram);
    buf_release(&s->word);
    split_scratch_release(&s->split);
    buf_release(&s->normalized[0]);
    buf_release(&s->normalized[1]);
    mem_free(s);
}

static void scratch_release(struct tokenizer *t, struct encode_scratch *s) {
    bpe_scratch_trim(&s->bpe, SCRATCH_KEEP);
    if (s->unigram.steps.cap > SCRATCH_KEEP)
        unigram_scratch_release(&s->unigram);
    for (int i = 0; i < 2; i++)
        if (s->normalized[i].cap > NORMALIZED_KEEP)
            buf_release(&s->normalized[i]);
    pthread_mutex_lock(&t->lock);
    s->next_free = t->free_scratch;
    t->free_scratch = s;
    pthread_mutex_unlock(&t->lock);
}

void tokenizer_free(struct tokenizer **t) {
    struct tokenizer *it = *t;
    if (!it)
        return;
    *t = NULL;
    for (struct encode_scratch *s = it->free_scratch, *next; s; s = next) {
        next = s->next_free;
        free_scratch(s);
    }
    compiled_detach(it);
    vocab_release(&it->vocab);
    bpe_release(&it->bpe);
    unigram_release(&it->unigram);
    normalizer_release(&it->normalizer);
    splitter_release(&it->splitter);
    added_release(&it->added);
    added_release(&it->added_normalized);
    added_release(&it->greedy);
    decoder_chain_release(&it->chain);
    buf_release(&it->texts);
    mem_free(it->token_texts);
    vec_release(&it->prefix);
    vec_release(&it->suffix);
    for (size_t i = 0; i < ARRAY_LEN(it->rules); i++)
        buf_release(&it->rules[i]);
    pthread_mutex_destroy(&it->lock);
    mem_free(it);
}

/* ---- encode ---- */

/* What keeps account of offsets. */
struct encode_offsets {
    struct split_track track;
    struct offset_map normalized; /* of the text between added tokens */
    struct offset_map out;        /* a span for each id, in bytes */
};

struct encode_run {
    const struct tokenizer *t;
    struct encode_offsets *offsets; /* or NULL */
    struct encode_scratch *scratch;
    struct token_vec *out;
    struct error *err;
    struct added_skips skips;
    const uint8_t *text; /* whose offsets the spots are */
    size_t first;        /* ids in out that were there before it */
};

static int encode_greedy(struct encode_run *r, struct bytes text) {
    size_t len;
    for (; text.len; text = bytes_of(text.data + len, text.len - len)) {
        const struct added_token *token = added_longest(&r->t->greedy, text, &len);
        if (!token)
            return error_set(r->err, ERR_INVALID,
                             "the text has the byte 0x%02x, for which the model has no token",
                             text.data[0]);
        vec_push(r->out, token->id);
    }
    return 0;
}

static int encode_piece(void *ctx, struct bytes piece, const uint8_t *limit) {
    struct encode_run *r = ctx;
    switch (r->t->model) {
    case MODEL_BPE:
        fast_encode_piece(&r->t->bpe, &r->scratch->bpe, piece.data, piece.len, limit, r->out);
        return 0;
    case MODEL_UNIGRAM:
        return unigram_encode(&r->t->unigram, &r->scratch->unigram, piece, r->out, r->err);
    case MODEL_WORDPIECE:
        wordpiece_encode(&r->t->wordpiece, &r->scratch->word, piece, r->out);
        return 0;
    case MODEL_WORDLEVEL:
        return wordlevel_encode(&r->t->wordlevel, piece, r->first, r->out, r->err);
    case MODEL_GREEDY: return encode_greedy(r, piece);
    }
    return 0;
}

static int encode_piece_tracked(void *ctx, struct bytes piece, const uint8_t *limit) {
    struct encode_run *r = ctx;
    size_t before = r->out->count;
    int rc = encode_piece(ctx, piece, limit);
    struct tokens ids = {r->out->items + before, r->out->count - before};
    if (!rc)
        token_spans_add(r->t, &r->offsets->track.view, piece, ids, &r->offsets->out);
    return rc;
}

/* ---- the chain ---- */

typedef int encode_span_fn(struct encode_run *r, struct bytes span, bool at_start);

/* Takes the added tokens of one set out of text; the spans between go to `inner`. */
static int cut_added(struct encode_run *r, const struct added_set *set,
                     const struct added_skips *skips, struct bytes text, bool at_start,
                     encode_span_fn *inner) {
    struct added_match m;
    size_t from = 0;
    int rc = 0;
    while (!rc && added_next(set, text, from, skips, &m)) {
        if (m.begin > from)
            rc = inner(r, bytes_of(text.data + from, m.begin - from), at_start && from == 0);
        vec_push(r->out, m.token->id);
        if (r->offsets) {
            struct bytes taken = bytes_of(text.data + m.begin, m.end - m.begin);
            offset_map_add(&r->offsets->out, offset_of(&r->offsets->track.view, taken), 1);
        }
        from = m.end;
    }
    if (!rc && from < text.len)
        rc = inner(r, bytes_of(text.data + from, text.len - from), at_start && from == 0);
    return rc;
}

static int encode_plain(struct encode_run *r, struct bytes span, bool at_start) {
    if (r->offsets)
        return splitter_run(&r->t->splitter, &r->scratch->split, span, at_start,
                            encode_piece_tracked, r, &r->offsets->track, r->err);
    if (fast_encode(r->t, r->scratch, span, FAST_NORMALIZED, at_start, r->out))
        return 0;
    return splitter_run(&r->t->splitter, &r->scratch->split, span, at_start, encode_piece, r, NULL,
                        r->err);
}

/* The span normalized; with offsets the view becomes that text's. */
static struct bytes normalize(struct encode_run *r, struct bytes span) {
    struct encode_scratch *s = r->scratch;
    struct encode_offsets *o = r->offsets;
    if (!o)
        return normalizer_apply(&r->t->normalizer, span, &s->split.regex, &s->normalized[0],
                                &s->normalized[1]);
    offset_map_set(&o->normalized, span, (size_t)(span.data - r->text));
    struct bytes text =
        normalizer_apply_mapped(&r->t->normalizer, span, &s->split.regex, &o->normalized,
                                &s->normalized[0], &s->normalized[1]);
    o->track.view = (struct offset_view){text.data, &o->normalized};
    return text;
}

static int encode_normalized(struct encode_run *r, struct bytes span, bool at_start) {
    if (!r->offsets && fast_encode(r->t, r->scratch, span, FAST_RAW, at_start, r->out))
        return 0;
    struct offset_view view = r->offsets ? r->offsets->track.view : (struct offset_view){0};
    struct bytes text = normalize(r, span);
    if (!text.data && r->scratch->split.regex.refused)
        return error_set(r->err, ERR_LIMIT, "the text is too hard for this model's normalizer");
    if (!text.data)
        return error_set(r->err, ERR_MEMORY,
                         "cannot normalize %zu bytes of text: memory is out, or the model's "
                         "normalizer makes too much of them",
                         span.len);
    /* Normalizing moved the spots: then no special token is looked for in a span that has one. */
    size_t begin = (size_t)(span.data - r->text);
    struct added_skips skips = {.all = r->skips.all ||
                                       added_has_spot(&r->skips, begin, begin + span.len)};
    int rc = cut_added(r, &r->t->added_normalized, &skips, text, at_start, encode_plain);
    if (r->offsets)
        r->offsets->track.view = view;
    return rc;
}

/* Whether what begins the text cannot be told without offsets: HF's Metaspace asks where a piece
 * that was rewritten before came from. */
static bool asks_offsets(const struct tokenizer *t) {
    for (size_t i = 0; i < t->splitter.stage_count; i++) {
        const struct split_stage *stage = &t->splitter.stages[i];
        if (stage->kind == SPLIT_METASPACE && stage->prepend == METASPACE_FIRST &&
            (i || t->normalizer.step_count))
            return true;
    }
    return false;
}

static int encode_all(struct encode_run *r, struct bytes text) {
    if (!r->offsets)
        return cut_added(r, &r->t->added, &r->skips, text, true, encode_normalized);
    struct offset_map raw = {0};
    offset_map_set(&raw, text, 0);
    r->offsets->track.view = (struct offset_view){text.data, &raw};
    int rc = cut_added(r, &r->t->added, &r->skips, text, true, encode_normalized);
    vec_release(&raw.spans);
    return rc;
}

static void add_special(const struct token_vec *ids, struct encode_run *r) {
    for (size_t i = 0; i < ids->count; i++)
        vec_push(r->out, ids->items[i]);
    if (r->offsets)
        offset_map_add(&r->offsets->out, (struct offset_span){0, 0}, ids->count);
}

static void release_offsets(struct encode_offsets *o) {
    split_track_release(&o->track);
    vec_release(&o->normalized.spans);
    vec_release(&o->out.spans);
}

static int encode(struct encode_run *r, struct bytes text, unsigned flags) {
    /* only its locked list of scratches changes */
    struct tokenizer *pool = (struct tokenizer *)(uintptr_t)r->t;
    size_t before = r->out->count, good = utf8_valid_prefix(text.data, text.len);
    if (good != text.len)
        return error_set(r->err, ERR_INVALID, "the text is not valid UTF-8 at byte %zu", good);
    if (text.len >= UINT32_MAX / 4)
        return error_set(r->err, ERR_LIMIT, "the text is larger than 1 GB");
    r->scratch = scratch_acquire(pool);
    regex_run_begin(&r->scratch->split.regex, REGEX_STEPS_TEXT);
    r->skips.all = !(flags & TOKENIZE_PARSE_SPECIAL);
    r->text = text.data;
    if (flags & TOKENIZE_ADD_SPECIAL)
        add_special(&r->t->prefix, r);
    r->first = r->out->count;
    int rc = encode_all(r, text);
    if (flags & TOKENIZE_ADD_SPECIAL)
        add_special(&r->t->suffix, r);
    scratch_release(pool, r->scratch);
    if (rc)
        r->out->count = before;
    return rc;
}

int tokenizer_encode_spots(const struct tokenizer *t, struct bytes text, const size_t *spots,
                           size_t spot_count, unsigned flags, struct token_vec *out,
                           struct error *err) {
    CHECK(t && out && (spots || !spot_count));
    struct encode_offsets unseen = {0};
    struct encode_run r = {.t = t,
                           .offsets = asks_offsets(t) ? &unseen : NULL,
                           .out = out,
                           .err = err,
                           .skips = {.spots = spots, .spot_count = spot_count}};
    int rc = encode(&r, text, flags);
    if (r.offsets)
        release_offsets(&unseen);
    return rc;
}

/* Bytes of text to characters. */
static void to_characters(struct bytes text, struct offset_span *spans, size_t count) {
    /* characters before each byte */
    uint32_t *before = mem_calloc(text.len + 1, sizeof *before), n = 0;
    for (size_t i = 0; i < text.len; i++) {
        n += (text.data[i] & 0xC0) != 0x80;
        before[i + 1] = n;
    }
    for (size_t i = 0; i < count; i++)
        spans[i] = (struct offset_span){before[spans[i].begin], before[spans[i].end]};
    mem_free(before);
}

int tokenizer_encode_offsets(const struct tokenizer *t, struct bytes text, unsigned flags,
                             struct token_vec *out, struct offset_map *offsets, struct error *err) {
    CHECK(t && out && offsets);
    struct encode_offsets tracked = {0};
    struct encode_run r = {.t = t, .offsets = &tracked, .out = out, .err = err};
    size_t before = out->count;
    int rc = encode(&r, text, flags);
    if (!rc) {
        size_t count = out->count - before,
               skip = flags & TOKENIZE_ADD_SPECIAL ? t->prefix.count : 0;
        offset_map_fit(&tracked.out, count);
        struct tokens ids = {out->items + before + skip, count - skip};
        if (t->trims_offsets)
            token_spans_trim(t, text, ids, tracked.out.spans.items + skip);
        to_characters(text, tracked.out.spans.items, count);
        for (size_t i = 0; i < count; i++)
            vec_push(&offsets->spans, tracked.out.spans.items[i]);
    }
    release_offsets(&tracked);
    return rc;
}

int tokenizer_encode(const struct tokenizer *t, struct bytes text, unsigned flags,
                     struct token_vec *out, struct error *err) {
    return tokenizer_encode_spots(t, text, NULL, 0, flags, out, err);
}

/* The first special token of the set at or after from, as [walk->begin[k], walk->end[k]). */
static void find_special(const struct added_set *set, struct special_walk *walk, int k) {
    const struct added_skips none = {0};
    struct added_match m = {.end = walk->from};
    do
        walk->over[k] = !added_next(set, walk->text, m.end, &none, &m);
    while (!walk->over[k] && !m.token->special);
    walk->begin[k] = m.content;
    walk->end[k] = m.end;
}

bool tokenizer_next_special(const struct tokenizer *t, struct special_walk *walk, size_t *begin,
                            size_t *end) {
    const struct added_set *const sets[] = {&t->added, &t->added_normalized};
    int first = -1;
    for (int k = 0; k < 2; k++) {
        bool passed = walk->begin[k] < walk->from || !walk->from;
        if (!walk->over[k] && passed)
            find_special(sets[k], walk, k);
        if (!walk->over[k] && (first < 0 || walk->begin[k] < walk->begin[first]))
            first = k;
    }
    if (first < 0)
        return false;
    *begin = walk->begin[first];
    *end = walk->from = walk->end[first];
    return true;
}

/* ---- questions ---- */

uint32_t tokenizer_vocab_count(const struct tokenizer *t) {
    return (uint32_t)t->vocab.entries.count;
}

static bool has_flag(const struct tokenizer *t, uint32_t id, uint8_t flag) {
    return id < t->vocab.entries.count && t->vocab.flags[id] & flag;
}
bool tokenizer_is_special(const struct tokenizer *t, uint32_t id) {
    return has_flag(t, id, VOCAB_SPECIAL);
}
bool tokenizer_is_added(const struct tokenizer *t, uint32_t id) {
    return has_flag(t, id, VOCAB_ADDED);
}

void tokenizer_token_text(const struct tokenizer *t, uint32_t id, struct buf *out) {
    vocab_spelling(&t->vocab, id, out);
}
uint32_t tokenizer_find(const struct tokenizer *t, struct bytes spelling) {
    return vocab_find_spelling(&t->vocab, spelling);
}

uint32_t tokenizer_bos(const struct tokenizer *t) {
    return t->bos;
}
struct tokens tokenizer_eos(const struct tokenizer *t) {
    return (struct tokens){t->eos, t->eos_count};
}
static void push_ids(struct token_vec *out, const uint32_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++)
        vec_push(out, ids[i]);
}

void tokenizer_join(const struct tokenizer *t, struct tokens first, struct tokens second,
                    struct token_vec *out, uint32_t *first_count) {
    const struct pair_rule *r = &t->pair;
    *first_count = 0;
    if (r->there) {
        if (r->second_type)
            *first_count = r->counts[0] + (uint32_t)first.count + r->between_first;
        push_ids(out, r->ids[0], r->counts[0]);
        push_ids(out, first.ids, first.count);
        push_ids(out, r->ids[1], r->counts[1]);
        push_ids(out, second.ids, second.count);
        push_ids(out, r->ids[2], r->counts[2]);
        return;
    }
    const struct tokens texts[] = {first, second};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        push_ids(out, t->prefix.items, t->prefix.count);
        push_ids(out, texts[i].ids, texts[i].count);
        push_ids(out, t->suffix.items, t->suffix.count);
    }
}

struct tokens tokenizer_prefix(const struct tokenizer *t) {
    return (struct tokens){t->prefix.items, t->prefix.count};
}
