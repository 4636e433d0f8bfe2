/*
 * mask.c - the mask of a position.
 *
 * Threads inside a JSON string take what vocabularies know in advance: the tokens that stay inside
 * (of a counted string: those that fit), and a walk over the remainders behind the closing quote.
 * All other threads walk the trie of the whole vocabulary, where a subtree whose first byte may not
 * come is passed over; where a pattern shows that text may go on for ever, that of all other tokens.
 * A walk that becomes long looks for the text that may come in any order, and takes subtrees of
 * nothing else at once (free_text.h).
 */
#include "grammar/free_text.h"
#include "grammar/unique.h"

static void allow(uint32_t *bits, uint32_t id) {
    bits[id / 32] |= 1u << id % 32;
}

/* Inside a key most tokens leave every name that the schema knows; from there on the key is any
 * string. A walk that begins inside a string notes the subtrees that lie behind such a place. */
struct any_key {
    uint32_t set;        /* all of whose threads read any string; SET_DEAD until one was met */
    VEC(uint32_t) nodes; /* where it was met, in order; subtrees do not overlap */
};

/* All threads read any string. */
static bool is_body(const struct grammar_run *run, const struct thread_set *s) {
    bool body = s->count > 0;
    for (uint32_t i = 0; i < s->count && body; i++)
        body = run->threads.items[s->first + i].state == STATE_BODY;
    return body;
}

/* A thread of the set reads inside a key. */
static bool reads_key(const struct grammar_run *run, uint32_t set) {
    const struct thread_set *s = &run->sets.items[set];
    const struct thread *readers = run->threads.items + s->first;
    for (uint32_t i = 0; i < s->count; i++)
        if (run->program->states.items[readers[i].state].flags & STATE_KEY)
            return true;
    return false;
}

/* `set` follows `before`; asked of each node of a walk, so what seldom holds is asked first. */
static bool is_any_key(const struct grammar_run *run, uint32_t before, uint32_t set,
                       struct any_key *any) {
    bool may_be = any->set != SET_DEAD ? set == any->set : is_body(run, &run->sets.items[set]);
    if (!may_be || !reads_key(run, before))
        return false;
    any->set = set;
    return true;
}

/* Eight words at a time, which a compiler makes vectors of. */
static void allow_all(uint32_t *restrict bits, const uint32_t *restrict these, uint32_t count) {
    enum { WORDS = 8 };
    uint32_t w = 0;
    for (; w + WORDS <= count; w += WORDS)
        for (uint32_t k = 0; k < WORDS; k++)
            bits[w + k] |= these[w + k];
    for (; w < count; w++)
        bits[w] |= these[w];
}

/* Allows tokens [from, until) of a trie, of those with min to max characters. */
static void allow_tokens(const struct trie *t, uint32_t from, uint32_t until, uint32_t min,
                         uint32_t max, uint32_t *bits) {
    for (uint32_t k = from; k < until; k++)
        if (t->tokens.items[k].chars >= min && t->tokens.items[k].chars <= max)
            allow(bits, t->tokens.items[k].id);
}

enum {
    FREE_TEXT_SHARE = 32, /* a walk that has seen this share of a trie looks for free text */
    SUBTREE_MIN = 5,      /* nodes; smaller subtrees are walked as fast as obstacles are asked */
};

/* The sets on the way to a node, by depth, and their rows of what follows (NULL: not known). Nodes side
 * by side ask the same row. */
struct way {
    uint32_t sets[VOCAB_TOKEN_BYTES_MAX + 1];
    const uint32_t *rows[VOCAB_TOKEN_BYTES_MAX + 1];
};

static void way_to(struct way *way, const struct grammar_run *run, uint32_t depth, uint32_t set) {
    way->sets[depth] = set;
    way->rows[depth] = run->sets.items[set].row;
}

/* What follows the set at this depth; SET_DEAD: the byte may not come. */
static uint32_t way_next(struct way *way, struct grammar_run *run, uint32_t depth, uint8_t byte) {
    const uint32_t *row = way->rows[depth];
    if (row && row[byte] != NEXT_UNKNOWN)
        return row[byte];
    uint32_t next = run_find_next(run, way->sets[depth], byte);
    way_to(way, run, depth, way->sets[depth]);
    return next;
}

/* Refuses the tokens at and below a node that may not come behind `set`. */
static void refuse_below(struct grammar_run *run, const struct trie *t, uint32_t set, uint32_t node,
                         uint32_t *bits) {
    const struct trie_node *nodes = t->nodes.items;
    struct bytes text = run->vocab->tokens[t->tokens.items[nodes[node].token_first].id];
    struct way way;
    uint32_t from = 1; /* bytes of the text that are on the way */
    way_to(&way, run, 0, set);
    for (uint32_t i = node; i < nodes[node].end;) {
        uint32_t depth = nodes[i].depth, next = set;
        for (uint32_t d = MIN(from, depth); d <= depth && next != SET_DEAD; d++) {
            next = way_next(&way, run, d - 1, d < depth ? text.data[d - 1] : nodes[i].byte);
            if (next != SET_DEAD)
                way_to(&way, run, d, next);
        }
        from = UINT32_MAX;
        if (next != SET_DEAD) {
            i++;
            continue;
        }
        for (uint32_t k = nodes[i].token_first; k < nodes[nodes[i].end].token_first; k++)
            bits[t->tokens.items[k].id / 32] &= ~(1u << t->tokens.items[k].id % 32);
        i = nodes[i].end;
    }
}

/* Where only what has one of a few pairs of bytes can be refused: allows all tokens of text but those. */
static bool allow_but_pairs(struct grammar_run *run, const struct free_text *text, uint32_t set,
                            uint32_t *bits) {
    enum { NODES_MAX = 4096 };
    const struct vocab *v = run->vocab;
    const struct trie *t = &v->all;
    uint16_t pairs[OBSTACLES_MAX];
    uint32_t nodes = 0, count = free_text_pairs(text, pairs);
    for (uint32_t i = 0; i < count; i++)
        nodes += t->pair_first[pairs[i] + 1] - t->pair_first[pairs[i]];
    if (!count || nodes > NODES_MAX)
        return false;
    uint32_t *allowed = mem_calloc(v->word_count, sizeof *allowed);
    memcpy(allowed, v->texts.bits, v->word_count * sizeof *allowed);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t n = t->pair_first[pairs[i]]; n < t->pair_first[pairs[i] + 1]; n++)
            refuse_below(run, t, set, t->pair_nodes[n], allowed);
    allow_all(bits, allowed, v->word_count);
    mem_free(allowed);
    return true;
}

/* Free text behind a set on the way; where that leads to many sets, sought where positions that differ in
 * their stacks alone are one. */
struct sought {
    struct free_text text;
    uint32_t
        *flat; /* [depth] sets of the flat run on the way; NULL: the text is of the run's own */
    bool may[0x80];                       /* bytes of the text */
    bool open[VOCAB_TOKEN_BYTES_MAX + 1]; /* [depth] free_text_is_open */
};

static void sought_free(struct sought *x) {
    if (!x)
        return;
    free_text_release(&x->text);
    mem_free(x->flat);
    mem_free(x);
}

/* The set in the tables of which the text is, behind the byte that led to `set`. */
static inline uint32_t sought_set(struct grammar_run *run, struct sought *x, uint32_t set,
                                  uint32_t depth, uint8_t byte) {
    if (!x->flat)
        return set;
    x->flat[depth] = run_next(run->flat, x->flat[depth - 1], byte);
    return x->flat[depth];
}

static void find_text(struct grammar_run *run, const struct trie *t, struct sought *x,
                      uint32_t from, uint32_t set) {
    if (free_text_find(&x->text, run, t, set, !run->calls))
        return;
    uint32_t flat = run_flat_set(run, set);
    (void)free_text_find(&x->text, run->flat, t, flat, true);
    if (!free_text_is_most(&x->text, run, set)) {
        (void)free_text_find(&x->text, run, t, set, true);
        return;
    }
    x->flat = mem_calloc(VOCAB_TOKEN_BYTES_MAX + 1, sizeof *x->flat);
    x->flat[from] = flat;
}

/* From the set at depth `from` on the way to a node. */
static struct sought *seek_text(struct grammar_run *run, const struct trie *t,
                                const struct way *way, uint32_t from, uint32_t node) {
    struct sought *x = mem_alloc(sizeof *x);
    uint32_t depth = t->nodes.items[node].depth, id = t->nodes.items[node].token_first;
    struct bytes text = run->vocab->tokens[t->tokens.items[id].id];
    bool ascii = true; /* so far */
    find_text(run, t, x, from, way->sets[from]);
    for (uint8_t c = 0; c < ARRAY_LEN(x->may); c++)
        x->may[c] = text_bytes_have(x->text.may, text_class(c));
    for (uint32_t d = 0; d < depth; d++) {
        uint8_t byte = d ? text.data[d - 1] : 0;
        uint32_t set = d > from  ? sought_set(run, x, way->sets[d], d, byte)
                       : x->flat ? x->flat[d]
                                 : way->sets[d];
        ascii &= byte < 0x80;
        x->open[d] = d >= from && ascii && free_text_is_open(&x->text, set);
    }
    return x;
}

/* No text is refused behind the node above this one, and of such is this one with all below it. Notes
 * whether none is refused behind it either. */
static bool is_open(struct sought *x, const struct trie *t, uint32_t node) {
    const struct trie_node *n = &t->nodes.items[node];
    bool open = x->open[n->depth - 1] && n->byte < ARRAY_LEN(x->may) && x->may[n->byte];
    x->open[n->depth] = open;
    return open && free_text_has(&x->text, t, node);
}

/* Everything below a node may come, which led to `set`. */
static bool is_covered(struct grammar_run *run, const struct trie *t, struct sought *x,
                       uint32_t set, uint32_t node) {
    const struct trie_node *n = &t->nodes.items[node];
    set = sought_set(run, x, set, n->depth, n->byte);
    if (!x->text.opens)
        return n->end - node >= SUBTREE_MIN && free_text_covers(&x->text, set, t, node);
    if (!x->open[n->depth])
        x->open[n->depth] = n->text == TEXT_BEGIN && free_text_is_open(&x->text, set);
    if (!free_text_has(&x->text, t, node))
        return false;
    return x->open[n->depth] || free_text_covers(&x->text, set, t, node);
}

/* The first child of the root from `child` on whose byte may come, or `end`. */
static const struct trie_child *next_child(struct way *way, struct grammar_run *run,
                                           const struct trie_child *child,
                                           const struct trie_child *end) {
    while (child < end && way_next(way, run, 0, child->byte) == SET_DEAD)
        child++;
    return child;
}

/* Allows the tokens of a trie that may come behind `set`, of those with min to max characters.
 * Returns the number of nodes that were looked at. */
static size_t walk(struct grammar_run *run, const struct trie *t, uint32_t set, uint32_t min,
                   uint32_t max, struct any_key *any, uint32_t *bits) {
    struct way way;
    const struct trie_node *nodes = t->nodes.items;
    const struct trie_child *child = t->children.items, *end = child + t->children.count - 1;
    uint32_t count = nodes[0].end, told = 0; /* tokens in front of this one */
    size_t looked = 0, look_at = t->below ? count / FREE_TEXT_SHARE : SIZE_MAX;
    struct sought *text = NULL; /* once */
    bool opens = false;         /* it has open sets */
    if (set == SET_DEAD)
        return 0;
    way_to(&way, run, 0, set);
    for (uint32_t i = 1; i < count; looked++) {
        if (i == child->node) {
            const struct trie_child *live = next_child(&way, run, child, end);
            if (live != child) {
                allow_tokens(t, told, child->token_first, min, max, bits);
                told = live->token_first;
                i = live->node;
            }
            if (live == end)
                break;
            child = live + 1;
        }
        const struct trie_node *node = &nodes[i];
        if (opens && is_open(text, t, i) && !any) {
            i = node->end;
            continue;
        }
        uint32_t depth = node->depth, next = way_next(&way, run, depth - 1, node->byte);
        bool dead = next == SET_DEAD;
        bool noted = !dead && any && is_any_key(run, way.sets[depth - 1], next, any);
        if (looked == look_at) {
            uint32_t from = 0;
            while (from + 1 < depth && !free_text_may_begin(run, way.sets[from]))
                from++;
            text = seek_text(run, t, &way, from, i);
            opens = text->text.opens;
            if (!any && !from && allow_but_pairs(run, &text->text, set, bits)) {
                sought_free(text);
                return looked + walk(run, &run->vocab->texts.others, set, min, max, NULL, bits);
            }
        }
        if (dead || noted) {
            allow_tokens(t, told, node->token_first, min, max, bits);
            told = nodes[node->end].token_first;
            if (noted)
                vec_push(&any->nodes, i);
            i = node->end;
            continue;
        }
        if (node->end == i + 1) {
            i++;
            continue;
        }
        way_to(&way, run, depth, next);
        bool whole = text && is_covered(run, t, text, next, i);
        i = whole ? node->end : i + 1;
    }
    allow_tokens(t, told, (uint32_t)t->tokens.count, min, max, bits);
    sought_free(text);
    return looked + 1;
}

/* Tokens that stay inside a string with room for `room` more characters. */
static void allow_inside(const struct vocab *v, uint32_t room, uint32_t *bits) {
    size_t lo = 0, hi = v->needs.count;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (v->needs.items[mid].chars <= room)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo * 2 < v->needs.count) {
        for (size_t i = 0; i < lo; i++)
            allow(bits, v->needs.items[i].id);
        return;
    }
    /* Most fit: all of them but those that do not. What others allow already stays allowed. */
    VEC(uint32_t) kept = {0};
    for (size_t i = lo; i < v->needs.count; i++) {
        uint32_t id = v->needs.items[i].id;
        if (bits[id / 32] >> id % 32 & 1)
            vec_push(&kept, id);
    }
    allow_all(bits, v->stay, v->word_count);
    for (size_t i = lo; i < v->needs.count; i++)
        bits[v->needs.items[i].id / 32] &= ~(1u << v->needs.items[i].id % 32);
    for (size_t i = 0; i < kept.count; i++)
        allow(bits, kept.items[i]);
    vec_release(&kept);
}

/* A thread inside a string: true when it was one and its tokens are allowed. */
static bool inside_string(struct grammar_run *run, struct thread t, uint32_t *bits) {
    const struct program *p = run->program;
    const struct vocab *v = run->vocab;
    if (t.state == STATE_BODY) {
        allow_all(bits, v->stay, v->word_count);
        uint32_t behind = run_set_of(run, &(struct thread){STATE_STRING_END, t.frame}, 1);
        walk(run, &v->behind_string, behind, 0, UINT32_MAX, NULL, bits);
        return true;
    }
    if (!(p->states.items[t.state].flags & STATE_CHAR))
        return false;
    const uint64_t *limits = p->words.items + p->states.items[t.state].reach;
    const struct frame count = run->frames.items[t.frame];
    CHECK(count.kind == FRAME_COUNT);
    /* The thread is about to read character n of the string (counted from 1), but for strings
     * without an end, where n stands still at their least length. */
    uint32_t min = (uint32_t)limits[0], max = (uint32_t)limits[1];
    bool endless = max == REPEAT_NO_END;
    bool below = count.n == COUNT_BELOW, between = count.n == COUNT_BETWEEN;
    uint32_t done = count.n ? count.n - 1 : 0;
    uint32_t room = endless || below || between ? UINT32_MAX : max - done;
    uint32_t least = below ? UINT32_MAX : between || min <= done ? 0 : min - done;
    /* The state behind the closing quote is the one that follows the count's end. */
    uint32_t end = t.state - 1;
    allow_inside(v, room, bits);
    uint32_t behind = run_set_of(run, &(struct thread){end, count.parent}, 1);
    walk(run, &v->behind_string, behind, MAX(least, 1u), room, NULL, bits);
    return true;
}

/* Inside a key and between two of its characters. In the midst of one a space never comes; where
 * any key may come it always does. */
static bool at_key_character(const struct program *p, uint32_t state) {
    return (p->states.items[state].flags & STATE_KEY) && program_step(p, state, ' ') != FA_NONE;
}

/* Threads inside a key. Tokens of the noted subtrees do in the key what they do in any string,
 * since what lies in front of the subtree are whole characters of it. */
static size_t inside_key(struct grammar_run *run, uint32_t set, uint32_t *bits) {
    const struct vocab *v = run->vocab;
    struct any_key any = {0};
    size_t looked = walk(run, &v->all, set, 0, UINT32_MAX, &any, bits);
    if (any.nodes.count) {
        uint32_t *string = mem_calloc(v->word_count, sizeof *string);
        const struct thread_set s = run->sets.items[any.set];
        for (uint32_t i = 0; i < s.count; i++)
            (void)inside_string(run, run->threads.items[s.first + i], string);
        /* Tokens outside of the subtrees are not meant. */
        const struct trie *t = &v->all;
        uint32_t from = 0;
        for (size_t i = 0; i <= any.nodes.count; i++) {
            bool last = i == any.nodes.count;
            uint32_t node = last ? t->nodes.items[0].end : any.nodes.items[i];
            uint32_t until = t->nodes.items[node].token_first;
            for (uint32_t k = from; k < until; k++) {
                uint32_t id = t->tokens.items[k].id;
                string[id / 32] &= ~(1u << id % 32);
            }
            from = last ? 0 : t->nodes.items[t->nodes.items[node].end].token_first;
        }
        allow_all(bits, string, v->word_count);
        mem_free(string);
    }
    vec_release(&any.nodes);
    return looked;
}

static void allow_ends(const struct vocab *v, bool may_end, uint32_t *bits) {
    for (uint32_t i = 0; i < v->end_count; i++) {
        uint32_t id = v->ends[i];
        if (may_end)
            allow(bits, id);
        else
            bits[id / 32] &= ~(1u << id % 32);
    }
}

static size_t make_mask(struct grammar_run *run, uint32_t set, uint32_t *bits) {
    const struct vocab *v = run->vocab;
    const struct thread_set s = run->sets.items[set];
    VEC(struct thread) others = {0};
    memset(bits, 0, v->word_count * sizeof *bits);
    for (uint32_t i = 0; i < s.count; i++) {
        struct thread t = run->threads.items[s.first + i];
        if (!inside_string(run, t, bits))
            vec_push(&others, t);
    }
    size_t looked = 0;
    if (others.count) {
        uint32_t rest = others.count == s.count
                            ? set
                            : run_set_of_readers(run, others.items, others.count, false);
        bool keys = true, text = false;
        for (size_t i = 0; i < others.count; i++) {
            keys &= at_key_character(run->program, others.items[i].state);
            text |= run->program->states.items[others.items[i].state].flags & STATE_TEXT;
        }
        if (text) {
            allow_all(bits, v->texts.bits, v->word_count);
            looked = walk(run, &v->texts.others, rest, 0, UINT32_MAX, NULL, bits);
        } else {
            looked = keys ? inside_key(run, rest, bits)
                          : walk(run, &v->all, rest, 0, UINT32_MAX, NULL, bits);
        }
    }
    vec_release(&others);
    allow_ends(v, s.may_end, bits);
    return looked;
}

/* The mask behind a set, whose counts tell; false: the run has failed. */
static bool counted_mask(struct grammar_run *run, uint32_t set, uint32_t *bits) {
    /* Masks of long walks are kept at once, others, as within one string, when they are asked for
     * again. */
    enum { WORTH_KEEPING = 2000, MASKS_MAX = 256, CHEAP_MASKS_MAX = 128 };
    size_t size = run->vocab->word_count * sizeof *bits;
    uint32_t row = run->sets.items[set].mask;
    if (row) {
        memcpy(bits, run->masks.items[row - 1], size);
        return true;
    }
    size_t looked = make_mask(run, set, bits);
    if (run->failed) {
        run->failed = false;
        return false;
    }
    struct thread_set *asked = &run->sets.items[set];
    size_t kept = run->masks.count;
    bool dear = looked >= WORTH_KEEPING, again = asked->asked;
    asked->asked = true;
    if (kept >= (dear ? MASKS_MAX : CHEAP_MASKS_MAX) || !(dear || again))
        return true;
    uint32_t *copy = mem_alloc(MAX(size, sizeof *copy));
    memcpy(copy, bits, size);
    vec_push(&run->masks, copy);
    asked->mask = (uint32_t)kept + 1;
    return true;
}

/* The same; positions in a long text have one mask but for long tokens, as far as bounds of counts are far
 * off. */
static bool mask_of(struct grammar_run *run, uint32_t set, uint32_t *bits) {
    const struct vocab *v = run->vocab;
    bool all;
    uint32_t far = run_far_set(run, set, &all);
    if (!counted_mask(run, far, bits))
        return false;
    if (all)
        return true;
    for (uint32_t w = 0; w < v->word_count; w++)
        bits[w] &= v->shorts.bits[w];
    (void)walk(run, &v->shorts.others, set, 0, UINT32_MAX, NULL, bits);
    allow_ends(v, run->sets.items[set].may_end, bits);
    bool ok = !run->failed;
    run->failed = false;
    return ok;
}

/* The same of an exact run. */
static bool exact_mask_of(struct grammar_run *exact, uint32_t set, uint32_t *bits) {
    if (run_tables_size(exact->loose) > exact->loose->anew_at)
        run_start_anew(exact->loose);
    uint32_t loose = run_carry_set(exact->loose, exact, set);
    if (!mask_of(exact->loose, loose, bits))
        return false;
    unique_refuse(exact, set, loose, bits);
    bool ok = !exact->failed && !exact->loose->failed;
    exact->failed = exact->loose->failed = false;
    return ok;
}

void matcher_mask(struct matcher *m, uint32_t *bits) {
    struct grammar_run *run = m->run;
    CHECK(run->vocab);
    size_t size = run->vocab->word_count * sizeof *bits;
    bool ends = m->ended || m->failed;
    if (!ends)
        m->failed = !(run->loose ? exact_mask_of(run, m->set, bits) : mask_of(run, m->set, bits));
    if (ends || m->failed)
        memset(bits, 0, size);
}
