/*
 * detokenize.c - the "decoder" of tokenizer.json, and ids to text as a whole.
 */
#include "text/tokenizer/detokenize.h"

#include "base/utf8.h"

/* ---- loading ---- */

enum { REPLACES_MAX = 8 };
#define METASPACE "\xE2\x96\x81"

struct decoder_plan {
    struct decoder *decoder;
    struct bytes from[REPLACES_MAX], to[REPLACES_MAX]; /* done to each token, in order */
    size_t replace_count;
    bool fused;
};

static int plan_replace(struct decoder_plan *plan, struct bytes from, struct bytes to,
                        struct error *err) {
    if (!from.len || plan->fused || plan->replace_count == REPLACES_MAX)
        return error_set(err, ERR_UNSUPPORTED, "decoder Replace in this form is not supported");
    plan->from[plan->replace_count] = from;
    plan->to[plan->replace_count++] = to;
    return 0;
}

static int plan_strip(struct decoder_plan *plan, struct json_value json, struct error *err) {
    struct json_value content = json_get(json, "content"), start = json_get(json, "start"),
                      stop = json_get(json, "stop");
    bool fits = content.kind == JSON_IS_STRING && content.count == 1 && start.kind == JSON_IS_INT &&
                start.integer >= 0 && start.integer < 1024 && stop.kind == JSON_IS_INT &&
                stop.integer == 0 && plan->fused;
    if (!fits)
        return error_set(err, ERR_UNSUPPORTED, "decoder Strip in this form is not supported");
    plan->decoder->strip_byte = content.text[0];
    plan->decoder->strip_count = (uint32_t)start.integer;
    return 0;
}

static int plan_metaspace(struct decoder_plan *plan, struct json_value json, struct error *err) {
    struct json_value replacement = json_get(json, "replacement"),
                      scheme = json_get(json, "prepend_scheme");
    struct json_value legacy = json_get(json, "add_prefix_space");
    if (replacement.kind == JSON_IS_STRING && !json_is(replacement, METASPACE))
        return error_set(err, ERR_UNSUPPORTED,
                         "decoder Metaspace with another replacement is not supported");
    bool never = json_is(scheme, "never") ||
                 (scheme.kind == JSON_IS_ABSENT && legacy.kind == JSON_IS_BOOL && !legacy.boolean);
    plan->decoder->drop_first_space = !never;
    return plan_replace(plan, bytes_str(METASPACE), bytes_str(" "), err);
}

static int plan_words(struct decoder_plan *plan, struct json_value json, struct error *err) {
    struct json_value prefix = json_get(json, "prefix"), cleanup = json_get(json, "cleanup");
    struct decoder *d = plan->decoder;
    struct bytes text = prefix.kind == JSON_IS_STRING ? json_text(prefix) : bytes_str("##");
    if (plan->replace_count || d->byte_fallback || text.len > WORDPIECE_PREFIX_MAX)
        return error_set(err, ERR_UNSUPPORTED, "decoder WordPiece in this form is not supported");
    memcpy(d->prefix, text.data, text.len);
    d->prefix[text.len] = 0;
    d->words = true;
    d->cleanup = cleanup.kind != JSON_IS_BOOL || cleanup.boolean;
    return 0;
}

static int plan_step(struct decoder_plan *plan, struct json_value json, unsigned depth,
                     struct error *err) {
    struct json_value type = json_get(json, "type");
    int rc = 0;
    if (json_is(type, "Sequence")) {
        struct json_value list = json_get(json, "decoders");
        if (depth > 8)
            return error_set(err, ERR_LIMIT, "decoder: sequences nested too deep");
        for (size_t i = 0; !rc && i < json_count(list); i++)
            rc = plan_step(plan, json_at(list, i), depth + 1, err);
        return rc;
    }
    if (json_is(type, "ByteLevel")) {
        /* the chain does that */
        if (depth)
            return error_set(err, ERR_UNSUPPORTED, "decoder ByteLevel among others");
        plan->decoder->kind = DECODER_BYTES;
        return 0;
    }
    if (json_is(type, "Fuse")) {
        plan->fused = true;
        return 0;
    }
    if (json_is(type, "ByteFallback")) {
        plan->decoder->byte_fallback = true;
        return 0;
    }
    if (json_is(type, "Strip"))
        return plan_strip(plan, json, err);
    if (json_is(type, "Metaspace"))
        return plan_metaspace(plan, json, err);
    if (json_is(type, "WordPiece"))
        return plan_words(plan, json, err);
    if (json_is(type, "Replace"))
        return plan_replace(plan, json_text(json_get(json_get(json, "pattern"), "String")),
                            json_text(json_get(json, "content")), err);
    return error_set(err, ERR_UNSUPPORTED, "decoder '%.*s' is not supported",
                     (int)MIN(type.count, 64u), type.kind == JSON_IS_STRING ? type.text : "");
}

int detokenize_fallback_byte(struct bytes s) {
    if (s.len != 6 || memcmp(s.data, "<0x", 3) || s.data[5] != '>')
        return -1;
    int high = hex_value(s.data[3]), low = hex_value(s.data[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

void detokenize_add_replaced(struct buf *out, struct bytes s, struct bytes from, struct bytes to) {
    if (!s.len)
        return; /* may be a null pointer, from which nothing is counted */
    const uint8_t *p = s.data, *end = s.data + s.len, *hit;
    while (from.len && p < end &&
           (hit = memchr(p, from.data[0], (size_t)(end - p))) && /* memmem's start is slow */
           (hit = memmem(hit, (size_t)(end - hit), from.data, from.len))) {
        buf_add(out, p, (size_t)(hit - p));
        buf_add_bytes(out, to);
        p = hit + from.len;
    }
    if (p < end)
        buf_add(out, p, (size_t)(end - p));
}

void detokenize_add_cleaned(struct buf *out, struct bytes s) {
    static const char *const CLEANUPS[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct buf texts[2] = {{0}, {0}};
    buf_add_bytes(&texts[0], s);
    for (size_t i = 0; i < ARRAY_LEN(CLEANUPS); i++) {
        buf_reset(&texts[(i + 1) % 2]);
        detokenize_add_replaced(&texts[(i + 1) % 2], buf_bytes(&texts[i % 2]),
                                bytes_str(CLEANUPS[i][0]), bytes_str(CLEANUPS[i][1]));
    }
    buf_add_bytes(out, buf_bytes(&texts[ARRAY_LEN(CLEANUPS) % 2]));
    buf_release(&texts[0]);
    buf_release(&texts[1]);
}

/* A token as WordPiece decodes it; first: no space before it, and its prefix stays. */
static void add_word(const struct decoder *d, struct bytes spelling, bool first, struct buf *out) {
    size_t prefix_len = strlen(d->prefix);
    bool continues = spelling.len >= prefix_len && !memcmp(spelling.data, d->prefix, prefix_len);
    struct buf word = {0};
    if (!first && !continues)
        buf_add_byte(&word, ' ');
    if (!first && continues)
        spelling = bytes_of(spelling.data + prefix_len, spelling.len - prefix_len);
    buf_add_bytes(&word, spelling);
    if (d->cleanup)
        detokenize_add_cleaned(out, buf_bytes(&word));
    else
        buf_add_bytes(out, buf_bytes(&word));
    buf_release(&word);
}

static void make_text(struct tokenizer *t, const struct decoder_plan *plan, uint32_t id,
                      struct buf scratch[2]) {
    struct token_text *text = &t->token_texts[id];
    buf_reset(&scratch[1]);
    vocab_spelling(&t->vocab, id, &scratch[1]);
    struct bytes s = buf_bytes(&scratch[1]);
    text->start = (uint32_t)t->texts.len;
    if (t->decoder.words) {
        add_word(&t->decoder, s, false, &t->texts);
        text->len = (uint32_t)t->texts.len - text->start;
        return;
    }
    for (size_t i = 0; i < plan->replace_count && s.len; i++) {
        struct buf *out = &scratch[i % 2];
        buf_reset(out);
        detokenize_add_replaced(out, s, plan->from[i], plan->to[i]);
        s = bytes_of(buf_text(out), out->len);
    }
    int byte = t->decoder.byte_fallback ? detokenize_fallback_byte(s) : -1;
    if (byte >= 0) {
        text->flags = TOKEN_TEXT_BYTE;
        buf_add_byte(&t->texts, (char)byte);
    } else {
        buf_add_bytes(&t->texts, s);
    }
    text->len = (uint32_t)t->texts.len - text->start;
}

void decoder_begin_texts(struct tokenizer *t) {
    buf_init(&t->texts, UINT32_MAX - 1);
    t->token_texts = mem_calloc(MAX(t->vocab.entries.count, (size_t)1), sizeof *t->token_texts);
}

void decoder_add_text(struct tokenizer *t, uint32_t id, struct bytes text, bool metaspaced) {
    struct token_text *out = &t->token_texts[id];
    int byte = metaspaced && t->decoder.byte_fallback ? detokenize_fallback_byte(text) : -1;
    out->start = (uint32_t)t->texts.len;
    if (byte >= 0) {
        out->flags = TOKEN_TEXT_BYTE;
        buf_add_byte(&t->texts, (char)byte);
    } else if (metaspaced) {
        detokenize_add_replaced(&t->texts, text, bytes_str(METASPACE), bytes_str(" "));
    } else {
        buf_add_bytes(&t->texts, text);
    }
    out->len = (uint32_t)t->texts.len - out->start;
}

/* Each token's text as the chain gives it in the middle of others. */
static void make_chain_text(struct tokenizer *t, uint32_t id, struct buf *spelling) {
    struct token_text *text = &t->token_texts[id];
    buf_reset(spelling);
    vocab_spelling(&t->vocab, id, spelling);
    struct bytes token = bytes_of(buf_text(spelling), spelling->len);
    text->start = (uint32_t)t->texts.len;
    if (token.len)
        decoder_chain_run(&t->chain, &token, 1, false, false, &t->texts);
    text->len = (uint32_t)t->texts.len - text->start;
}

/* ByteLevel over a vocabulary of spellings (its normalizer maps bytes to the alphabet): raw bytes
 * where it is made of the alphabet. */
static void make_raw_text(struct tokenizer *t, uint32_t id) {
    struct token_text *text = &t->token_texts[id];
    struct bytes key = vocab_key(&t->vocab, id);
    text->start = (uint32_t)t->texts.len;
    if (!byte_alphabet_to_bytes(key, &t->texts))
        buf_add_bytes(&t->texts, key);
    text->len = (uint32_t)t->texts.len - text->start;
}

int decoder_load(struct tokenizer *t, struct json_value json, struct error *err) {
    struct decoder_plan plan = {.decoder = &t->decoder};
    struct buf scratch[2] = {0};
    int rc = 0;
    t->decoder.kind = json.kind == JSON_IS_OBJECT ? DECODER_TEXT : DECODER_SPACED;
    bool planned = json.kind != JSON_IS_OBJECT || !plan_step(&plan, json, 0, err);
    if (!planned) {
        t->decoder = (struct decoder){.kind = DECODER_CHAIN};
        rc = decoder_chain_load(&t->chain, json, err);
    }
    if (rc || (t->decoder.kind == DECODER_BYTES && t->vocab.byte_level))
        return rc;
    decoder_begin_texts(t);
    for (uint32_t id = 0; id < t->vocab.entries.count; id++)
        if (t->decoder.kind == DECODER_CHAIN)
            make_chain_text(t, id, &scratch[0]);
        else if (t->decoder.kind == DECODER_BYTES)
            make_raw_text(t, id);
        else
            make_text(t, &plan, id, scratch);
    buf_release(&scratch[0]);
    buf_release(&scratch[1]);
    return t->texts.failed ? error_set(err, ERR_LIMIT, "the decoded vocabulary is larger than 4 GB")
                           : 0;
}

/* ---- single tokens ---- */

struct bytes tokenizer_token_bytes(const struct tokenizer *t, uint32_t id) {
    if (id >= t->vocab.entries.count)
        return bytes_of(NULL, 0);
    if (!t->token_texts)
        return vocab_key(&t->vocab, id);
    return bytes_of(buf_text(&t->texts) + t->token_texts[id].start, t->token_texts[id].len);
}

struct bytes detokenize_token_text(const struct tokenizer *t, uint32_t id, bool first,
                                   struct buf *scratch) {
    if (first && t->decoder.first_space != FIRST_SPACE_KEPT && !detokenize_is_byte(t, id)) {
        struct bytes text = tokenizer_token_bytes(t, id), key = vocab_key(&t->vocab, id);
        bool space =
            key.len >= 3 && !memcmp(key.data, METASPACE, 3) && text.len && text.data[0] == ' ';
        return bytes_of(text.data + space, text.len - space);
    }
    if (!first || !(t->decoder.drop_first_space || t->decoder.words) || detokenize_is_byte(t, id))
        return tokenizer_token_bytes(t, id);
    struct buf spelling = {0};
    vocab_spelling(&t->vocab, id, &spelling);
    buf_reset(scratch);
    if (t->decoder.words) {
        add_word(&t->decoder, buf_bytes(&spelling), true, scratch);
    } else {
        detokenize_add_replaced(scratch, buf_bytes(&spelling), bytes_str(METASPACE), bytes_str(""));
    }
    buf_release(&spelling);
    return bytes_of(buf_text(scratch), scratch->len);
}

struct bytes detokenize_strip(const struct decoder *d, struct bytes text, uint32_t *left) {
    while (*left && text.len && text.data[0] == (uint8_t)d->strip_byte) {
        text = bytes_of(text.data + 1, text.len - 1);
        --*left;
    }
    if (text.len)
        *left = 0;
    return text;
}

/* ---- bad bytes ---- */

void detokenize_add_bad(struct buf *out, size_t n) {
    while (n--)
        buf_add(out, "\xEF\xBF\xBD", 3);
}

size_t detokenize_bad_len(const uint8_t *data, size_t len) {
    for (size_t n = MIN(len, (size_t)3); n > 1; n--)
        if (utf8_is_partial(data, n))
            return n;
    return 1;
}

/* Reads bytes as UTF-8, U+FFFD for each maximal subpart that is none, or for each of its bytes. */
static void add_lossy(struct buf *out, struct bytes s, bool singly) {
    while (s.len) {
        size_t good = utf8_valid_prefix(s.data, s.len);
        buf_add(out, s.data, good);
        s = bytes_of(s.data + good, s.len - good);
        if (!s.len)
            return;
        size_t bad = detokenize_bad_len(s.data, s.len);
        detokenize_add_bad(out, singly ? bad : 1);
        s = bytes_of(s.data + bad, s.len - bad);
    }
}

void detokenize_add_lossy(struct buf *out, struct bytes s) {
    add_lossy(out, s, false);
}

/* ---- whole decoding ---- */

/* A run of byte tokens that began at `from` in out: characters if all of it is valid, else one
 * U+FFFD a byte. */
static void close_run(const struct tokenizer *t, struct buf *out, size_t from) {
    size_t len = out->len - from;
    if (out->failed || utf8_valid(out->data + from, len))
        return;
    struct buf run = {0};
    buf_add(&run, out->data + from, len);
    out->len = from;
    if (t->decoder.bytes_singly)
        add_lossy(out, buf_bytes(&run), true);
    else
        detokenize_add_bad(out, len);
    buf_release(&run);
}

static void detokenize_texts(const struct tokenizer *t, struct tokens ids, unsigned flags,
                             struct buf *out) {
    const size_t NOT_OPEN = SIZE_MAX;
    size_t run = NOT_OPEN;
    bool first = !(flags & DETOKENIZE_CONTINUES), spaced = !first;
    struct buf scratch = {0};
    for (size_t i = 0; i < ids.count; i++) {
        uint32_t id = ids.ids[i];
        if (id >= t->vocab.entries.count || t->vocab.entries.items[id].start == VOCAB_ABSENT)
            continue;
        if (flags & DETOKENIZE_SKIP_SPECIAL && tokenizer_is_special(t, id))
            continue;
        bool is_byte = detokenize_is_byte(t, id);
        if (is_byte && run == NOT_OPEN)
            run = out->len;
        if (!is_byte && run != NOT_OPEN) {
            close_run(t, out, run);
            run = NOT_OPEN;
        }
        if (t->decoder.kind == DECODER_SPACED && spaced)
            buf_add_byte(out, ' ');
        struct bytes text = detokenize_token_text(t, id, first, &scratch);
        buf_add_bytes(out, text);
        first = first && detokenize_still_first(t, tokenizer_token_bytes(t, id), text);
        spaced = true;
    }
    if (run != NOT_OPEN)
        close_run(t, out, run);
    buf_release(&scratch);
}

static void detokenize_bytes(const struct tokenizer *t, struct tokens ids, unsigned flags,
                             struct buf *out) {
    struct buf raw = {0};
    for (size_t i = 0; i < ids.count; i++) {
        if (flags & DETOKENIZE_SKIP_SPECIAL && tokenizer_is_special(t, ids.ids[i]))
            continue;
        buf_add_bytes(&raw, tokenizer_token_bytes(t, ids.ids[i]));
    }
    add_lossy(out, buf_bytes(&raw), false);
    buf_release(&raw);
}

static void detokenize_by_chain(const struct tokenizer *t, struct tokens ids, unsigned flags,
                                struct buf *out) {
    struct buf spellings = {0};
    VEC(size_t) ends = {0};
    VEC(struct bytes) tokens = {0};
    for (size_t i = 0; i < ids.count; i++) {
        uint32_t id = ids.ids[i];
        if (id >= t->vocab.entries.count || t->vocab.entries.items[id].start == VOCAB_ABSENT)
            continue;
        if (flags & DETOKENIZE_SKIP_SPECIAL && tokenizer_is_special(t, id))
            continue;
        vocab_spelling(&t->vocab, id, &spellings);
        vec_push(&ends, spellings.len);
    }
    for (size_t i = 0; i < ends.count; i++) {
        size_t start = i ? ends.items[i - 1] : 0;
        vec_push(&tokens, bytes_of(buf_text(&spellings) + start, ends.items[i] - start));
    }
    decoder_chain_run(&t->chain, tokens.items, tokens.count, !(flags & DETOKENIZE_CONTINUES), true,
                      out);
    vec_release(&ends);
    vec_release(&tokens);
    buf_release(&spellings);
}

void tokenizer_detokenize(const struct tokenizer *t, struct tokens ids, unsigned flags,
                          struct buf *out) {
    CHECK(t && out && (ids.ids || !ids.count));
    if (t->decoder.kind == DECODER_CHAIN) {
        detokenize_by_chain(t, ids, flags, out);
        return;
    }
    if (t->decoder.kind == DECODER_BYTES) {
        detokenize_bytes(t, ids, flags, out);
        return;
    }
    size_t before = out->len;
    detokenize_texts(t, ids, flags, out);
    uint32_t left = flags & DETOKENIZE_CONTINUES ? 0 : t->decoder.strip_count;
    struct bytes all = bytes_of(buf_text(out) + before, out->len - before);
    size_t stripped = all.len - detokenize_strip(&t->decoder, all, &left).len;
    if (!stripped)
        return;
    memmove(out->data + before, out->data + before + stripped, all.len - stripped + 1);
    out->len -= stripped;
}
