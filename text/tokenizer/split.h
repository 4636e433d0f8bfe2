/*
 * split.h - the pre-tokenizer of tokenizer.json: a chain of stages that cuts text into the pieces
 * the model sees.
 *
 * Each stage cuts every span it gets; a stage may also rewrite a span (Metaspace, ByteLevel's
 * prefix space). Pieces are handed over one by one, nothing is collected. ByteLevel as the last
 * stage leaves the bytes alone (the vocabulary's keys are raw bytes); stages after it see the byte
 * alphabet's characters, as HF's do, and pieces are turned back at the end.
 *
 * Threading: const after splitter_load; a scratch belongs to one thread at a time.
 */
#ifndef TEXT_TOKENIZER_SPLIT_H
#define TEXT_TOKENIZER_SPLIT_H

#include "formats/json_tree.h"
#include "text/tokenizer/fast/scan_block.h"
#include "text/tokenizer/offsets.h"
#include "text/tokenizer/regex_run.h"

enum { SPLIT_STAGES_MAX = 16 };

enum split_kind {
    SPLIT_SCAN,         /* a known pattern, isolated: scan.h */
    SPLIT_REGEX,        /* PCRE2 */
    SPLIT_LITERAL,      /* a string */
    SPLIT_DIGITS,       /* runs of \p{N} */
    SPLIT_DIGIT,        /* each \p{N} */
    SPLIT_PUNCTUATION,  /* ASCII punctuation and \p{P}, each */
    SPLIT_SPACES,       /* white space, each */
    SPLIT_WORDS,        /* \w+|[^\w\s]+ */
    SPLIT_METASPACE,    /* rewrite, then perhaps cut before each replacement */
    SPLIT_PREFIX_SPACE, /* rewrite: begin with a space */
    SPLIT_BYTE_MAP,     /* rewrite: bytes to the byte alphabet */
    SPLIT_LENGTH,       /* so many characters each */
    SPLIT_GROUPS,       /* before digits of which a multiple of three is left in their run */
    /* runs of one script; what goes with any belongs to the run before, and is dropped at the
     * start */
    SPLIT_SCRIPTS,
};

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};
enum metaspace_prepend { METASPACE_NEVER, METASPACE_FIRST, METASPACE_ALWAYS };

struct split_stage {
    enum split_kind kind;
    enum split_behavior behavior;
    bool invert, metaspace_split;
    enum metaspace_prepend prepend;
    scan_fn *scan;
    scan_block_fn *block; /* the same by blocks, or NULL */
    struct regex regex;   /* of SPLIT_REGEX; owned */
    char *literal;        /* owned: of SPLIT_LITERAL, or the replacement of metaspace */
    size_t literal_len;
    uint32_t length; /* of SPLIT_LENGTH */
};

struct splitter {
    struct split_stage stages[SPLIT_STAGES_MAX];
    size_t stage_count;
    bool byte_level; /* a ByteLevel stage is there: the vocabulary is one of bytes */
    bool mapped;     /* pieces come out in the byte alphabet */
};

/* Where pieces come from. The caller zeroes it and sets view to the text's; while a piece is handed
 * over, view is that of the buffer it lies in. */
struct split_track {
    struct offset_view view;
    /* private: of what the stages rewrote, and of raw pieces */
    struct offset_map maps[SPLIT_STAGES_MAX + 1];
};
/* Gives back all memory. */
void split_track_release(struct split_track *track);

struct split_scratch {
    struct buf rewritten[SPLIT_STAGES_MAX];
    struct buf raw;
    /* its steps are for all texts until regex_run_begin; splitter_run allows those of its text's
     * bytes */
    struct regex_run regex;
};

/* Called for each piece, never empty; data is valid during the call, and bytes before limit (at
 * least the piece's) may be read. Nonzero ends the splitting with that code. */
typedef int split_piece_fn(void *ctx, struct bytes piece, const uint8_t *limit);

/* From the "pre_tokenizer" value of tokenizer.json (none: one piece). On error nothing is owned. */
MUST_CHECK int splitter_load(struct splitter *s, struct json_value json, struct error *err);
/* Gives back all memory; s has no stages then. */
void splitter_release(struct splitter *s);
/* Gives back all memory; scratch is empty then. */
void split_scratch_release(struct split_scratch *scratch);
/* at_start: the text begins where the whole text began (Metaspace's "first"; with track its spans
 * say so). ERR_LIMIT: the text is too hard for a pattern (regex_run.h). track: NULL, or what keeps
 * account of offsets. */
MUST_CHECK int splitter_run(const struct splitter *s, struct split_scratch *scratch,
                            struct bytes text, bool at_start, split_piece_fn *piece, void *ctx,
                            struct split_track *track, struct error *err);

#endif
