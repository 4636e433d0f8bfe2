/*
 * program.h - what the matcher runs: a network of states with edges over bytes, and actions that
 * need no byte but may look at and change the frames of a stack.
 *
 * Rules call each other (ACT_CALL pushes a frame that says where to go on), so any context-free
 * grammar without left recursion can be held. Two more kinds of frame count: how often something
 * was repeated, and which properties of an object are there. A program is immutable and may be
 * shared by threads.
 *
 * States below STATE_BEHIND_STRING are the same in every program: JSON strings, which vocabularies
 * know in advance (vocab.h).
 */
#ifndef GRAMMAR_PROGRAM_H
#define GRAMMAR_PROGRAM_H

#include "grammar/build.h"

enum action_kind {
    ACT_CALL,         /* state a, and from where it accepts to `to` */
    ACT_COUNT_BEGIN,  /* pushes a count of 0, which may end from a on; every NEXT passes below b */
    ACT_COUNT_NEXT,   /* one more, of at most b (REPEAT_NO_END: any number, counted up to a) */
    ACT_COUNT_END,    /* drops the count when it is a at least */
    ACT_OBJECT_BEGIN, /* pushes object a, empty */
    ACT_OBJECT_MORE,  /* passes when one more member may come */
    ACT_OBJECT_KEY,   /* the key was of label b: passes when it may come, and notes it */
    ACT_OBJECT_SOME,  /* notes the set a of kinds of members that are needed */
    ACT_OBJECT_END,   /* drops the object when it may end */
    ACT_UNIQUE_BEGIN, /* pushes an array whose items differ; a: 1 where they cannot run out */
    ACT_UNIQUE_NEXT,  /* passes when the item that ends here equals none that was there */
    ACT_UNIQUE_END,   /* drops the array */
};

struct action {
    uint8_t kind; /* enum action_kind */
    uint32_t to, a, b;
};
struct byte_edge {
    uint8_t lo, hi;
    uint32_t to;
};

enum state_flags {
    STATE_ACCEPTS = 1, /* the rule may end here */
    STATE_KEY = 2,     /* inside a key: goes on only towards labels that may come (state.reach) */
    STATE_CHAR = 4,    /* the first byte of a character of a counted string (state.reach: its min,
                          + 1: its max in program.words) */
    STATE_TEXT = 8,    /* text (vocab_is_text) may go on from here for ever */
};
struct state {
    uint32_t edge_first, action_first;
    uint16_t edge_count, action_count;
    uint8_t flags;
    uint32_t reach; /* STATE_KEY: index of the set of labels in program.words; STATE_CHAR: above */
};

/* The states of any JSON string. */
enum { STATE_STRING = 0, STATE_BODY = 1, STATE_STRING_END = 2, STATE_BEHIND_STRING = 24 };

struct object_program {
    uint32_t property_count, word_count; /* words: a bit a property, and one for all other labels */
    uint32_t count_min, count_max;
    uint32_t required;  /* index in program.words */
    uint32_t needs;     /* index in program.words of property_count sets, or FA_NONE */
    uint32_t key;       /* the state where a key begins, behind its quote */
    uint32_t some;      /* kinds of members that are needed */
    bool ordered, open; /* open: there are labels that are no properties */
};

struct program {
    VEC(struct state) states;
    VEC(struct byte_edge) edges;
    VEC(struct action) actions;
    VEC(struct object_program) objects;
    VEC(uint64_t) words;
    uint32_t start;  /* state */
    bool has_unique; /* there is an ACT_UNIQUE_BEGIN */
};

/* Compiles rule `root` of b. ERR_INVALID: a rule calls itself before it reads anything (left
 * recursion), nothing can be accepted; ERR_LIMIT. *out is empty on failure. Uses up b's fuel. */
MUST_CHECK int program_compile(struct builder *b, uint32_t root, struct program *out,
                               struct error *err);
/* p is empty then; it may be zeroes. */
void program_release(struct program *p);
/* Bytes of memory it holds. */
size_t program_size(const struct program *p);

/* The state behind a byte by the state's own edges, or FA_NONE. */
static inline uint32_t program_step(const struct program *p, uint32_t state, uint8_t byte) {
    const struct state *s = &p->states.items[state];
    for (uint32_t i = 0; i < s->edge_count; i++) {
        const struct byte_edge *e = &p->edges.items[s->edge_first + i];
        if (byte <= e->hi)
            return byte >= e->lo ? e->to : FA_NONE;
    }
    return FA_NONE;
}

#endif
