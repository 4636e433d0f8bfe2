/*
 * tokenizer_data.h - what a tokenizer is made of; for the files of this folder only.
 */
#ifndef TEXT_TOKENIZER_TOKENIZER_DATA_H
#define TEXT_TOKENIZER_TOKENIZER_DATA_H

#include <pthread.h>

#include "base/fsutil.h"
#include "text/tokenizer/added.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/decoder_chain.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/split.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/wordlevel.h"
#include "text/tokenizer/wordpiece.h"

enum model_kind {
    MODEL_BPE,
    MODEL_UNIGRAM,
    MODEL_WORDPIECE,
    MODEL_WORDLEVEL,
    MODEL_GREEDY, /* the longest token at each place: RWKV's World vocabulary */
};

enum decoder_kind {
    DECODER_BYTES,  /* ByteLevel: keys (else texts) are raw bytes, joined, then read as UTF-8 */
    DECODER_TEXT,   /* texts joined; byte tokens as below */
    DECODER_SPACED, /* no decoder at all: HF joins tokens with spaces */
    /* steps that do not work token by token: decoder_chain.h. Streams take each token by itself */
    DECODER_CHAIN,
};

/* What SentencePiece takes off the beginning of a text: U+2581 of the first piece that is one, or
 * of each until there is text. */
enum first_space { FIRST_SPACE_KEPT, FIRST_SPACE_ONE, FIRST_SPACE_EACH };

/* The decoder of tokenizer.json. What it does to single tokens is done once, at load: see struct
 * tokenizer's texts. */
struct decoder {
    enum decoder_kind kind;
    bool byte_fallback;    /* "<0x0A>" is a byte; runs of them are read as UTF-8 */
    bool drop_first_space; /* Metaspace: the first token loses its replacement characters */
    /* WordPiece: tokens begin with a space unless they have the prefix of continuations */
    bool words;
    bool cleanup; /* WordPiece: " ." is ".", and the like, in each token */
    char prefix[WORDPIECE_PREFIX_MAX + 1];
    enum first_space first_space; /* SentencePiece */
    /* SentencePiece: each bad byte of a run is U+FFFD, good characters stay */
    bool bytes_singly;
    /* Strip after Fuse: up to so many strip_byte at the start of the whole text */
    uint32_t strip_count;
    char strip_byte;
};

/* Working memory of one tokenizer_encode call, pooled by the tokenizer. */
struct encode_scratch {
    struct encode_scratch *next_free;
    struct bpe_scratch bpe;
    struct unigram_scratch unigram;
    struct buf word;
    struct split_scratch split;
    struct buf normalized[2];
};

enum token_text_flags { TOKEN_TEXT_BYTE = 1 };
struct token_text {
    uint32_t start, len; /* in texts */
    uint8_t flags;       /* a byte token: its text is that one byte */
};

enum { PAIR_IDS_MAX = 8 };

/* The post-processor's tokens around two texts: before the first, between them, behind the second. */
struct pair_rule {
    uint32_t ids[3][PAIR_IDS_MAX], counts[3];
    uint32_t between_first; /* of those between: so many are of the first text's type */
    bool second_type;       /* the second text has a type of its own */
    bool there;             /* else each text has those of a text alone */
};

struct tokenizer {
    struct vocab vocab;
    enum model_kind model;
    struct bpe bpe; /* of the four, the one of `model` */
    struct unigram unigram;
    struct wordpiece wordpiece;
    struct wordlevel wordlevel;
    struct added_set greedy; /* the tokens of MODEL_GREEDY */
    struct normalizer normalizer;
    struct splitter splitter;
    struct added_set added, added_normalized; /* matched in raw and in normalized text */
    struct decoder decoder;
    struct decoder_chain chain;     /* of DECODER_CHAIN */
    struct buf texts;               /* empty where keys are raw bytes */
    struct token_text *token_texts; /* by id; owned; NULL where keys are raw bytes */
    struct token_vec prefix, suffix;
    struct pair_rule pair;
    bool trims_offsets;     /* the post-processor takes white space off tokens' offsets, */
    bool trim_keeps_prefix; /* but not the space that stands in front of all */
    bool spm_offsets;       /* those of SentencePiece, not of HF */
    uint32_t next_added_id; /* of an added token that the vocabulary lacks */
    uint32_t bos, eos[TOKENIZER_EOS_MAX], eos_count;
    struct file_map image; /* of compiled.h: where the tables lie; empty: each is owned */
    /* for compiled.h: JSON of the normalizer, the pre-tokenizer and the decoder */
    struct buf rules[3];
    pthread_mutex_t lock; /* of free_scratch */
    struct encode_scratch *free_scratch;
};

/* From the list of added tokens; the model is loaded. */
MUST_CHECK int tokenizer_load_added(struct tokenizer *t, struct json_value list, struct error *err);
/* From the post-processor (none: does nothing); added tokens are in. */
MUST_CHECK int tokenizer_load_post(struct tokenizer *t, struct json_value json, struct error *err);
/* Parses "decoder" and fills texts; vocab sealed, added tokens in. */
MUST_CHECK int decoder_load(struct tokenizer *t, struct json_value json, struct error *err);

#endif
