#include "text/tokenizer/normalize.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer/nfc.h"
#include "text/tokenizer/spm_normalize.h"
#include "text/tokenizer/unicode_form.h"
#include "text/tokenizer/vocab.h"
#include "text/unicode.h"

/* ---- Unicode's forms ---- */

static bool is_ascii(struct bytes s) {
    size_t i = 0;
    for (; i + 8 <= s.len; i += 8) {
        uint64_t word;
        memcpy(&word, s.data + i, 8);
        if (word & 0x8080808080808080u)
            return false;
    }
    for (; i < s.len; i++)
        if (s.data[i] & 0x80)
            return false;
    return true;
}

/* The parts around each UNICODE_NO_JAMO by themselves. */
static bool compose(struct bytes s, utf8proc_option_t options, struct buf *out) {
    static const char ALONE[] = "\xE1\x86\xA7";
    const uint8_t *p = s.data, *end = s.data + s.len, *hit;
    while (p < end && (hit = memmem(p, (size_t)(end - p), ALONE, 3))) {
        if (hit > p && !unicode_form(bytes_of(p, (size_t)(hit - p)), options, out))
            return false;
        buf_add(out, ALONE, 3);
        p = hit + 3;
    }
    return p == end || unicode_form(bytes_of(p, (size_t)(end - p)), options, out);
}

bool normalizer_is_young_mark(uint32_t cp) {
    static const uint32_t RUNS[][2] = {
        {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
        {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
        {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
        {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
        {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x113CE, 0x113D0},
        {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x11935, 0x11935},
        {0x11938, 0x11938}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
        {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
        {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1612F, 0x1612F},
        {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
        {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}};
    if (cp > RUNS[ARRAY_LEN(RUNS) - 1][1])
        return false;
    for (size_t i = 0; i < ARRAY_LEN(RUNS) && cp >= RUNS[i][0]; i++)
        if (cp <= RUNS[i][1])
            return true;
    return false;
}

static bool is_nfc_stable(uint32_t cp) {
    return nfc_is_stable(cp) || normalizer_is_young_mark(cp);
}

/* Start of the first character at or after `at` that is (or is not) stable; *before: start of the
 * character in front of it. */
static size_t find_stability(struct bytes s, size_t at, bool stable, size_t *before) {
    size_t last = at, first = at;
    uint32_t cp = 0, last_cp = 0;
    for (size_t n; at < s.len; at += n, last_cp = cp) {
        size_t skipped = stable ? at : nfc_skip_stable(s, at);
        if (skipped > at)
            last = skipped - unicode_prev(s.data + skipped, &last_cp);
        at = skipped;
        if (at == s.len)
            break;
        n = unicode_next(s.data + at, &cp);
        if (is_nfc_stable(cp) == stable)
            break;
        last = at;
    }
    *before = at > first && last_cp >= 0x80 && normalizer_is_young_mark(last_cp) ? at : last;
    return at;
}

/* NFC of the parts that need it: from the character in front of an unstable one to the next stable
 * one. */
static bool compose_nfc(struct bytes s, struct buf *out) {
    size_t done = 0, before, ignored;
    bool ok = true;
    while (ok) {
        size_t unstable = find_stability(s, done, false, &before);
        if (unstable == s.len)
            break;
        size_t stop = find_stability(s, unstable, true, &ignored);
        buf_add(out, s.data + done, before - done);
        ok = compose(bytes_of(s.data + before, stop - before), UTF8PROC_COMPOSE, out);
        done = stop;
    }
    buf_add(out, s.data + done, s.len - done);
    return ok;
}

/* ---- other rewrites ---- */

/* How many printable ASCII characters stand at the place: common, and left as they are by most
 * rewrites. */
static size_t printable_run(struct bytes s, size_t at) {
    size_t n = 0;
    while (at + n < s.len && s.data[at + n] >= ' ' && s.data[at + n] < 0x7F)
        n++;
    return n;
}

/* Copies printable ASCII as it is, up to the next character of another kind: that is *c, which the
 * caller writes in its own way. False: the text is over. */
static bool next_other(struct bytes s, size_t *at, struct buf *out, struct bytes *c, uint32_t *cp) {
    size_t run = printable_run(s, *at);
    if (run)
        buf_add(out, s.data + *at, run);
    *at += run;
    if (*at == s.len)
        return false;
    *c = bytes_of(s.data + *at, unicode_next(s.data + *at, cp));
    *at += c->len;
    return true;
}

static bool lower(struct bytes s, struct buf *out) {
    for (size_t i = 0; i < s.len;) {
        uint32_t cp;
        char utf8[4];
        size_t run = printable_run(s, i), from = out->len;
        buf_add(out, s.data + i, run);
        for (size_t k = from; k < out->len; k++)
            if (out->data[k] >= 'A' && out->data[k] <= 'Z')
                out->data[k] |= 0x20;
        i += run;
        if (run)
            continue;
        i += unicode_next(s.data + i, &cp);
        if (cp == 0x130) { /* the one full mapping of lower case that is longer */
            buf_add_str(out, "i\xCC\x87");
            continue;
        }
        buf_add(out, utf8, utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), utf8));
    }
    return true;
}

static bool leave_out(struct bytes s, uint32_t categories, struct buf *out) {
    for (size_t i = 0, n; i < s.len; i += n) {
        uint32_t cp;
        n = unicode_next(s.data + i, &cp);
        if (!unicode_in_old(cp, categories))
            buf_add(out, s.data + i, n);
    }
    return true;
}

static bool bert_clean(struct bytes s, struct buf *out) {
    const uint32_t others = 1 << UNICODE_CC | 1 << UNICODE_CF | 1 << UNICODE_CS | 1 << UNICODE_CO;
    struct bytes c;
    uint32_t cp;
    for (size_t at = 0; next_other(s, &at, out, &c, &cp);) {
        bool line = cp == '\t' || cp == '\n' || cp == '\r';
        if (!line && (!cp || cp == 0xFFFD || unicode_in_old(cp, others)))
            continue;
        if (line || unicode_is_space(cp))
            buf_add_byte(out, ' ');
        else
            buf_add_bytes(out, c);
    }
    return true;
}

static bool is_in_ranges(uint32_t cp, const uint32_t (*ranges)[2], size_t count) {
    for (size_t i = 0; i < count; i++)
        if (cp >= ranges[i][0] && cp <= ranges[i][1])
            return true;
    return false;
}

static bool bert_chinese(struct bytes s, struct buf *out) {
    static const uint32_t RANGES[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                         {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                         {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    struct bytes c;
    uint32_t cp;
    for (size_t at = 0; next_other(s, &at, out, &c, &cp);) {
        bool chinese = is_in_ranges(cp, RANGES, ARRAY_LEN(RANGES));
        if (chinese)
            buf_add_byte(out, ' ');
        buf_add_bytes(out, c);
        if (chinese)
            buf_add_byte(out, ' ');
    }
    return true;
}

/* Control characters out, odd spaces to spaces: the rules of Google's neural translation. */
static bool nmt(struct bytes s, struct buf *out) {
    static const uint32_t OUT[][2] = {{1, 8},       {0xB, 0xB},   {0xE, 0x1F},
                                      {0x7F, 0x7F}, {0x8F, 0x8F}, {0x9F, 0x9F}};
    static const uint32_t SPACES[][2] = {{9, 0xA},         {0xC, 0xD},       {0x1680, 0x1680},
                                         {0x200B, 0x200F}, {0x2028, 0x2029}, {0x2581, 0x2581},
                                         {0xFEFF, 0xFEFF}, {0xFFFD, 0xFFFD}};
    struct bytes c;
    uint32_t cp;
    for (size_t at = 0; next_other(s, &at, out, &c, &cp);) {
        if (is_in_ranges(cp, SPACES, ARRAY_LEN(SPACES)))
            buf_add_byte(out, ' ');
        else if (!is_in_ranges(cp, OUT, ARRAY_LEN(OUT)))
            buf_add_bytes(out, c);
    }
    return true;
}

/* False also when the text is too hard for the pattern. */
static bool replace_regex(const struct normalizer_step *step, struct bytes s, struct regex_run *run,
                          struct buf *out, struct normalizer_edits *edits) {
    size_t done = 0, at = 0, begin, end;
    int rc;
    regex_run_allow(run, s.len);
    while ((rc = regex_run_next(run, &step->regex, s, &at, done, &begin, &end)) > 0) {
        buf_add(out, s.data + done, begin - done);
        buf_add(out, step->content, step->content_len);
        if (edits)
            vec_push(&edits->list, ((struct normalizer_edit){begin, end}));
        done = end;
    }
    buf_add(out, s.data + done, s.len - done);
    return rc >= 0;
}

static bool replace(const struct normalizer_step *step, struct bytes s, struct buf *out,
                    struct normalizer_edits *edits) {
    const uint8_t *p = s.data, *end = s.data + s.len, *hit;
    while (p < end && (hit = memmem(p, (size_t)(end - p), step->pattern, step->pattern_len))) {
        buf_add(out, p, (size_t)(hit - p));
        buf_add(out, step->content, step->content_len);
        p = hit + step->pattern_len;
        if (edits)
            vec_push(&edits->list,
                     ((struct normalizer_edit){(size_t)(hit - s.data), (size_t)(p - s.data)}));
    }
    buf_add(out, p, (size_t)(end - p));
    return true;
}

struct bytes normalizer_strip(const struct normalizer_step *step, struct bytes s) {
    uint32_t cp;
    while (step->left && s.len) {
        size_t n = unicode_next(s.data, &cp);
        if (!unicode_is_space(cp))
            break;
        s = bytes_of(s.data + n, s.len - n);
    }
    while (step->right && s.len) {
        size_t n = unicode_prev(s.data + s.len, &cp);
        if (!unicode_is_space(cp))
            break;
        s.len -= n;
    }
    return s;
}

/* ---- applying ---- */

bool normalizer_apply_step(const struct normalizer_step *step, struct bytes s,
                           struct regex_run *run, struct buf *out, struct normalizer_edits *edits) {
    switch (step->kind) {
    case NORMALIZE_NFC: return compose_nfc(s, out);
    case NORMALIZE_NFD: return compose(s, UTF8PROC_DECOMPOSE, out);
    case NORMALIZE_NFKC: return compose(s, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, out);
    case NORMALIZE_NFKD: return compose(s, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, out);
    case NORMALIZE_LOWERCASE: return lower(s, out);
    case NORMALIZE_STRIP_ACCENTS: return leave_out(s, UNICODE_M, out);
    case NORMALIZE_STRIP_NONSPACING: return leave_out(s, 1 << UNICODE_MN, out);
    case NORMALIZE_REPLACE_REGEX: return replace_regex(step, s, run, out, edits);
    case NORMALIZE_BERT_CLEAN: return bert_clean(s, out);
    case NORMALIZE_BERT_CHINESE: return bert_chinese(s, out);
    case NORMALIZE_NMT: return nmt(s, out);
    case NORMALIZE_BYTE_LEVEL: byte_alphabet_to_text(s, out); return true;
    case NORMALIZE_CHARSMAP: charsmap_apply(&step->charsmap, s, out); return true;
    case NORMALIZE_REPLACE: return replace(step, s, out, edits);
    case NORMALIZE_SENTENCEPIECE: spm_normalize(step->spm, s, out); return true;
    case NORMALIZE_PREPEND:
        buf_add(out, step->content, step->content_len);
        buf_add_bytes(out, s);
        return true;
    case NORMALIZE_STRIP: break;
    }
    return false;
}

size_t normalizer_most_bytes(size_t len) {
    return 32 * len + 64;
}

bool normalizer_is_identity(const struct normalizer_step *step, struct bytes s) {
    size_t ignored;
    switch (step->kind) {
    case NORMALIZE_NFC: return find_stability(s, 0, false, &ignored) == s.len;
    case NORMALIZE_NFD:
    case NORMALIZE_NFKC:
    case NORMALIZE_NFKD:
    case NORMALIZE_STRIP_ACCENTS:
    case NORMALIZE_STRIP_NONSPACING:
    case NORMALIZE_BERT_CHINESE: return is_ascii(s);
    case NORMALIZE_REPLACE: return !memmem(s.data, s.len, step->pattern, step->pattern_len);
    default: return false;
    }
}

struct bytes normalizer_apply(const struct normalizer *n, struct bytes text, struct regex_run *run,
                              struct buf *a, struct buf *b) {
    CHECK(run && a != b && n->step_count <= NORMALIZER_STEPS_MAX);
    const size_t given = text.len;
    struct buf *out = a;
    for (size_t i = 0; i < n->step_count && text.len; i++) {
        const struct normalizer_step *step = &n->steps[i];
        if (step->kind == NORMALIZE_STRIP) {
            text = normalizer_strip(step, text);
            continue;
        }
        if (normalizer_is_identity(step, text))
            continue;
        buf_reset(out);
        out->limit = normalizer_most_bytes(given);
        buf_reserve(out, MIN(text.len + text.len / 4, out->limit));
        if (!normalizer_apply_step(step, text, run, out, NULL) || out->failed ||
            out->len > out->limit)
            return bytes_of(NULL, 0);
        text = bytes_of(buf_text(out), out->len);
        out = out == a ? b : a;
    }
    return text;
}
