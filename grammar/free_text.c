#include "grammar/free_text.h"

enum {
    BYTES_MIN = 16,   /* with fewer a walk is short anyway */
    ROOM_ENOUGH = 24, /* sets are looked for behind so many bytes; few tokens have more */
    LENGTH_MAX = 64,  /* of an obstacle */
    EDGES_MAX = 3072,
    FEW_BYTES = 4,     /* of an edge, that make an obstacle each */
    SETS_FEW = 64,     /* with more, stacks may be what makes them many */
    LOOKS_MAX = 40000, /* obstacles before edges; more: there is no free text */
};

/* From one set to another, over these bytes. */
struct edge {
    uint16_t from, to;
    struct text_bytes bytes;
};
/* An obstacle of a set whose predecessors do not know of it yet. */
struct found {
    uint32_t at; /* in sets */
    struct obstacle obstacle;
};
struct search {
    struct free_text *f;
    bool drops;            /* bytes that lead nowhere soon are left out */
    bool letters;          /* but no letters: then nothing is found */
    bool any_stack, grows; /* stacks may grow; they do, and the search has ended */
    struct grammar_run *run;
    const struct trie *trie;
    VEC(struct edge) edges;
    VEC(struct found) found;
};

static struct text_bytes text_bytes_none(void) {
    return (struct text_bytes){0};
}

static bool text_bytes_empty(struct text_bytes b) {
    return !(b.bits[0] | b.bits[1]);
}

static struct text_bytes text_bytes_both(struct text_bytes a, struct text_bytes b) {
    return (struct text_bytes){{a.bits[0] & b.bits[0], a.bits[1] & b.bits[1]}};
}

static struct text_bytes text_bytes_either(struct text_bytes a, struct text_bytes b) {
    return (struct text_bytes){{a.bits[0] | b.bits[0], a.bits[1] | b.bits[1]}};
}

static uint32_t text_bytes_count(struct text_bytes b) {
    return (uint32_t)(__builtin_popcountll(b.bits[0]) + __builtin_popcountll(b.bits[1]));
}

/* How much text there is of these: all above ASCII counts as one. */
static uint32_t text_amount(struct text_bytes b) {
    struct text_bytes ascii = text_bytes_both(b, text_bytes_range(0, TEXT_WITHIN - 1));
    return text_bytes_count(ascii) + text_bytes_have(b, TEXT_WITHIN);
}

static bool text_bytes_touch(struct text_bytes a, struct text_bytes b) {
    return !text_bytes_empty(text_bytes_both(a, b));
}

/* Where this set stands in `slots`, or would. */
static uint32_t slot_of(const struct free_text *f, uint32_t set, uint8_t state) {
    uint32_t at = (set * 2654435761u + state) % FREE_SLOTS;
    for (; f->slots[at]; at = (at + 1) % FREE_SLOTS) {
        const struct free_set *s = &f->sets.items[f->slots[at] - 1];
        if (s->set == set && s->state == state)
            break;
    }
    return at;
}

/* The place of a set; FREE_SETS_MAX: there is no room for it. */
static uint32_t place_of(struct free_text *f, uint32_t set, uint8_t state, uint32_t depth) {
    uint16_t *slot = &f->slots[slot_of(f, set, state)];
    if (*slot)
        return *slot - 1u;
    if (f->sets.count == FREE_SETS_MAX)
        return FREE_SETS_MAX;
    vec_reserve(&f->sets, f->sets.count + 1);
    struct free_set *s = &f->sets.items[f->sets.count++];
    s->set = set;
    s->state = state;
    s->depth = (uint8_t)depth;
    s->count = 0;
    *slot = (uint16_t)f->sets.count;
    return (uint32_t)f->sets.count - 1;
}

/* ---- obstacles ---- */

/* What has obstacle b has obstacle a. */
static bool covers_obstacle(const struct obstacle *a, const struct obstacle *b) {
    if (a->len > b->len || !text_bytes_within(a->all, b->all))
        return false;
    return text_bytes_empty(a->some) || text_bytes_touch(a->some, b->all) ||
           (!text_bytes_empty(b->some) && text_bytes_within(b->some, a->some));
}

/* So does what has both behind the same bytes. */
static bool replaces(const struct obstacle *a, const struct obstacle *b) {
    return (a->first == FIRST_ANY || a->first == b->first) &&
           (a->pair == PAIR_NONE || a->pair == b->pair) && covers_obstacle(a, b);
}

/* Whether one of the set's obstacles replaces this one. */
static bool is_known(const struct free_set *s, const struct obstacle *x) {
    for (uint32_t i = 0; i < s->count; i++)
        if (replaces(&s->obstacles[i], x))
            return true;
    return false;
}

static void drop_replaced(struct free_set *s, const struct obstacle *x) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++)
        if (!replaces(x, &s->obstacles[i]))
            s->obstacles[kept++] = s->obstacles[i];
    s->count = (uint8_t)kept;
}

/* What is there where either is, of two with one pair. */
static struct obstacle join(const struct obstacle *a, const struct obstacle *b) {
    bool open = text_bytes_empty(a->some) || text_bytes_empty(b->some);
    return (struct obstacle){.all = text_bytes_both(a->all, b->all),
                             .some = open ? text_bytes_none() : text_bytes_either(a->some, b->some),
                             .pair = a->pair,
                             .len = MIN(a->len, b->len),
                             .first = a->first == b->first ? a->first : FIRST_ANY};
}

/* Of those with one pair a set has one, and of a set that has too many only the length of the shortest is
 * kept. */
static void add_obstacle(struct search *x, uint32_t at, struct obstacle o) {
    struct free_set *s = &x->f->sets.items[at];
    if (text_bytes_touch(o.some, o.all))
        o.some = text_bytes_none();
    if (is_known(s, &o))
        return;
    for (uint32_t i = 0; i < s->count && o.pair != PAIR_NONE; i++)
        if (s->obstacles[i].pair == o.pair)
            o = join(&o, &s->obstacles[i]);
    drop_replaced(s, &o);
    if (s->count == OBSTACLES_MAX) {
        o = (struct obstacle){.len = o.len, .pair = PAIR_NONE, .first = FIRST_ANY};
        for (uint32_t i = 0; i < s->count; i++)
            o.len = MIN(o.len, s->obstacles[i].len);
        s->count = 0;
    }
    s->obstacles[s->count++] = o;
    vec_push(&x->found, ((struct found){at, o}));
}

static uint32_t pair_nodes(const struct trie *t, uint32_t pair) {
    return pair == PAIR_NONE ? UINT32_MAX : t->pair_first[pair + 1] - t->pair_first[pair];
}

/* What an obstacle is with a byte of this class in front of it. The rarest pair is kept. */
static struct obstacle with_byte(const struct search *x, struct obstacle o, uint32_t c) {
    uint8_t byte = c < TEXT_CONTROLS ? 0 : (uint8_t)(c - TEXT_CONTROLS + 0x20);
    bool plain = c < TEXT_WITHIN && vocab_is_plain(byte);
    uint32_t pair = plain && o.first != FIRST_ANY ? byte_pair(byte, o.first) : PAIR_NONE;
    text_bytes_add(&o.all, c);
    if (pair_nodes(x->trie, pair) < pair_nodes(x->trie, o.pair))
        o.pair = (uint16_t)pair;
    o.first = plain ? byte : FIRST_ANY;
    return o;
}

/* The same within a character. Which bytes it is of is told in front of it; `o` without a length: it is
 * refused here. */
static void add_within(struct search *x, uint32_t at, struct obstacle o) {
    if (!o.len) {
        text_bytes_add(&o.all, TEXT_WITHIN);
        o.first = FIRST_WITHIN;
    } else if (o.first != FIRST_WITHIN) {
        o.first = FIRST_ANY;
    }
    o.len++;
    add_obstacle(x, at, o);
}

/* Adds to a set what an obstacle is with one of these bytes in front of it. */
static void add_behind(struct search *x, uint32_t at, struct text_bytes bytes, struct obstacle o) {
    struct obstacle any = o;
    if (o.len == LENGTH_MAX) {
        x->f->room = LENGTH_MAX;
        return;
    }
    if (x->f->sets.items[at].state != TEXT_BEGIN) {
        add_within(x, at, o);
        return;
    }
    o.len = ++any.len;
    any.first = FIRST_ANY;
    if (is_known(&x->f->sets.items[at], &any))
        return;
    /* of a whole character above ASCII one class tells enough */
    if (o.len > 2 && o.first != FIRST_WITHIN &&
        text_bytes_within(bytes, text_bytes_range(TEXT_LEADS, TEXT_OTHER - 1)))
        bytes = text_bytes_range(TEXT_WITHIN, TEXT_WITHIN);
    if (text_bytes_count(bytes) <= FEW_BYTES) {
        for (size_t w = 0; w < ARRAY_LEN(bytes.bits); w++)
            for (uint64_t left = bytes.bits[w]; left; left &= left - 1) {
                uint32_t c = (uint32_t)w * 64 + (uint32_t)__builtin_ctzll(left);
                add_obstacle(x, at, with_byte(x, o, c));
            }
        return;
    }
    bool has = text_bytes_touch(bytes, o.all);
    if (!has && (text_bytes_empty(o.some) || text_bytes_count(bytes) < text_bytes_count(o.some)))
        any.some = bytes;
    add_obstacle(x, at, any);
}

/* ---- sets ---- */

/* The edge between two sets, one of those from `first` on, or a new one. */
static struct edge *edge_to(struct search *x, size_t first, uint32_t from, uint32_t to) {
    for (size_t i = x->edges.count; i-- > first;)
        if (x->edges.items[i].to == to)
            return &x->edges.items[i];
    vec_push(&x->edges, ((struct edge){.from = (uint16_t)from, .to = (uint16_t)to}));
    return &x->edges.items[x->edges.count - 1];
}

/* Bytes side by side that lead on from between two characters, or within one. */
struct span {
    uint8_t lo, hi, to; /* to: enum text_state */
};
enum { SPANS_MAX = 12 };
static const struct {
    uint32_t count;
    struct span spans[SPANS_MAX];
} SPANS[TEXT_NONE] = {
    [TEXT_BEGIN] = {11,
                    {{0x00, 0x7f, TEXT_BEGIN},
                     {0xc2, 0xdf, TEXT_1},
                     {0xe0, 0xe0, TEXT_E0},
                     {0xe1, 0xe1, TEXT_2},
                     {0xe2, 0xe2, TEXT_E2},
                     {0xe3, 0xec, TEXT_2},
                     {0xed, 0xed, TEXT_ED},
                     {0xee, 0xef, TEXT_2},
                     {0xf0, 0xf0, TEXT_F0},
                     {0xf1, 0xf3, TEXT_3},
                     {0xf4, 0xf4, TEXT_F4}}},
    [TEXT_1] = {1, {{0x80, 0xbf, TEXT_BEGIN}}},
    [TEXT_2] = {1, {{0x80, 0xbf, TEXT_1}}},
    [TEXT_3] = {1, {{0x80, 0xbf, TEXT_2}}},
    [TEXT_E0] = {1, {{0xa0, 0xbf, TEXT_1}}},
    [TEXT_E2] = {2, {{0x80, 0x80, TEXT_E2_80}, {0x81, 0xbf, TEXT_1}}},
    [TEXT_E2_80] = {2, {{0x80, 0xa7, TEXT_BEGIN}, {0xaa, 0xbf, TEXT_BEGIN}}},
    [TEXT_ED] = {1, {{0x80, 0x9f, TEXT_1}}},
    [TEXT_F0] = {1, {{0x90, 0xbf, TEXT_2}}},
    [TEXT_F4] = {1, {{0x80, 0x8f, TEXT_2}}},
};

/* The last byte up to `hi` that follows as `lo` does; *next: the set behind them. */
static uint32_t span_alike(struct grammar_run *run, uint32_t set, uint32_t lo, uint32_t hi,
                           uint32_t *next) {
    uint32_t last = lo;
    *next = run_next(run, set, (uint8_t)lo);
    const uint32_t *row = run->sets.items[set].row;
    while (row && last < hi && row[last + 1] == *next)
        last++;
    return last;
}

/* Of these, those that may come; of a class all or nothing. */
static struct text_bytes bytes_behind(struct grammar_run *run, uint32_t set,
                                      struct text_bytes may) {
    for (uint32_t i = 0; i < SPANS[TEXT_BEGIN].count; i++) {
        const struct span s = SPANS[TEXT_BEGIN].spans[i];
        for (uint32_t lo = s.lo, next; lo <= s.hi; lo++) {
            if (!text_bytes_have(may, text_class((uint8_t)lo)))
                continue;
            uint32_t hi = span_alike(run, set, lo, s.hi, &next);
            if (next == SET_DEAD)
                text_bytes_drop(&may,
                                text_bytes_range(text_class((uint8_t)lo), text_class((uint8_t)hi)));
            lo = hi;
        }
    }
    return may;
}

static bool leads_nowhere(const struct search *x, uint32_t next, uint8_t to);

/* One of the characters that end behind this set does so. */
static bool ends_nowhere(const struct search *x, uint32_t set, uint8_t state) {
    enum { SETS_MAX = 4 }; /* a character that leads to more is left out, too */
    uint32_t sets = 0;
    for (uint32_t i = 0; i < SPANS[state].count; i++) {
        const struct span s = SPANS[state].spans[i];
        for (uint32_t lo = s.lo, next; lo <= s.hi; lo++) {
            lo = span_alike(x->run, set, lo, s.hi, &next);
            if (++sets > SETS_MAX || leads_nowhere(x, next, s.to))
                return true;
        }
    }
    return false;
}

/* Nothing comes behind this byte, or little of what comes elsewhere. */
static bool leads_nowhere(const struct search *x, uint32_t next, uint8_t to) {
    if (next == SET_DEAD)
        return true;
    if (x->f->slots[slot_of(x->f, next, to)])
        return false;
    if (to != TEXT_BEGIN)
        return ends_nowhere(x, next, to);
    struct text_bytes behind = bytes_behind(x->run, next, x->f->may);
    return text_amount(behind) * 4 < text_amount(x->f->may) * 3;
}

/* What a set leads to by some bytes. */
struct behind {
    size_t first;                    /* of its edges */
    struct text_bytes dead, unknown; /* nothing comes; there is no room for another set */
};

/* Notes that these bytes lead from a set to another. */
static void note_bytes(struct search *x, uint32_t at, struct text_bytes bytes, uint32_t next,
                       uint8_t to, struct behind *out) {
    uint32_t depth = x->f->sets.items[at].depth + 1u;
    uint32_t place = next == SET_DEAD ? 0 : place_of(x->f, next, to, depth);
    struct text_bytes *told = next == SET_DEAD         ? &out->dead
                              : place == FREE_SETS_MAX ? &out->unknown
                                                       : &edge_to(x, out->first, at, place)->bytes;
    *told = text_bytes_either(*told, bytes);
}

/* Adds what follows a set, and what is refused there. A set for which there is no room may refuse
 * whatever comes behind it. False: too many edges, or a letter that
 * is to stay leads nowhere. */
static bool look_behind(struct search *x, uint32_t at) {
    const uint32_t set = x->f->sets.items[at].set, state = x->f->sets.items[at].state;
    struct behind behind = {.first = x->edges.count};
    if (x->f->sets.items[at].depth == ROOM_ENOUGH) {
        add_obstacle(x, at, (struct obstacle){.pair = PAIR_NONE, .len = 1, .first = FIRST_ANY});
        return true;
    }
    for (uint32_t i = 0; i < SPANS[state].count; i++) {
        const struct span s = SPANS[state].spans[i];
        for (uint32_t lo = s.lo, hi = lo, next; lo <= s.hi; lo = hi + 1) {
            hi = lo;
            if (!text_bytes_have(x->f->may, text_class((uint8_t)lo)))
                continue;
            hi = span_alike(x->run, set, lo, s.hi, &next);
            struct text_bytes bytes =
                text_bytes_range(text_class((uint8_t)lo), text_class((uint8_t)hi));
            if (x->drops && state == TEXT_BEGIN && leads_nowhere(x, next, s.to)) {
                text_bytes_drop(&x->f->may, bytes);
                if (x->letters && hi >= 'a' && lo <= 'z')
                    return false;
                continue;
            }
            note_bytes(x, at, text_bytes_both(bytes, x->f->may), next, s.to, &behind);
        }
    }
    struct obstacle any = {.pair = PAIR_NONE, .first = FIRST_ANY};
    if (!text_bytes_empty(behind.dead))
        add_behind(x, at, behind.dead, any);
    any.len = 1;
    if (!text_bytes_empty(behind.unknown))
        add_behind(x, at, behind.unknown, any);
    return x->edges.count < EDGES_MAX;
}

/* Not by memcmp: there is padding. */
static bool is_same(const struct obstacle *a, const struct obstacle *b) {
    return a->pair == b->pair && a->len == b->len && a->first == b->first &&
           !memcmp(&a->all, &b->all, sizeof a->all) && !memcmp(&a->some, &b->some, sizeof a->some);
}

static bool has_obstacle(const struct free_set *s, const struct obstacle *o) {
    for (uint32_t i = 0; i < s->count; i++)
        if (is_same(&s->obstacles[i], o))
            return true;
    return false;
}

/* Tells all sets of the obstacles behind them. False: they are too many. */
static bool go_back_all(struct search *x) {
    uint32_t first[FREE_SETS_MAX + 2] = {0}; /* of the edges by where they lead to, in `order` */
    uint16_t *order = mem_alloc((x->edges.count + 1) * sizeof *order);
    for (size_t i = 0; i < x->edges.count; i++)
        first[x->edges.items[i].to + 2]++;
    for (uint32_t i = 2; i < x->f->sets.count + 2; i++)
        first[i] += first[i - 1];
    for (size_t i = 0; i < x->edges.count; i++)
        order[first[x->edges.items[i].to + 1]++] = (uint16_t)i;
    size_t looks = 0;
    for (size_t n = 0; n < x->found.count && looks < LOOKS_MAX; n++) {
        const struct found now = x->found.items[n];
        if (!has_obstacle(&x->f->sets.items[now.at], &now.obstacle))
            continue; /* another was found since that asks for less */
        for (uint32_t i = first[now.at]; i < first[now.at + 1]; i++, looks++) {
            const struct edge *e = &x->edges.items[order[i]];
            struct text_bytes bytes = text_bytes_both(e->bytes, x->f->may); /* some were dropped */
            if (!text_bytes_empty(bytes))
                add_behind(x, e->from, bytes, now.obstacle);
        }
    }
    mem_free(order);
    return looks < LOOKS_MAX;
}

/* The sets stand on several stacks. */
static bool stacks_grow(const struct search *x) {
    enum { STACKS = 4 };
    uint32_t stacks[STACKS], count = 0;
    for (uint32_t i = 0; i < x->f->sets.count && count < STACKS; i++) {
        const struct thread_set s = x->run->sets.items[x->f->sets.items[i].set];
        uint32_t frame = s.count ? x->run->threads.items[s.first].frame : 0, k = 0;
        while (k < count && stacks[k] != frame)
            k++;
        stacks[k] = frame;
        count += k == count;
    }
    return count == STACKS;
}

/* What free_text_has and free_text_is_open ask. */
static void note_groups(struct free_text *f) {
    struct text_bytes others = text_bytes_range(0, TEXT_OTHER);
    if (!f->sets.count)
        return;
    text_bytes_drop(&others, f->may);
    f->some = text_bytes_groups(f->may);
    f->whole = f->some & ~text_bytes_groups(others);
    for (uint32_t i = 0; i < f->sets.count && f->room == VOCAB_TOKEN_BYTES_MAX && !f->opens; i++)
        f->opens = !f->sets.items[i].count && f->sets.items[i].state == TEXT_BEGIN;
}

static void find(struct search *x, uint32_t set) {
    struct free_text *f = x->f;
    f->may =
        bytes_behind(x->run, set, x->drops ? text_bytes_of_characters() : text_bytes_of_text());
    f->room = VOCAB_TOKEN_BYTES_MAX;
    f->sets.count = f->some = f->whole = 0;
    f->opens = false;
    if (text_amount(f->may) < BYTES_MIN)
        return;
    memset(f->slots, 0, sizeof f->slots);
    (void)place_of(f, set, TEXT_BEGIN, 0);
    bool known = true, any_stack = x->any_stack;
    for (uint32_t i = 0; i < f->sets.count && known; i++) {
        known = look_behind(x, i) && text_amount(f->may) >= BYTES_MIN;
        if (known && !any_stack && f->sets.count >= SETS_FEW) {
            known = !(x->grows = stacks_grow(x));
            any_stack = true;
        }
    }
    if (!known || !go_back_all(x))
        f->sets.count = 0;
    note_groups(f);
    vec_release(&x->edges);
    vec_release(&x->found);
}

/* Most letters lead on to text, not each to the next letter of some word. */
static bool is_prose(struct grammar_run *run, uint32_t set) {
    struct text_bytes may = bytes_behind(run, set, text_bytes_of_text());
    uint32_t letters = 0, some = text_amount(may) * 3 / 4;
    for (uint8_t c = 'a'; c <= 'z'; c++) {
        uint32_t next = text_bytes_have(may, text_class(c)) ? run_next(run, set, c) : SET_DEAD;
        letters += next != SET_DEAD && text_amount(bytes_behind(run, next, may)) >= some;
    }
    return letters > 13;
}

bool free_text_may_begin(struct grammar_run *run, uint32_t set) {
    return text_amount(bytes_behind(run, set, text_bytes_of_characters())) >= BYTES_MIN;
}

bool free_text_find(struct free_text *f, struct grammar_run *run, const struct trie *t,
                    uint32_t set, bool any_stack) {
    struct search x = {.f = f, .run = run, .trie = t, .any_stack = any_stack};
    x.drops = x.letters = true;
    find(&x, set);
    if (!f->sets.count && !x.grows && is_prose(run, set)) {
        x.drops = x.letters = false;
        find(&x, set);
    }
    if (!f->sets.count && !x.grows) {
        x.drops = true;
        x.letters = false;
        find(&x, set);
    }
    return !x.grows;
}

void free_text_release(struct free_text *f) {
    vec_release(&f->sets);
}

bool free_text_is_most(const struct free_text *f, struct grammar_run *run, uint32_t set) {
    struct text_bytes may = bytes_behind(run, set, text_bytes_of_characters());
    return f->sets.count && text_amount(f->may) * 4 >= text_amount(may) * 3;
}

bool free_text_is_open(const struct free_text *f, uint32_t set) {
    uint16_t place = f->opens ? f->slots[slot_of(f, set, TEXT_BEGIN)] : 0;
    return place && !f->sets.items[place - 1].count;
}

bool free_text_covers(const struct free_text *f, uint32_t set, const struct trie *t,
                      uint32_t node) {
    const struct trie_node *n = &t->nodes.items[node];
    const struct obstacle whole = {.all = t->below[node], .len = n->height};
    if (!f->sets.count || n->height > f->room || !text_bytes_within(whole.all, f->may))
        return false;
    uint16_t place = f->slots[slot_of(f, set, n->text)];
    const struct free_set *s = place ? &f->sets.items[place - 1] : NULL;
    for (uint32_t i = 0; s && i < s->count; i++)
        if (covers_obstacle(&s->obstacles[i], &whole))
            return false;
    return s != NULL;
}

uint32_t free_text_pairs(const struct free_text *f, uint16_t *pairs) {
    if (!f->sets.count || f->room < VOCAB_TOKEN_BYTES_MAX ||
        !text_bytes_within(text_bytes_of_text(), f->may))
        return 0;
    const struct free_set *s = &f->sets.items[0];
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->obstacles[i].pair == PAIR_NONE)
            return 0;
        pairs[i] = s->obstacles[i].pair;
    }
    return s->count;
}
