/*
 * matcher.c - matchers, and the look ahead before a program is used.
 */
#include "grammar/unique.h"

/* ---- matchers ---- */

struct matcher *matcher_new(struct grammar_run *run) {
    struct matcher *m = mem_alloc(sizeof *m);
    run = run->exact ? run->exact : run;
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
    if (run_tables_size(run) > run->anew_at)
        run_start_anew(run);
    uint32_t set = m->set;
    for (size_t i = 0; i < text.len && set != SET_DEAD; i++)
        set = run_next(run, set, text.data[i]);
    if (set != SET_DEAD && run->sets.items[set].unique && !unique_lives(run, set))
        set = SET_DEAD;
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
 * few milliseconds of a compilation. Where no set so far has more than a few threads, what lies behind
 * hardly has hundreds, and less is looked at. */
enum { FEW = 6, WIDE = 16, COST_MAX_FEW = 2000, COST_MAX = 10000, COST_MAX_WIDE = 1 << 17 };

/* Sets to go on from, wide ones first, of those the ones that were found first. */
struct look_ahead {
    struct grammar_run *run;
    struct {
        VEC(uint32_t) sets;
        size_t taken;
    } narrow, wide;
    uint32_t known; /* sets below were opened */
    uint32_t most;  /* threads of one of them */
};

/* A set is new when it has the highest number: sets are kept once. */
static void open_new_sets(struct look_ahead *x) {
    for (; x->known < x->run->sets.count; x->known++) {
        x->most = MAX(x->most, x->run->sets.items[x->known].count);
        if (x->run->sets.items[x->known].count < WIDE)
            vec_push(&x->narrow.sets, x->known);
        else
            vec_push(&x->wide.sets, x->known);
    }
}

/* SET_DEAD: none that the cost allows. */
static uint32_t take_open(struct look_ahead *x, size_t cost) {
    if (x->wide.taken < x->wide.sets.count && cost < COST_MAX_WIDE)
        return x->wide.sets.items[x->wide.taken++];
    if (x->narrow.taken < x->narrow.sets.count && cost < (x->most > FEW ? COST_MAX : COST_MAX_FEW))
        return x->narrow.sets.items[x->narrow.taken++];
    return SET_DEAD;
}

/* Inside of one string: what comes behind it matters alone. */
static bool look_behind_string(struct look_ahead *x, uint32_t set, size_t *cost) {
    struct grammar_run *run = x->run;
    const struct thread_set s = run->sets.items[set];
    struct thread t = run->threads.items[s.first];
    if (s.count != 1 || t.state == STATE_STRING || t.state >= STATE_BEHIND_STRING)
        return false;
    t.state = STATE_STRING_END;
    (void)run_set_of(run, &t, 1);
    *cost += 1 + run->work.count;
    return true;
}

/* Steps over one byte of each kind; returns what that cost. */
static size_t look_behind(struct look_ahead *x, uint32_t set) {
    struct grammar_run *run = x->run;
    const struct thread_set s = run->sets.items[set];
    size_t cost = 0;
    if (s.count && !look_behind_string(x, set, &cost))
        for (uint32_t c = 0, lo, hi; c < 256 && !run->failed; c = hi + 1) {
            (void)run_step(run, set, (uint8_t)c, &lo, &hi);
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
