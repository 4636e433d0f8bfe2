/*
 * run.c - positions of a text: frames, sets of threads, and the steps between them.
 */
#include "grammar/run.h"

#include "base/hash.h"

#include <stdlib.h>

/* ---- numbers for contents ---- */

typedef bool (*same_fn)(const struct grammar_run *run, uint32_t item, const void *key, size_t size);

static uint64_t hash_item(const struct grammar_run *run, const struct index *x, uint32_t item);

static void index_grow(const struct grammar_run *run, struct index *x) {
    size_t cap = x->cap ? x->cap * 2 : 256;
    uint32_t *slots = mem_calloc(cap, sizeof *slots);
    for (size_t i = 0; i < x->cap; i++) {
        if (!x->slots[i])
            continue;
        size_t at = hash_item(run, x, x->slots[i] - 1) & (cap - 1);
        while (slots[at])
            at = (at + 1) & (cap - 1);
        slots[at] = x->slots[i];
    }
    mem_free(x->slots);
    x->slots = slots;
    x->cap = cap;
}

/* The slot of the item with this key, or the free one where it belongs. */
static uint32_t *index_find(const struct grammar_run *run, struct index *x, const void *key,
                            size_t size, uint64_t hash, same_fn same) {
    if ((x->count + 1) * 2 > x->cap)
        index_grow(run, x);
    size_t at = hash & (x->cap - 1);
    while (x->slots[at] && !same(run, x->slots[at] - 1, key, size))
        at = (at + 1) & (x->cap - 1);
    return &x->slots[at];
}

static bool same_frame(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    return !memcmp(&run->frames.items[item], key, size);
}
static bool same_bits(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    return run->bit_sets.items[item].count * sizeof(uint64_t) == size &&
           !memcmp(run->bits.items + run->bit_sets.items[item].first, key, size);
}
static bool same_set(const struct grammar_run *run, uint32_t item, const void *key, size_t size) {
    const struct thread_set *s = &run->sets.items[item];
    const struct thread *threads = run->threads.items + s->first;
    /* The key is the newest set, whose threads lie at the end of the pool. */
    const struct thread_set *k = key;
    return s->count == k->count && s->may_end == k->may_end &&
           (!k->count ||
            !memcmp(threads, run->threads.items + k->first, k->count * sizeof *threads));
}

static uint64_t hash_set(const struct grammar_run *run, const struct thread_set *s) {
    return hash64(run->threads.items + s->first, s->count * sizeof(struct thread),
                  s->may_end ? 1 : 2);
}

static uint64_t hash_item(const struct grammar_run *run, const struct index *x, uint32_t item) {
    if (x == &run->frame_index)
        return hash64(&run->frames.items[item], sizeof(struct frame), 0);
    if (x == &run->set_index)
        return hash_set(run, &run->sets.items[item]);
    return hash64(run->bits.items + run->bit_sets.items[item].first,
                  run->bit_sets.items[item].count * sizeof(uint64_t), 0);
}

static uint32_t frame_of(struct grammar_run *run, struct frame frame) {
    uint32_t *slot = index_find(run, &run->frame_index, &frame, sizeof frame,
                                hash64(&frame, sizeof frame, 0), same_frame);
    if (!*slot) {
        vec_push(&run->frames, frame);
        *slot = (uint32_t)run->frames.count;
        run->frame_index.count++;
    }
    return *slot - 1;
}

static uint32_t bits_of(struct grammar_run *run, const uint64_t *words, uint32_t count) {
    size_t size = count * sizeof *words;
    uint32_t *slot =
        index_find(run, &run->bit_index, words, size, hash64(words, size, 0), same_bits);
    if (!*slot) {
        struct bit_set span = {(uint32_t)run->bits.count, count};
        vec_reserve(&run->bits, run->bits.count + count);
        memcpy(run->bits.items + run->bits.count, words, size);
        run->bits.count += count;
        vec_push(&run->bit_sets, span);
        *slot = (uint32_t)run->bit_sets.count;
        run->bit_index.count++;
    }
    return *slot - 1;
}

static int compare_threads(const void *a, const void *b) {
    const struct thread *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* Mostly they are few, or nearly in order. */
static void sort_threads(struct thread *threads, size_t count) {
    enum { FEW = 16 };
    if (count > FEW) {
        qsort(threads, count, sizeof *threads, compare_threads);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        struct thread t = threads[i];
        size_t at = i;
        for (; at && compare_threads(&threads[at - 1], &t) > 0; at--)
            threads[at] = threads[at - 1];
        threads[at] = t;
    }
}

uint32_t run_set_of_readers(struct grammar_run *run, struct thread *threads, size_t count,
                            bool may_end) {
    if (!count && !may_end)
        return SET_DEAD;
    sort_threads(threads, count);
    struct thread_set set = {
        .first = (uint32_t)run->threads.count, .count = (uint32_t)count, .may_end = may_end};
    vec_reserve(&run->threads, run->threads.count + count);
    if (count)
        memcpy(run->threads.items + run->threads.count, threads, count * sizeof *threads);
    run->threads.count += count;
    uint32_t *slot =
        index_find(run, &run->set_index, &set, sizeof set, hash_set(run, &set), same_set);
    if (*slot) {
        run->threads.count -= count;
        return *slot - 1;
    }
    vec_push(&run->sets, set);
    *slot = (uint32_t)run->sets.count;
    run->set_index.count++;
    return *slot - 1;
}

/* ---- objects ---- */

static const uint64_t *frame_bits(const struct grammar_run *run, const struct frame *f) {
    return run->bits.items + run->bit_sets.items[f->bits].first;
}

/* The properties that must still come: the required ones, and what those that are there need. */
static void object_missing(const struct grammar_run *run, const struct frame *f, uint64_t *out) {
    const struct program *p = run->program;
    const struct object_program *o = &p->objects.items[f->a];
    const uint64_t *seen = frame_bits(run, f);
    for (uint32_t w = 0; w < o->word_count; w++)
        out[w] = p->words.items[o->required + w];
    for (uint32_t i = 0; o->needs != FA_NONE && i < o->property_count; i++)
        for (uint32_t w = 0; (seen[i / 64] >> i % 64 & 1) && w < o->word_count; w++)
            out[w] |= p->words.items[o->needs + (size_t)i * o->word_count + w];
    for (uint32_t w = 0; w < o->word_count; w++)
        out[w] &= ~seen[w];
}

/* In order, nothing may come behind what is missing, nor what lies before what was there. */
static void keep_order(const struct object_program *o, const uint64_t *seen,
                       const uint64_t *missing, uint64_t *allowed) {
    uint32_t last = 0, until = o->property_count;
    for (uint32_t i = 0; i < o->property_count; i++)
        if (seen[i / 64] >> i % 64 & 1)
            last = i + 1;
    for (uint32_t i = last; i < o->property_count && until == o->property_count; i++)
        if (missing[i / 64] >> i % 64 & 1)
            until = i;
    for (uint32_t i = 0; i <= o->property_count; i++)
        if (i < last || i > until)
            allowed[i / 64] &= ~(1ull << i % 64);
}

/* Which labels may come next (all that are no properties are the bit property_count). The set lies
 * in run->scratch until the next call. */
static const uint64_t *object_allowed(struct grammar_run *run, const struct frame *f) {
    const struct object_program *o = &run->program->objects.items[f->a];
    uint32_t words = o->word_count, missing_count = 0;
    vec_reserve(&run->scratch, (size_t)words * 2);
    uint64_t *allowed = run->scratch.items, *missing = allowed + words;
    const uint64_t *seen = frame_bits(run, f);
    object_missing(run, f, missing);
    for (uint32_t w = 0; w < words; w++)
        missing_count += (uint32_t)__builtin_popcountll(missing[w]);
    bool full = o->count_max != REPEAT_NO_END && f->n >= o->count_max;
    bool only_missing = o->count_max != REPEAT_NO_END && f->n + missing_count >= o->count_max;
    for (uint32_t w = 0; w < words; w++)
        allowed[w] = full ? 0 : only_missing ? missing[w] : ~seen[w];
    uint32_t count = o->property_count;
    if (!o->open || only_missing)
        allowed[count / 64] &= ~(1ull << count % 64);
    if (count % 64 != 63)
        allowed[count / 64] &= (2ull << count % 64) - 1;
    if (o->ordered)
        keep_order(o, seen, missing, allowed);
    return allowed;
}

static bool object_may_reach(struct grammar_run *run, const struct frame *f, uint32_t state) {
    const struct object_program *o = &run->program->objects.items[f->a];
    const uint64_t *allowed = object_allowed(run, f);
    const uint64_t *reach = run->program->words.items + run->program->states.items[state].reach;
    for (uint32_t w = 0; w < o->word_count; w++)
        if (allowed[w] & reach[w])
            return true;
    return false;
}

static bool object_may_end(struct grammar_run *run, const struct frame *f) {
    const struct object_program *o = &run->program->objects.items[f->a];
    vec_reserve(&run->scratch, (size_t)o->word_count);
    object_missing(run, f, run->scratch.items);
    for (uint32_t w = 0; w < o->word_count; w++)
        if (run->scratch.items[w])
            return false;
    return f->n >= o->count_min && !(o->some & ~f->some);
}

/* The frame with one more member of this label, or FA_NONE. */
static uint32_t object_with(struct grammar_run *run, struct frame f, uint32_t label) {
    const struct object_program *o = &run->program->objects.items[f.a];
    uint32_t bit = MIN(label, o->property_count);
    if (!(object_allowed(run, &f)[bit / 64] >> bit % 64 & 1))
        return FA_NONE;
    /* Counts that decide nothing any more are not told apart. */
    f.n = o->count_max == REPEAT_NO_END ? MIN(f.n + 1, o->count_min) : f.n + 1;
    if (label < o->property_count) {
        uint64_t *bits = run->scratch.items;
        memcpy(bits, frame_bits(run, &f), o->word_count * sizeof *bits);
        bits[bit / 64] |= 1ull << bit % 64;
        f.bits = bits_of(run, bits, o->word_count);
    } else if (o->ordered) { /* behind all properties */
        uint64_t *bits = run->scratch.items;
        memset(bits, 0xff, o->word_count * sizeof *bits);
        bits[bit / 64] &= ~(1ull << bit % 64); /* another such member may follow */
        f.bits = bits_of(run, bits, o->word_count);
    }
    return frame_of(run, f);
}

/* ---- threads ---- */

enum {
    WORK_MAX = 8 * MATCH_THREADS_MAX, /* threads on the way to those that read a byte */
    WORK_SHORT = 16,                  /* threads that are searched one by one */
    WORK_SLOTS = 2 * WORK_MAX
};

static uint16_t *work_slot(struct grammar_run *run, struct thread t) {
    uint64_t mixed = ((uint64_t)t.frame << 32 | t.state) * 0x9e3779b97f4a7c15u;
    size_t at = mixed >> 32 & (WORK_SLOTS - 1);
    for (; run->work_slots[at]; at = (at + 1) & (WORK_SLOTS - 1)) {
        const struct thread *x = &run->work.items[run->work_slots[at] - 1];
        if (x->state == t.state && x->frame == t.frame)
            break;
    }
    return &run->work_slots[at];
}

static void slot_work(struct grammar_run *run) {
    if (!run->work_slots)
        run->work_slots = mem_alloc(WORK_SLOTS * sizeof *run->work_slots);
    memset(run->work_slots, 0, WORK_SLOTS * sizeof *run->work_slots);
    for (size_t i = 0; i < run->work.count; i++)
        *work_slot(run, run->work.items[i]) = (uint16_t)(i + 1);
}

static void push_thread(struct grammar_run *run, uint32_t state, uint32_t frame) {
    struct thread t = {state, frame};
    uint16_t *slot = NULL;
    for (size_t i = 0; i < run->work.count && run->work.count < WORK_SHORT; i++)
        if (run->work.items[i].state == state && run->work.items[i].frame == frame)
            return;
    if (run->work.count >= WORK_SHORT) {
        if (run->work.count == WORK_SHORT)
            slot_work(run);
        slot = work_slot(run, t);
        if (*slot)
            return;
    }
    if (run->work.count >= WORK_MAX) {
        run->failed = true;
        return;
    }
    vec_push(&run->work, t);
    if (slot)
        *slot = (uint16_t)run->work.count;
}

static void take_action(struct grammar_run *run, struct thread t, const struct action *a) {
    const struct program *p = run->program;
    const struct frame top = run->frames.items[t.frame];
    switch ((enum action_kind)a->kind) {
    case ACT_CALL: {
        const struct state *to = &p->states.items[a->to];
        bool tail = (to->flags & STATE_ACCEPTS) && !to->edge_count && !to->action_count;
        struct frame frame = {.kind = FRAME_RETURN, .parent = t.frame, .a = a->to};
        push_thread(run, a->a, tail ? t.frame : frame_of(run, frame));
        break;
    }
    case ACT_COUNT_BEGIN: {
        struct frame frame = {.kind = FRAME_COUNT, .parent = t.frame};
        push_thread(run, a->to, frame_of(run, frame));
        break;
    }
    case ACT_COUNT_NEXT: {
        CHECK(top.kind == FRAME_COUNT);
        struct frame frame = top;
        if (a->b != REPEAT_NO_END && top.n >= a->b)
            break;
        frame.n = a->b == REPEAT_NO_END ? MIN(top.n + 1, a->a) : top.n + 1;
        push_thread(run, a->to, frame_of(run, frame));
        break;
    }
    case ACT_COUNT_END:
        CHECK(top.kind == FRAME_COUNT);
        if (top.n >= a->a)
            push_thread(run, a->to, top.parent);
        break;
    case ACT_OBJECT_BEGIN: {
        const struct object_program *o = &p->objects.items[a->a];
        vec_reserve(&run->scratch, (size_t)o->word_count);
        memset(run->scratch.items, 0, o->word_count * sizeof *run->scratch.items);
        struct frame frame = {.kind = FRAME_OBJECT, .parent = t.frame, .a = a->a};
        frame.bits = bits_of(run, run->scratch.items, o->word_count);
        push_thread(run, a->to, frame_of(run, frame));
        break;
    }
    case ACT_OBJECT_MORE:
        CHECK(top.kind == FRAME_OBJECT);
        if (object_may_reach(run, &top, p->objects.items[top.a].key))
            push_thread(run, a->to, t.frame);
        break;
    case ACT_OBJECT_KEY: {
        CHECK(top.kind == FRAME_OBJECT);
        uint32_t frame = object_with(run, top, a->a);
        if (frame != FA_NONE)
            push_thread(run, a->to, frame);
        break;
    }
    case ACT_OBJECT_SOME: {
        CHECK(top.kind == FRAME_OBJECT);
        struct frame frame = top;
        frame.some |= a->a;
        push_thread(run, a->to, frame_of(run, frame));
        break;
    }
    case ACT_OBJECT_END:
        CHECK(top.kind == FRAME_OBJECT);
        if (object_may_end(run, &top))
            push_thread(run, a->to, top.parent);
        break;
    }
}

/* Follows run->work to its end; the set of those that can read a byte. */
static uint32_t close_work(struct grammar_run *run) {
    const struct program *p = run->program;
    bool may_end = false;
    run->made.count = 0;
    for (size_t i = 0; i < run->work.count; i++) {
        struct thread t = run->work.items[i];
        const struct state *s = &p->states.items[t.state];
        const struct frame top = run->frames.items[t.frame];
        if ((s->flags & STATE_KEY) && !object_may_reach(run, &top, t.state))
            continue;
        if (s->edge_count)
            vec_push(&run->made, t);
        if (s->flags & STATE_ACCEPTS) {
            if (top.kind == FRAME_BOTTOM)
                may_end = true;
            else
                push_thread(run, top.a, top.parent);
        }
        for (uint32_t a = 0; a < s->action_count; a++)
            take_action(run, t, &p->actions.items[s->action_first + a]);
    }
    run->failed |= run->made.count > MATCH_THREADS_MAX;
    return run->failed ? SET_DEAD
                       : run_set_of_readers(run, run->made.items, run->made.count, may_end);
}

uint32_t run_set_of(struct grammar_run *run, const struct thread *threads, size_t count) {
    run->work.count = 0;
    for (size_t i = 0; i < count; i++)
        push_thread(run, threads[i].state, threads[i].frame);
    return close_work(run);
}

enum { ROW_BLOCK_BYTES = ROWS_A_BLOCK * 256 * sizeof(uint32_t) };

/* program_step; narrows lo to hi to the bytes that lead to the same state. */
static uint32_t step_alike(const struct program *p, uint32_t state, uint8_t byte, uint32_t *lo,
                           uint32_t *hi) {
    const struct state *s = &p->states.items[state];
    for (uint32_t i = 0; i < s->edge_count; i++) {
        const struct byte_edge *e = &p->edges.items[s->edge_first + i];
        if (byte < e->lo) {
            *hi = MIN(*hi, e->lo - 1u);
            return FA_NONE;
        }
        if (byte <= e->hi) {
            *lo = MAX(*lo, e->lo);
            *hi = MIN(*hi, e->hi);
            return e->to;
        }
        *lo = MAX(*lo, e->hi + 1u);
    }
    return FA_NONE;
}

uint32_t run_find_next(struct grammar_run *run, uint32_t set, uint8_t byte) {
    if (set == SET_DEAD || run->failed)
        return SET_DEAD;
    if (!run->sets.items[set].next) {
        if (run->row_count % ROWS_A_BLOCK == 0) {
            uint32_t *block = mem_alloc(ROW_BLOCK_BYTES);
            vec_push(&run->row_blocks, block);
        }
        memset(run_row(run, run->row_count), 0xff, 256 * sizeof(uint32_t));
        run->sets.items[set].next = ++run->row_count;
        if (grammar_run_size(run) > RUN_BYTES_MAX)
            run->failed = true;
    }
    const struct thread_set s = run->sets.items[set];
    run->work.count = 0;
    uint32_t lo = 0, hi = 255; /* bytes that take each thread where this one does */
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        uint32_t to = step_alike(run->program, t.state, byte, &lo, &hi);
        if (to != FA_NONE)
            push_thread(run, to, t.frame);
    }
    uint32_t to = close_work(run), *row = run_row(run, s.next - 1);
    for (uint32_t c = lo; c <= hi && !run->failed; c++)
        row[c] = to;
    return to;
}

/* ---- life ---- */

static void make_start(struct grammar_run *run) {
    vec_reserve(&run->threads, 8); /* a start without threads points there, too */
    vec_push(&run->frames, ((struct frame){.kind = FRAME_BOTTOM}));
    vec_push(&run->sets, ((struct thread_set){0}));
    run->start = run_set_of(run, &(struct thread){run->program->start, 0}, 1);
}

struct grammar_run *grammar_run_new(const struct program *program, const struct vocab *vocab) {
    struct grammar_run *run = mem_alloc(sizeof *run);
    run->program = program;
    run->vocab = vocab;
    make_start(run);
    return run;
}

static void release_tables(struct grammar_run *run) {
    vec_release(&run->frames);
    vec_release(&run->bits);
    vec_release(&run->bit_sets);
    vec_release(&run->sets);
    vec_release(&run->threads);
    for (size_t i = 0; i < run->row_blocks.count; i++)
        mem_free(run->row_blocks.items[i]);
    vec_release(&run->row_blocks);
    run->row_count = 0;
    for (size_t i = 0; i < run->masks.count; i++)
        mem_free(run->masks.items[i]);
    vec_release(&run->masks);
    mem_free(run->frame_index.slots);
    mem_free(run->bit_index.slots);
    mem_free(run->set_index.slots);
    run->frame_index = run->bit_index = run->set_index = (struct index){0};
}

void grammar_run_free(struct grammar_run **run_p) {
    struct grammar_run *run = *run_p;
    *run_p = NULL;
    if (!run)
        return;
    CHECK(!run->matchers);
    release_tables(run);
    vec_release(&run->work);
    vec_release(&run->made);
    vec_release(&run->scratch);
    mem_free(run->work_slots);
    mem_free(run);
}

size_t grammar_run_size(const struct grammar_run *run) {
    return run->frames.cap * sizeof *run->frames.items + run->bits.cap * sizeof *run->bits.items +
           run->bit_sets.cap * sizeof *run->bit_sets.items +
           run->sets.cap * sizeof *run->sets.items + run->threads.cap * sizeof *run->threads.items +
           run->row_blocks.count * ROW_BLOCK_BYTES +
           run->masks.count * (run->vocab ? run->vocab->word_count : 0) * sizeof(uint32_t) +
           (run->frame_index.cap + run->bit_index.cap + run->set_index.cap) * sizeof(uint32_t);
}

/* The same frame in new tables; the stack is carried over from its bottom. */
static uint32_t carry_frame(struct grammar_run *run, const struct grammar_run *old,
                            uint32_t frame) {
    VEC(uint32_t) stack = {0};
    for (; frame; frame = old->frames.items[frame].parent)
        vec_push(&stack, frame);
    uint32_t at = 0;
    while (stack.count) {
        struct frame f = old->frames.items[stack.items[--stack.count]];
        if (f.kind == FRAME_OBJECT)
            f.bits = bits_of(run, frame_bits(old, &f), old->bit_sets.items[f.bits].count);
        f.parent = at;
        at = frame_of(run, f);
    }
    vec_release(&stack);
    return at;
}

static void start_anew(struct grammar_run *run) {
    struct grammar_run old = *run;
    memset(&run->frames, 0, sizeof run->frames);
    memset(&run->bits, 0, sizeof run->bits);
    memset(&run->bit_sets, 0, sizeof run->bit_sets);
    memset(&run->sets, 0, sizeof run->sets);
    memset(&run->threads, 0, sizeof run->threads);
    memset(&run->row_blocks, 0, sizeof run->row_blocks);
    run->row_count = 0;
    memset(&run->masks, 0, sizeof run->masks);
    run->frame_index = run->bit_index = run->set_index = (struct index){0};
    make_start(run);
    for (struct matcher *m = run->matchers; m; m = m->next) {
        const struct thread_set *s = &old.sets.items[m->set];
        VEC(struct thread) threads = {0};
        for (uint32_t i = 0; i < s->count; i++) {
            struct thread t = old.threads.items[s->first + i];
            t.frame = carry_frame(run, &old, t.frame);
            vec_push(&threads, t);
        }
        m->set = run_set_of_readers(run, threads.items, threads.count, s->may_end);
        vec_release(&threads);
    }
    release_tables(&old);
}

/* ---- matchers ---- */

struct matcher *matcher_new(struct grammar_run *run) {
    struct matcher *m = mem_alloc(sizeof *m);
    m->run = run;
    m->next = run->matchers;
    if (m->next)
        m->next->prev = m;
    run->matchers = m;
    matcher_reset(m);
    return m;
}

void matcher_free(struct matcher **matcher) {
    struct matcher *m = *matcher;
    *matcher = NULL;
    if (!m)
        return;
    if (m->prev)
        m->prev->next = m->next;
    else
        m->run->matchers = m->next;
    if (m->next)
        m->next->prev = m->prev;
    mem_free(m);
}

void matcher_reset(struct matcher *m) {
    m->set = m->run->start;
    m->ended = m->failed = false;
}

bool matcher_bytes(struct matcher *m, struct bytes text) {
    struct grammar_run *run = m->run;
    if (m->ended || m->failed)
        return false;
    if (grammar_run_size(run) > RUN_BYTES)
        start_anew(run);
    uint32_t set = m->set;
    for (size_t i = 0; i < text.len && set != SET_DEAD; i++)
        set = run_next(run, set, text.data[i]);
    if (run->failed) {
        /* The tables serve the others on; this matcher's text was what filled them. */
        run->failed = false;
        m->failed = true;
        return false;
    }
    if (set == SET_DEAD)
        return false;
    m->set = set;
    return true;
}

bool matcher_token(struct matcher *m, uint32_t id) {
    const struct vocab *v = m->run->vocab;
    CHECK(v);
    if (id >= v->token_count || m->ended)
        return false;
    for (uint32_t i = 0; i < v->end_count; i++)
        if (v->ends[i] == id)
            return m->ended = matcher_may_end(m);
    return v->tokens[id].len && matcher_bytes(m, v->tokens[id]);
}

bool matcher_may_end(const struct matcher *m) {
    return !m->failed && (m->ended || m->run->sets.items[m->set].may_end);
}

bool matcher_failed(const struct matcher *m) {
    return m->failed;
}

void matcher_forced(struct matcher *m, size_t max, struct buf *out) {
    struct grammar_run *run = m->run;
    uint32_t set = m->set;
    for (size_t n = 0; n < max && !m->ended && !m->failed; n++) {
        if (run->sets.items[set].may_end)
            return;
        uint32_t to = SET_DEAD;
        int only = -1;
        for (int c = 0; c < 256; c++) {
            uint32_t next = run_next(run, set, (uint8_t)c);
            if (next == SET_DEAD)
                continue;
            if (only >= 0)
                return;
            only = c;
            to = next;
        }
        if (only < 0)
            return;
        buf_add_byte(out, (char)only);
        set = to;
    }
}

/* ---- before a program is used ---- */

/* Edges and threads that are looked at while only narrow sets are open, and while wide ones are: a
 * few milliseconds of a compilation. */
enum { WIDE = 16, COST_MAX = 10000, COST_MAX_WIDE = 1 << 17 };

/* Sets to go on from, wide ones first, of those the ones that were found first. */
struct look_ahead {
    struct grammar_run *run;
    struct {
        VEC(uint32_t) sets;
        size_t taken;
    } narrow, wide;
    uint32_t known; /* sets below were opened */
};

/* A set is new when it has the highest number: sets are kept once. */
static void open_new_sets(struct look_ahead *x) {
    for (; x->known < x->run->sets.count; x->known++)
        if (x->run->sets.items[x->known].count < WIDE)
            vec_push(&x->narrow.sets, x->known);
        else
            vec_push(&x->wide.sets, x->known);
}

/* SET_DEAD: none that the cost allows. */
static uint32_t take_open(struct look_ahead *x, size_t cost) {
    if (x->wide.taken < x->wide.sets.count && cost < COST_MAX_WIDE)
        return x->wide.sets.items[x->wide.taken++];
    if (x->narrow.taken < x->narrow.sets.count && cost < COST_MAX)
        return x->narrow.sets.items[x->narrow.taken++];
    return SET_DEAD;
}

/* Steps over one byte of each kind; returns what that cost. */
static size_t look_behind(struct look_ahead *x, uint32_t set) {
    struct grammar_run *run = x->run;
    const struct thread_set s = run->sets.items[set];
    bool begins[256] = {0};
    size_t cost = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        const struct state *state =
            &run->program->states.items[run->threads.items[s.first + i].state];
        for (uint32_t e = 0; e < state->edge_count; e++)
            begins[run->program->edges.items[state->edge_first + e].lo] = true;
        cost += state->edge_count;
    }
    for (int c = 0; c < 256 && !run->failed; c++)
        if (begins[c]) {
            (void)run_next(run, set, (uint8_t)c);
            cost += s.count + run->work.count;
        }
    open_new_sets(x);
    return cost;
}

bool matcher_can_begin(const struct program *program) {
    struct look_ahead x = {.run = grammar_run_new(program, NULL), .known = SET_DEAD + 1};
    uint32_t set;
    open_new_sets(&x);
    for (size_t cost = 0; !x.run->failed && (set = take_open(&x, cost));)
        cost += look_behind(&x, set);
    bool can = !x.run->failed;
    vec_release(&x.narrow.sets);
    vec_release(&x.wide.sets);
    grammar_run_free(&x.run);
    return can;
}
