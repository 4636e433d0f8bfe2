/*
 * vocab.h - the tokens of a vocabulary as the matcher asks for them: a trie over their bytes, and
 * what each of them does inside a JSON string.
 *
 * Most masks of JSON are asked for inside a string, where nearly every token may come. So each
 * token is read once from the inside of a string (STATE_BODY): either it stays inside, or it closes
 * the string after some characters and a remainder follows. The remainders are a small trie of
 * their own, walked instead of the whole vocabulary.
 *
 * In free text and in keys that match a pattern, most tokens may come as well, but each leads on in
 * a way of its own. Where a pattern's states show that any text may go on (STATE_TEXT), all tokens of
 * text are told at once, and only the others are walked. And each node knows what bytes lie below it,
 * so that a walk takes a subtree at once where all of them may come (free_text.h).
 *
 * Control tokens and those without bytes are in neither; no grammar allows them but for the ends
 * of sequence, which a mask allows where the text may end.
 *
 * Threading: immutable once made; shared.
 */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include "base/error.h"
#include "base/vec.h"

enum {
    VOCAB_TOKEN_BYTES_MAX = 255, /* longer tokens are never allowed */
    VOCAB_SHORT_BYTES = 24,      /* few tokens are longer */
};

/* Printable ASCII but for what JSON escapes in strings. */
static inline bool vocab_is_plain(uint8_t byte) {
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Text: whole characters that JSON's strings have as they are and `.` of a pattern takes; no control
 * characters, quotes, backslashes, nor U+2028 and U+2029. Read byte by byte. */
enum text_state {
    TEXT_BEGIN, /* between two characters */
    TEXT_1,     /* one more byte of a character to come, two, three */
    TEXT_2,
    TEXT_3,
    TEXT_E0, /* behind the first bytes whose second is bounded */
    TEXT_E2,
    TEXT_E2_80,
    TEXT_ED,
    TEXT_F0,
    TEXT_F4,
    TEXT_NONE,
};
enum { TEXT_ENDLESS = 0xffffffff };

/* The state behind a byte; TEXT_NONE: it is no text. */
uint8_t text_step(enum text_state state, uint8_t byte);
bool vocab_is_text(struct bytes text);

/* The classes of bytes of which sets are made, in the order of their bytes: those of control
 * characters, each other of ASCII alone, those within a character, and of first bytes above ASCII. */
enum {
    TEXT_CONTROLS = 6, /* in front of a space: \t, \n and \r alone, and what lies between them */
    TEXT_WITHIN = TEXT_CONTROLS + 0x80 - 0x20,
    TEXT_LEADS,                   /* 16 classes */
    TEXT_OTHER = TEXT_LEADS + 16, /* what is in no whole character */
};

static inline uint32_t text_class(uint8_t byte) {
    static const uint8_t LAST[] = {0xc2, 0xc3, 0xcf, 0xdf, 0xe0, 0xe1, 0xe2, 0xe3,
                                   0xe9, 0xec, 0xed, 0xef, 0xf0, 0xf2, 0xf3, 0xf4};
    uint32_t lead = 0;
    if (byte >= 0x20 && byte < 0x80)
        return TEXT_CONTROLS + byte - 0x20u;
    if (byte < 0x20)
        return (byte > 8u) + (byte > 9u) + (byte > 10u) + (byte > 12u) + (byte > 13u);
    if (byte < 0xc0)
        return TEXT_WITHIN;
    if (byte < 0xc2 || byte > 0xf4)
        return TEXT_OTHER;
    while (byte > LAST[lead])
        lead++;
    return TEXT_LEADS + lead;
}

/* Some of these classes. */
struct text_bytes {
    uint64_t bits[2];
};

static inline bool text_bytes_have(struct text_bytes b, uint32_t c) {
    return b.bits[c / 64] >> c % 64 & 1;
}
static inline void text_bytes_add(struct text_bytes *b, uint32_t c) {
    b->bits[c / 64] |= UINT64_C(1) << c % 64;
}
static inline void text_bytes_drop(struct text_bytes *b, struct text_bytes these) {
    b->bits[0] &= ~these.bits[0];
    b->bits[1] &= ~these.bits[1];
}
static inline bool text_bytes_within(struct text_bytes a, struct text_bytes b) {
    return !((a.bits[0] & ~b.bits[0]) | (a.bits[1] & ~b.bits[1]));
}
/* Classes from one to another, both included; last < 127. */
static inline struct text_bytes text_bytes_range(uint32_t first, uint32_t last) {
    uint32_t end = last + 1;
    struct text_bytes range = {{first < 64 ? UINT64_MAX << first : 0,
                                first < 64 ? UINT64_MAX : UINT64_MAX << (first - 64)}};
    range.bits[0] &= end < 64 ? (UINT64_C(1) << end) - 1 : UINT64_MAX;
    range.bits[1] &= end < 64 ? 0 : (UINT64_C(1) << (end - 64)) - 1;
    return range;
}
/* Classes in 32 groups: each small letter, large ones, digits, the space, other plain ASCII; what text
 * has not (TEXT_OTHER as well); and what lies above ASCII. A bit says that some of a group are there. */
uint32_t text_bytes_groups(struct text_bytes b);
/* All that whole characters are of. */
static inline struct text_bytes text_bytes_of_characters(void) {
    return (struct text_bytes){{UINT64_MAX, (UINT64_C(1) << (TEXT_OTHER - 64)) - 1}};
}
/* All that text is of. */
static inline struct text_bytes text_bytes_of_text(void) {
    struct text_bytes text = text_bytes_of_characters();
    struct text_bytes not_text = {{(1 << TEXT_CONTROLS) - 1, 0}};
    text_bytes_add(&not_text, text_class('"'));
    text_bytes_add(&not_text, text_class('\\'));
    text_bytes_add(&not_text, text_class(0x7f));
    text_bytes_drop(&text, not_text);
    return text;
}

/* Two plain bytes side by side, as a number. */
enum { BYTE_PAIRS = 96 * 96 };
static inline uint32_t byte_pair(uint8_t first, uint8_t second) {
    return (first - 0x20u) * 96 + (second - 0x20u);
}

/* Nodes in preorder: a node's subtree is [node + 1, end). */
struct trie_node {
    uint32_t end;
    uint32_t token_first; /* of the tokens that end here; they reach to the next node's first */
    uint8_t byte, depth;  /* depth of the first byte: 1 */
    uint8_t height;       /* bytes below it, of the longest token */
    uint8_t text;         /* enum text_state behind its byte; begins again behind ASCII */
};
struct trie_token {
    uint32_t id;
    uint32_t chars; /* whole characters of the string in front of its quote; 0 in the full trie */
};
/* A child of the root. They lie apart from the other nodes, since walks pass over most of them. */
struct trie_child {
    uint32_t node, token_first;
    uint8_t byte;
};
struct trie {
    VEC(struct trie_node) nodes; /* node 0: the root, without a byte; one more behind the last */
    VEC(struct trie_child) children; /* of the root, and one more: the node behind the last */
    VEC(struct trie_token) tokens;
    /* [nodes.count - 1]: bytes in a node's subtree, without its own; TEXT_OTHER among them: those are
     * not all whole characters, or U+2028 or U+2029. NULL: not known */
    struct text_bytes *below;
    uint32_t *groups; /* of these (text_bytes_groups), likewise: a fourth of the memory to read */
    uint32_t *pair_first; /* [BYTE_PAIRS + 1]: of the nodes whose byte ends a pair, in pair_nodes */
    uint32_t *pair_nodes;
};

/* Tokens that stay inside a string need so many more characters of its length. */
struct vocab_need {
    uint32_t id, chars;
};

/* Tokens that are told at once where all of them may come. */
struct token_class {
    uint32_t *bits;     /* [word_count]: these */
    struct trie others; /* all but these */
};

struct vocab {
    uint32_t token_count, word_count; /* words of a mask, 32 tokens each */
    struct bytes *tokens;             /* [token_count], into text; empty: none */
    uint8_t *text;
    uint32_t *ends; /* tokens that end a sequence */
    uint32_t end_count;
    uint32_t longest; /* bytes of a token */
    struct trie all, behind_string;
    struct token_class shorts;    /* tokens of at most VOCAB_SHORT_BYTES */
    struct token_class texts;     /* tokens of text (vocab_is_text) */
    uint32_t *stay;               /* [word_count]: tokens that stay inside a string */
    VEC(struct vocab_need) needs; /* of these, fewest characters first */
    VEC(uint32_t) commas;         /* tokens with something behind a comma */
    VEC(uint32_t) quoted_commas;  /* those of them with a quote in front of such a comma */
    VEC(uint32_t) last_commas;    /* others with a comma */
};

/* tokens: the bytes of each id, empty for control tokens and holes (copied); ends: ids. */
struct vocab *vocab_new(const struct bytes *tokens, uint32_t token_count, const uint32_t *ends,
                        uint32_t end_count);
/* After the last run that uses it; clears *vocab. */
void vocab_free(struct vocab **vocab);

#endif
