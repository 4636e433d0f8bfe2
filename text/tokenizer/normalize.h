/*
 * normalize.h - the normalizer of tokenizer.json: a chain of rewrites applied to text between added
 * tokens.
 *
 * normalize.c does it, normalize_offsets.c keeps account of where each byte comes from.
 *
 * Threading: const after normalizer_load.
 */
#ifndef TEXT_TOKENIZER_NORMALIZE_H
#define TEXT_TOKENIZER_NORMALIZE_H

#include "formats/json_tree.h"
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/offsets.h"
#include "text/tokenizer/regex_run.h"

enum { NORMALIZER_STEPS_MAX = 16 };

enum normalizer_kind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_NFKC,
    NORMALIZE_NFKD,
    NORMALIZE_LOWERCASE,
    NORMALIZE_STRIP,
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_REPLACE_REGEX,
    NORMALIZE_CHARSMAP,
    NORMALIZE_NMT,
    NORMALIZE_BYTE_LEVEL,       /* bytes to the characters of the byte alphabet */
    NORMALIZE_BERT_CLEAN,       /* control characters out, white space to spaces */
    NORMALIZE_BERT_CHINESE,     /* spaces around ideographs */
    NORMALIZE_STRIP_NONSPACING, /* marks that take no space, after NFD */
    NORMALIZE_SENTENCEPIECE,    /* all that SentencePiece does */
};

struct spm_normalizer;
struct normalizer_step {
    enum normalizer_kind kind;
    char *pattern, *content; /* owned; PREPEND: content, REPLACE: both */
    size_t pattern_len, content_len;
    bool left, right;           /* STRIP */
    struct regex regex;         /* REPLACE_REGEX; owned */
    struct charsmap charsmap;   /* CHARSMAP */
    struct spm_normalizer *spm; /* SENTENCEPIECE; owned */
};

struct normalizer {
    struct normalizer_step steps[NORMALIZER_STEPS_MAX];
    size_t step_count;
};

/* From the "normalizer" value of tokenizer.json (none: does nothing). On error nothing is owned. */
MUST_CHECK int normalizer_load(struct normalizer *n, struct json_value json, struct error *err);
/* Gives back all memory; n has no steps then. */
void normalizer_release(struct normalizer *n);
/* Returns the normalized text: the text itself when nothing changes, else a view into *a or *b
 * (both overwritten). Valid UTF-8 fails for lack of memory, where it is too hard for a pattern
 * (run->refused: see regex_run.h; each step allows those of what it gets), and where a step makes
 * more of it than normalizer_most_bytes: then the view's data is NULL. */
struct bytes normalizer_apply(const struct normalizer *n, struct bytes text, struct regex_run *run,
                              struct buf *a, struct buf *b);
/* The same; *map, of text, becomes the one of what is returned. */
struct bytes normalizer_apply_mapped(const struct normalizer *n, struct bytes text,
                                     struct regex_run *run, struct offset_map *map, struct buf *a,
                                     struct buf *b);

/* ---- for normalize_offsets.c ---- */

/* A Replace put its content in the place of [begin, end). */
struct normalizer_edit {
    size_t begin, end;
};
struct normalizer_edits {
    VEC(struct normalizer_edit) list;
};
/* Appends s as the step makes it; not for STRIP. Edits of a Replace are noted unless edits is NULL.
 * False: out of memory, or too hard for a pattern. */
bool normalizer_apply_step(const struct normalizer_step *step, struct bytes s,
                           struct regex_run *run, struct buf *out, struct normalizer_edits *edits);
/* So much steps may make of a text of len bytes: half as much again as NFKC and the byte alphabet
 * together, which make most of all that models use. One step after the other could make a thousand
 * times as much of each letter. */
size_t normalizer_most_bytes(size_t len);
/* True when the step would leave s as it is, known without doing it. */
bool normalizer_is_identity(const struct normalizer_step *step, struct bytes s);
/* s without the white space that a step of kind NORMALIZE_STRIP takes; borrows. */
struct bytes normalizer_strip(const struct normalizer_step *step, struct bytes s);
/* Marks (and one composition) younger than the tables of HF's normalizer, Unicode 10: it leaves
 * them where they stand. */
bool normalizer_is_young_mark(uint32_t cp);

#endif
