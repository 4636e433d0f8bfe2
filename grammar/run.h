/*
 * run.h - the tables that matchers of one grammar share: frames, sets of threads, and what follows
 * a set on a byte. For run*.c, matcher.c and mask.c.
 */
#ifndef GRAMMAR_RUN_H
#define GRAMMAR_RUN_H

#include "grammar/matcher.h"

enum frame_kind {
    FRAME_BOTTOM,
    FRAME_RETURN,
    FRAME_COUNT,
    FRAME_OBJECT,
    FRAME_UNIQUE, /* an array whose items differ */
    /* of no stack, but of what FRAME_UNIQUE has (unique.h) */
    FRAME_TEXT, /* a byte behind another text */
    FRAME_ITEM, /* an item behind others */
};

/* Equal frames have one number; frame 0 is the bottom of every stack. */
struct frame {
    uint32_t kind;   /* enum frame_kind */
    uint32_t parent; /* frame */
    uint32_t a;      /* RETURN: state; OBJECT: object; UNIQUE: its items; TEXT: byte;
                        ITEM: its text; COUNT: from where on it may end */
    uint32_t n;      /* COUNT, OBJECT: how many so far; UNIQUE: text of the item so far; ITEM: hash;
                        TEXT: whether it is in a string */
    uint32_t bits;   /* OBJECT: the set of properties that were there; ITEM: hash;
                        COUNT: below this it goes on, whatever comes (REPEAT_NO_END: always) */
    uint32_t some;   /* OBJECT: the kinds of needed members that were there; ITEM: hash;
                        UNIQUE: 1 where its items cannot run out */
    uint32_t unique; /* 1: it is UNIQUE, or one of those below is */
    uint32_t counts; /* 1: it is COUNT, or one of those below is */
};
/* In `n` of a COUNT from which no token reaches a bound (run_far_set): it may not end yet; it may, and
 * may go on. */
enum { COUNT_BELOW = 0xfffffffe, COUNT_BETWEEN };

struct thread {
    uint32_t state, frame;
};

struct bit_set {
    uint32_t first, count; /* words of run.bits */
};

/* Equal sets have one number. Set 0 is empty: no text comes here. */
struct thread_set {
    uint32_t first, count; /* in run.threads, sorted; only threads that can read a byte */
    bool may_end;
    bool asked;    /* a mask was made for it */
    uint8_t frees; /* of a run with an exact one: whether its item may have a free string yet */
    uint8_t lives; /* of an exact run: what unique_lives found; 0: it was not asked */
    bool unique;   /* of an exact run: a thread's frame is so; nothing that follows is kept */
    uint32_t
        *row; /* [256], borrowed of row_blocks: what follows, or NEXT_UNKNOWN; NULL: none yet */
    uint32_t mask; /* 1 + its place in run.masks, or 0 */
    uint32_t far;  /* 1 + what run_far_set found, or 0 */
    bool far_all;
};
enum { SET_DEAD = 0, NEXT_UNKNOWN = 0xffffffff, ROWS_A_BLOCK = 16 };

/* A number for each content: open addressing over hashes of the items. */
struct index {
    uint32_t *slots; /* item + 1 */
    size_t cap, count;
};

struct grammar_run {
    const struct program *program;
    const struct vocab *vocab;
    VEC(struct frame) frames;
    VEC(uint64_t) bits; /* sets of properties, back to back */
    VEC(struct bit_set) bit_sets;
    VEC(struct thread_set) sets;
    VEC(struct thread) threads;
    /* rows of 256 sets, or NEXT_UNKNOWN; in blocks of ROWS_A_BLOCK, so that a growing table is never
     * copied while a mask waits */
    VEC(uint32_t *) row_blocks;
    uint32_t row_count;
    VEC(uint32_t *) masks; /* of vocab->word_count words each; one by one, for the same reason */
    struct index frame_index, bit_index, set_index;
    VEC(struct thread) work; /* of the closure that is being made */
    uint16_t *work_slots;    /* 1 + a place in work, by hash; made when work is no longer short */
    VEC(struct thread) made;
    VEC(uint64_t) scratch;
    struct matcher *matchers; /* all that live */
    struct grammar_run
        *exact; /* owned: where matchers are, for a grammar with unique items (unique.h) */
    struct grammar_run *loose;   /* of an exact run: the one that makes its masks */
    struct unique_texts *unique; /* of an exact run; made when it is asked for */
    uint64_t seed;               /* likewise: of the hashes of items */
    struct grammar_run *flat; /* owned: of sets that know their calls alone; NULL until asked for */
    bool is_flat;             /* it is such a run */
    bool calls;               /* the program has calls, so that stacks may differ alone */
    bool within;              /* likewise: no item may end now (unique.c) */
    uint64_t refused;         /* likewise: items so far that equalled one that was there */
    VEC(uint32_t) stack;      /* likewise: of a frame that is made anew */
    uint32_t start;           /* set */
    size_t anew_at;           /* bytes past which the tables are made anew */
    bool failed;
};

struct matcher {
    struct grammar_run *run;     /* an exact one where the grammar has one */
    struct matcher *prev, *next; /* of run->matchers */
    uint32_t set;
    bool ended, failed;
};

/* ---- numbers (run_tables.c) ---- */

uint32_t run_frame(struct grammar_run *run, struct frame frame);
/* Of a set of properties. */
uint32_t run_bits(struct grammar_run *run, const uint64_t *words, uint32_t count);
/* The properties of an object's frame; they move when a set is added. */
static inline const uint64_t *run_frame_bits(const struct grammar_run *run, const struct frame *f) {
    return run->bits.items + run->bit_sets.items[f->bits].first;
}
/* The set of exactly these threads, which are sorted. */
uint32_t run_set_of_readers(struct grammar_run *run, struct thread *threads, size_t count,
                            bool may_end);

/* ---- objects (run_object.c); f: the frame of one ---- */

/* A label that may come is reached from this state of its keys. */
bool run_object_may_reach(struct grammar_run *run, const struct frame *f, uint32_t state);
bool run_object_may_end(struct grammar_run *run, const struct frame *f);
/* The frame with one more member of this label, or FA_NONE: it may not come. */
uint32_t run_object_with(struct grammar_run *run, struct frame f, uint32_t label);

/* ---- steps (run.c) ---- */

/* The set behind a byte and all others from lo to hi, which are told; it is not kept. For sets without
 * unique items, of a run that has not failed. */
uint32_t run_step(struct grammar_run *run, uint32_t set, uint8_t byte, uint32_t *lo, uint32_t *hi);
/* The set behind a byte; SET_DEAD when it may not come. */
uint32_t run_find_next(struct grammar_run *run, uint32_t set, uint8_t byte);
/* The same, from the row of known sets where it has the byte. */
static inline uint32_t run_next(struct grammar_run *run, uint32_t set, uint8_t byte) {
    const uint32_t *row = run->sets.items[set].row;
    if (row && row[byte] != NEXT_UNKNOWN)
        return row[byte];
    return run_find_next(run, set, byte);
}
/* The last byte that takes each thread of the set where this one does. */
uint32_t run_alike(const struct grammar_run *run, uint32_t set, uint8_t byte);
/* The set of these threads and all that they reach without a byte. */
uint32_t run_set_of(struct grammar_run *run, const struct thread *threads, size_t count);
/* The set in a run's tables that has the threads of one in another's. Of unique items an exact run
 * alone knows which were there. */
uint32_t run_carry_set(struct grammar_run *run, const struct grammar_run *from, uint32_t set);
/* The set in run->flat, made when it is asked for, of what this one's threads are sure to read: there a
 * stack is the last calls, and what asks for other frames does not come. So positions that differ in what
 * lies below are one, and text that may go on there may go on here. */
uint32_t run_flat_set(struct grammar_run *run, uint32_t set);
/* The set behind which the same tokens of at most VOCAB_SHORT_BYTES come, without the counts of which these
 * reach no bound: one for many positions of a long text. *all: the longer tokens, too. */
uint32_t run_far_set(struct grammar_run *run, uint32_t set, bool *all);
/* Bytes of the run's own tables. */
size_t run_tables_size(const struct grammar_run *run);
/* Makes the tables anew; what the run's matchers stand on is carried over. */
void run_start_anew(struct grammar_run *run);

#endif
