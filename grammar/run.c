/*
 * run.c - positions of a text: sets of threads, and the steps between them.
 */
#include "base/hash.h"
#include "grammar/unique.h"

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

/* The calls on top of a stack, at most so many, in the tables of a flat run. */
static uint32_t flat_frame(struct grammar_run *flat, const struct grammar_run *from, uint32_t frame,
                           uint32_t depth) {
    struct frame f = from->frames.items[frame];
    if (f.kind != FRAME_RETURN || !depth)
        return 0;
    f.parent = flat_frame(flat, from, f.parent, depth - 1);
    return run_frame(flat, f);
}

enum { FLAT_DEPTH = 2, FLAT_BYTES = 2 << 20 };

static void take_action(struct grammar_run *run, struct thread t, const struct action *a) {
    const struct program *p = run->program;
    if (run->is_flat && a->kind != ACT_CALL)
        return;
    if (run->is_flat)
        t.frame = flat_frame(run, run, t.frame, FLAT_DEPTH - 1);
    const struct frame top = run->frames.items[t.frame];
    switch ((enum action_kind)a->kind) {
    case ACT_CALL: {
        const struct state *to = &p->states.items[a->to];
        bool tail = (to->flags & STATE_ACCEPTS) && !to->edge_count && !to->action_count;
        struct frame frame = {.kind = FRAME_RETURN, .parent = t.frame, .a = a->to};
        push_thread(run, a->a, tail ? t.frame : run_frame(run, frame));
        break;
    }
    case ACT_COUNT_BEGIN: {
        struct frame frame = {.kind = FRAME_COUNT, .parent = t.frame, .a = a->a, .bits = a->b};
        push_thread(run, a->to, run_frame(run, frame));
        break;
    }
    case ACT_COUNT_NEXT: {
        CHECK(top.kind == FRAME_COUNT);
        struct frame frame = top;
        if (top.n >= COUNT_BELOW) {
            push_thread(run, a->to, t.frame);
            break;
        }
        if (a->b != REPEAT_NO_END && top.n >= a->b)
            break;
        frame.n = a->b == REPEAT_NO_END ? MIN(top.n + 1, a->a) : top.n + 1;
        push_thread(run, a->to, run_frame(run, frame));
        break;
    }
    case ACT_COUNT_END:
        CHECK(top.kind == FRAME_COUNT);
        if (top.n != COUNT_BELOW && top.n >= a->a)
            push_thread(run, a->to, top.parent);
        break;
    case ACT_OBJECT_BEGIN: {
        const struct object_program *o = &p->objects.items[a->a];
        vec_reserve(&run->scratch, (size_t)o->word_count);
        memset(run->scratch.items, 0, o->word_count * sizeof *run->scratch.items);
        struct frame frame = {.kind = FRAME_OBJECT, .parent = t.frame, .a = a->a};
        frame.bits = run_bits(run, run->scratch.items, o->word_count);
        push_thread(run, a->to, run_frame(run, frame));
        break;
    }
    case ACT_OBJECT_MORE:
        CHECK(top.kind == FRAME_OBJECT);
        if (run_object_may_reach(run, &top, p->objects.items[top.a].key))
            push_thread(run, a->to, t.frame);
        break;
    case ACT_OBJECT_KEY: {
        CHECK(top.kind == FRAME_OBJECT);
        uint32_t frame = run_object_with(run, top, a->a);
        if (frame != FA_NONE)
            push_thread(run, a->to, frame);
        break;
    }
    case ACT_OBJECT_SOME: {
        CHECK(top.kind == FRAME_OBJECT);
        struct frame frame = top;
        frame.some |= a->a;
        push_thread(run, a->to, run_frame(run, frame));
        break;
    }
    case ACT_OBJECT_END:
        CHECK(top.kind == FRAME_OBJECT);
        if (run_object_may_end(run, &top))
            push_thread(run, a->to, top.parent);
        break;
    case ACT_UNIQUE_BEGIN: {
        struct frame frame = {.kind = FRAME_UNIQUE, .parent = t.frame, .some = a->a};
        push_thread(run, a->to, run_frame(run, frame));
        break;
    }
    case ACT_UNIQUE_NEXT: {
        uint32_t frame = run->loose ? unique_item_ended(run, t.frame) : t.frame;
        if (frame != FA_NONE && !run->within)
            push_thread(run, a->to, frame);
        break;
    }
    case ACT_UNIQUE_END:
        CHECK(top.kind == FRAME_UNIQUE);
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
        if ((s->flags & STATE_KEY) && (run->is_flat || !run_object_may_reach(run, &top, t.state)))
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

uint32_t run_alike(const struct grammar_run *run, uint32_t set, uint8_t byte) {
    const struct thread_set s = run->sets.items[set];
    uint32_t lo = 0, hi = 255;
    for (uint32_t i = 0; i < s.count; i++)
        (void)step_alike(run->program, run->threads.items[s.first + i].state, byte, &lo, &hi);
    return hi;
}

/* What follows a set whose frames change with every byte; it is not kept. */
static uint32_t find_unique_next(struct grammar_run *run, uint32_t set, uint8_t byte) {
    const struct thread_set s = run->sets.items[set];
    run->work.count = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        uint32_t to = program_step(run->program, t.state, byte);
        if (to != FA_NONE)
            push_thread(run, to, unique_read(run, t.frame, byte));
    }
    run->failed |= run_tables_size(run) > RUN_BYTES_MAX;
    return close_work(run);
}

/* A row of which nothing is known yet. */
static uint32_t *new_row(struct grammar_run *run) {
    uint32_t place = run->row_count++ % ROWS_A_BLOCK;
    if (!place) {
        uint32_t *block = mem_alloc(ROW_BLOCK_BYTES);
        vec_push(&run->row_blocks, block);
    }
    uint32_t *row = run->row_blocks.items[run->row_blocks.count - 1] + (size_t)place * 256;
    memset(row, 0xff, 256 * sizeof *row);
    run->failed |= run_tables_size(run) > RUN_BYTES_MAX;
    return row;
}

uint32_t run_step(struct grammar_run *run, uint32_t set, uint8_t byte, uint32_t *lo, uint32_t *hi) {
    const struct thread_set s = run->sets.items[set];
    run->work.count = 0;
    *lo = 0;
    *hi = 255;
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        uint32_t to = step_alike(run->program, t.state, byte, lo, hi);
        if (to != FA_NONE)
            push_thread(run, to, t.frame);
    }
    return close_work(run);
}

uint32_t run_find_next(struct grammar_run *run, uint32_t set, uint8_t byte) {
    uint32_t lo, hi;
    if (set == SET_DEAD || run->failed)
        return SET_DEAD;
    if (run->sets.items[set].unique)
        return find_unique_next(run, set, byte);
    if (!run->sets.items[set].row)
        run->sets.items[set].row = new_row(run);
    uint32_t *row = run->sets.items[set].row;
    uint32_t to = run_step(run, set, byte, &lo, &hi);
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
    run->anew_at = run->loose ? EXACT_BYTES : RUN_BYTES;
    for (size_t i = 0; i < run->program->actions.count && !run->calls; i++)
        run->calls = run->program->actions.items[i].kind == ACT_CALL;
}

struct grammar_run *grammar_run_new(const struct program *program, const struct vocab *vocab) {
    struct grammar_run *run = mem_alloc(sizeof *run);
    run->program = program;
    run->vocab = vocab;
    make_start(run);
    if (!program->has_unique)
        return run;
    struct grammar_run *exact = mem_alloc(sizeof *exact);
    exact->program = program;
    exact->vocab = vocab;
    exact->loose = run;
    exact->seed = random_u128().lo;
    make_start(exact);
    run->exact = exact;
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
    grammar_run_free(&run->exact);
    grammar_run_free(&run->flat);
    unique_release(run);
    release_tables(run);
    vec_release(&run->stack);
    vec_release(&run->work);
    vec_release(&run->made);
    vec_release(&run->scratch);
    mem_free(run->work_slots);
    mem_free(run);
}

size_t run_tables_size(const struct grammar_run *run) {
    return run->frames.cap * sizeof *run->frames.items + run->bits.cap * sizeof *run->bits.items +
           run->bit_sets.cap * sizeof *run->bit_sets.items +
           run->sets.cap * sizeof *run->sets.items + run->threads.cap * sizeof *run->threads.items +
           run->row_blocks.count * ROW_BLOCK_BYTES +
           run->masks.count * (run->vocab ? run->vocab->word_count : 0) * sizeof(uint32_t) +
           (run->frame_index.cap + run->bit_index.cap + run->set_index.cap) * sizeof(uint32_t);
}

size_t grammar_run_size(const struct grammar_run *run) {
    return run_tables_size(run) + (run->exact ? run_tables_size(run->exact) : 0) +
           (run->flat ? run_tables_size(run->flat) : 0);
}

static struct grammar_run *make_flat(const struct grammar_run *run) {
    struct grammar_run *flat = mem_alloc(sizeof *flat);
    flat->program = run->program;
    flat->vocab = run->vocab;
    flat->is_flat = true;
    make_start(flat);
    return flat;
}

uint32_t run_flat_set(struct grammar_run *run, uint32_t set) {
    const struct thread_set s = run->sets.items[set];
    VEC(struct thread) threads = {0};
    if (run->flat && (run->flat->failed || run_tables_size(run->flat) > FLAT_BYTES))
        grammar_run_free(&run->flat);
    if (!run->flat)
        run->flat = make_flat(run);
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        t.frame = flat_frame(run->flat, run, t.frame, FLAT_DEPTH);
        if (!(run->program->states.items[t.state].flags & STATE_KEY))
            vec_push(&threads, t);
    }
    uint32_t flat = run_set_of_readers(run->flat, threads.items, threads.count, false);
    vec_release(&threads);
    return flat;
}

/* ---- counts that are far from their bounds ---- */

/* What a count's `n` is where `bytes` more reach no bound; else as it is. Each of its steps reads a byte. */
static uint32_t far_count(const struct frame *f, uint32_t bytes) {
    uint64_t reached = (uint64_t)f->n + bytes;
    if (f->n >= COUNT_BELOW)
        return f->n;
    if (reached < f->a)
        return COUNT_BELOW;
    return f->n >= f->a && f->bits != REPEAT_NO_END && reached < f->bits ? COUNT_BETWEEN : f->n;
}

/* The frame with such counts; *all becomes false where longer tokens may reach a bound. */
static uint32_t far_frame(struct grammar_run *run, uint32_t frame, bool *all) {
    VEC(uint32_t) stack = {0};
    for (; run->frames.items[frame].counts; frame = run->frames.items[frame].parent)
        vec_push(&stack, frame);
    while (stack.count) {
        struct frame f = run->frames.items[stack.items[--stack.count]];
        if (f.kind == FRAME_COUNT) {
            uint32_t n = far_count(&f, VOCAB_SHORT_BYTES);
            *all &= n == far_count(&f, MAX(run->vocab->longest, (uint32_t)VOCAB_SHORT_BYTES));
            f.n = n;
        }
        f.parent = frame;
        frame = run_frame(run, f);
    }
    vec_release(&stack);
    return frame;
}

uint32_t run_far_set(struct grammar_run *run, uint32_t set, bool *all) {
    const struct thread_set s = run->sets.items[set];
    bool counts = false;
    *all = s.far_all;
    if (s.far)
        return s.far - 1;
    *all = true;
    run->work.count = 0;
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        counts |= run->frames.items[t.frame].counts;
        push_thread(run, t.state, far_frame(run, t.frame, all)); /* equal ones are one then */
    }
    uint32_t far =
        counts ? run_set_of_readers(run, run->work.items, run->work.count, s.may_end) : set;
    run->sets.items[set].far = far + 1;
    run->sets.items[set].far_all = *all;
    return far;
}

/* The same frame in other tables; the stack is carried over from its bottom. */
static uint32_t carry_frame(struct grammar_run *run, const struct grammar_run *old,
                            uint32_t frame) {
    bool loose = old->loose && !run->loose;
    VEC(uint32_t) stack = {0};
    for (; frame; frame = old->frames.items[frame].parent)
        vec_push(&stack, frame);
    uint32_t at = 0;
    while (stack.count) {
        struct frame f = old->frames.items[stack.items[--stack.count]];
        if (f.kind == FRAME_OBJECT)
            f.bits = run_bits(run, run_frame_bits(old, &f), old->bit_sets.items[f.bits].count);
        if (f.kind == FRAME_UNIQUE || f.kind == FRAME_ITEM)
            f.a = loose ? 0 : carry_frame(run, old, f.a);
        if (f.kind == FRAME_UNIQUE)
            f.n = loose ? 0 : carry_frame(run, old, f.n);
        f.parent = at;
        at = run_frame(run, f);
    }
    vec_release(&stack);
    return at;
}

uint32_t run_carry_set(struct grammar_run *run, const struct grammar_run *from, uint32_t set) {
    const struct thread_set *s = &from->sets.items[set];
    VEC(struct thread) threads = {0};
    for (uint32_t i = 0; i < s->count; i++) {
        struct thread t = from->threads.items[s->first + i];
        t.frame = carry_frame(run, from, t.frame);
        vec_push(&threads, t);
    }
    uint32_t carried = run_set_of_readers(run, threads.items, threads.count, s->may_end);
    vec_release(&threads);
    return carried;
}

void run_start_anew(struct grammar_run *run) {
    struct grammar_run old = *run;
    unique_release(run);
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
    for (struct matcher *m = run->matchers; m; m = m->next)
        m->set = run_carry_set(run, &old, m->set);
    /* what is live comes along each time */
    run->anew_at = MAX(run->anew_at, 2 * run_tables_size(run));
    release_tables(&old);
}
