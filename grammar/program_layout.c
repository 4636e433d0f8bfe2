/*
 * program_layout.c - strings and objects of JSON, laid out by hand: they are deterministic as they
 * are.
 */
#include "grammar/program_internal.h"

#include <pthread.h>

/* ---- strings ---- */

/* What stands behind a string's first quote, the last one included: the same in every program, so
 * it is made once. */
static struct dfa body_dfa;
static pthread_once_t body_once = PTHREAD_ONCE_INIT;

static void make_body_dfa(void) {
    struct nfa n = {0};
    struct fa_fuel fuel = {.states = 10000};
    struct error err;
    uint32_t body = nfa_state(&n), end = nfa_state(&n), slash = nfa_state(&n), u = nfa_state(&n);
    n.labels.items[end] = 0;
    nfa_add_quoted(&n, body, 0, 0x10ffff, body);
    nfa_edge(&n, body, '"', '"', end);
    /* Printable characters may be escaped by number as well: two hex digits, 20 to 7e. */
    uint32_t zero = nfa_state(&n), zeros = nfa_state(&n), digit = nfa_state(&n),
             seven = nfa_state(&n);
    nfa_edge(&n, body, '\\', '\\', slash);
    nfa_edge(&n, slash, 'u', 'u', u);
    nfa_edge(&n, u, '0', '0', zero);
    nfa_edge(&n, zero, '0', '0', zeros);
    nfa_edge(&n, zeros, '2', '6', digit);
    nfa_edge(&n, zeros, '7', '7', seven);
    static const uint8_t HEX[][2] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    for (size_t i = 0; i < ARRAY_LEN(HEX); i++) {
        nfa_edge(&n, digit, HEX[i][0], HEX[i][1], body);
        nfa_edge(&n, seven, HEX[i][0], HEX[i][1], body);
    }
    CHECK(!dfa_from_nfa(&n, body, &fuel, &body_dfa, &err));
    CHECK(body_dfa.states.count + 1 <= STATE_BEHIND_STRING);
    nfa_release(&n);
}

/* The strings' own states: STATE_BODY is the dfa's start, STATE_STRING_END its only accepting one.
 */
void compile_any_string(struct compiler *c) {
    CHECK(!pthread_once(&body_once, make_body_dfa));
    const struct dfa *d = &body_dfa;
    uint32_t number[STATE_BEHIND_STRING], next = STATE_STRING_END + 1;
    for (uint32_t i = 0; i < d->states.count; i++)
        number[i] = i == 0                                ? STATE_BODY
                    : d->states.items[i].label != FA_NONE ? STATE_STRING_END
                                                          : next++;
    (void)program_new_state(c->p);
    program_state_edge(c->p, '"', '"', STATE_BODY);
    for (uint32_t want = STATE_BODY; want < STATE_BEHIND_STRING; want++) {
        (void)program_new_state(c->p);
        for (uint32_t i = 0; i < d->states.count; i++) {
            if (number[i] != want)
                continue;
            const struct dfa_state *s = &d->states.items[i];
            c->p->states.items[want].flags = s->label != FA_NONE ? STATE_ACCEPTS : 0;
            for (uint32_t e = 0; e < s->edge_count; e++) {
                const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
                program_state_edge(c->p, (uint8_t)edge->lo, (uint8_t)edge->hi, number[edge->to]);
            }
        }
    }
}

/* open: '"' -> begin: count -> loop: (next) -> character ... -> loop | (end) -> close: '"' -> end */
void compile_counted_string(struct compiler *c, uint32_t index) {
    struct program *p = c->p;
    const struct counted *count = &c->strings.items[index];
    uint32_t open = (uint32_t)p->states.count, begin = open + 1, loop = open + 2, close = open + 3,
             end = open + 4, first = open + 5;
    vec_push(&c->string_starts, open);
    (void)program_new_state(p);
    program_state_edge(p, '"', '"', begin);
    (void)program_new_state(p);
    program_state_action(p, ACT_COUNT_BEGIN, count->min, count->max, loop);
    (void)program_new_state(p);
    program_state_action(p, ACT_COUNT_NEXT, count->min, count->max, first);
    program_state_action(p, ACT_COUNT_END, count->min, 0, close);
    (void)program_new_state(p);
    program_state_edge(p, '"', '"', end);
    (void)program_new_state(p);
    program_last_state(p)->flags = STATE_ACCEPTS;
    /* A copy of the body's states, whose whole characters lead back to the loop. */
    for (uint32_t s = STATE_BODY; s < STATE_BEHIND_STRING; s++) {
        (void)program_new_state(p);
        struct state *copy = program_last_state(p);
        if (s == STATE_BODY) {
            copy->flags = STATE_CHAR;
            copy->reach = (uint32_t)p->words.count;
            vec_push(&p->words, count->min);
            vec_push(&p->words, count->max);
        }
        const struct state from = p->states.items[s];
        for (uint32_t e = 0; e < from.edge_count; e++) {
            struct byte_edge edge = p->edges.items[from.edge_first + e];
            if (edge.to != STATE_STRING_END)
                program_state_edge(p, edge.lo, edge.hi,
                                   edge.to == STATE_BODY ? loop : first + edge.to - STATE_BODY);
        }
    }
}

/* A run of white space, where there may be one. */
static void state_space(struct compiler *c, uint32_t to) {
    if (!c->b->loose_space || c->b->plain)
        return;
    program_state_edge(c->p, '\t', '\n', to);
    program_state_edge(c->p, '\r', '\r', to);
    program_state_edge(c->p, ' ', ' ', to);
}

/* ---- objects ---- */

/* The state of the code points' dfa that accepts every continuation with one open label: there a
 * key is any string. FA_NONE when there is none. */
static uint32_t any_key_state(const struct object_rules *o) {
    for (uint32_t i = 0; i < o->keys.states.count; i++) {
        const struct dfa_state *s = &o->keys.states.items[i];
        if (s->label == FA_NONE || s->label < o->property_count || s->edge_count != 1)
            continue;
        const struct fa_edge *e = &o->keys.edges.items[s->edge_first];
        if (e->lo == 0 && e->hi >= 0x10ffff && e->to == i)
            return i;
    }
    return FA_NONE;
}

/* Keys whose values could never end may not come. any_label stands for the label of any key. */
static bool label_lives(const struct compiler *c, const struct object_rules *o, uint32_t label) {
    if (label >= o->values.count)
        label = o->keys.states.items[any_key_state(o)].label;
    return c->productive[o->values.items[label]];
}

/* The sets of labels that each key state may still reach, as one word array a state. */
static void find_reach(const struct compiler *c, const struct dfa *keys,
                       const struct object_rules *o, uint32_t words, uint64_t *reach) {
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = (uint32_t)keys->states.count; i-- > 0;) {
            const struct dfa_state *s = &keys->states.items[i];
            uint64_t *mine = reach + (size_t)i * words;
            if (s->label != FA_NONE && label_lives(c, o, s->label)) {
                uint32_t bit = MIN(s->label, o->property_count);
                changed |= !(mine[bit / 64] >> bit % 64 & 1);
                mine[bit / 64] |= 1ull << bit % 64;
            }
            for (uint32_t e = 0; e < s->edge_count; e++) {
                const uint64_t *to =
                    reach + (size_t)keys->edges.items[s->edge_first + e].to * words;
                for (uint32_t w = 0; w < words; w++) {
                    changed |= (to[w] & ~mine[w]) != 0;
                    mine[w] |= to[w];
                }
            }
        }
    }
}

/* Code points that are no plain printable ASCII inside a string: all of these are escaped, or are
 * more than one byte. */
static const struct code_range UNPLAIN[] = {
    {0, 0x1F}, {'"', '"'}, {'/', '/'}, {'\\', '\\'}, {0x7F, 0x10FFFF}};

/* All unplain code points lead from the state to `any`. */
static bool unplain_is_any(const struct dfa *d, uint32_t state, uint32_t any) {
    const struct dfa_state *s = &d->states.items[state];
    size_t covered = 0;
    for (uint32_t e = 0; e < s->edge_count && any != FA_NONE; e++) {
        const struct fa_edge *edge = &d->edges.items[s->edge_first + e];
        for (size_t i = 0; i < ARRAY_LEN(UNPLAIN); i++)
            covered += edge->to == any && edge->lo <= UNPLAIN[i].lo && edge->hi >= UNPLAIN[i].hi;
    }
    return covered == ARRAY_LEN(UNPLAIN);
}

/* Nearly all states of keys go to `any` on whatever is not plain; that way is built once. */
static int key_bytes(struct compiler *c, const struct object_rules *o, uint32_t any_label,
                     struct dfa *out) {
    struct nfa n = {0};
    uint32_t any = any_key_state(o);
    for (size_t i = 0; i < o->keys.states.count; i++)
        (void)nfa_state(&n);
    uint32_t unplain = nfa_state(&n);
    for (size_t i = 0; i < ARRAY_LEN(UNPLAIN) && any != FA_NONE; i++)
        nfa_add_quoted(&n, unplain, UNPLAIN[i].lo, UNPLAIN[i].hi, any);
    for (uint32_t i = 0; i < o->keys.states.count; i++) {
        const struct dfa_state *s = &o->keys.states.items[i];
        n.labels.items[i] = s->label;
        if (i == any) { /* read on by the strings' own states */
            n.labels.items[i] = any_label;
            continue;
        }
        bool shared = unplain_is_any(&o->keys, i, any);
        if (shared)
            nfa_free_edge(&n, i, unplain);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &o->keys.edges.items[s->edge_first + e];
            static const struct code_range PLAIN[] = {
                {0x20, '"' - 1}, {'"' + 1, '/' - 1}, {'/' + 1, '\\' - 1}, {'\\' + 1, 0x7E}};
            if (!shared)
                nfa_add_quoted(&n, i, edge->lo, MIN(edge->hi, 0x10ffffu), edge->to);
            for (size_t k = 0; k < ARRAY_LEN(PLAIN) && shared; k++)
                if (MAX(edge->lo, PLAIN[k].lo) <= MIN(edge->hi, PLAIN[k].hi))
                    nfa_edge(&n, i, MAX(edge->lo, PLAIN[k].lo), MIN(edge->hi, PLAIN[k].hi),
                             edge->to);
        }
    }
    int rc = dfa_from_nfa(&n, 0, &c->b->fuel, out, c->err);
    nfa_release(&n);
    return rc;
}

static uint32_t words_of(struct program *p, const uint64_t *bits, uint32_t count,
                         uint32_t bit_count) {
    uint32_t at = (uint32_t)p->words.count;
    for (uint32_t w = 0; w < count; w++)
        vec_push(&p->words, bits && w * 64 < bit_count ? bits[w] : 0);
    return at;
}

static uint32_t add_object(struct program *p, const struct object_rules *o) {
    uint32_t words = o->property_count / 64 + 1, needs = FA_NONE;
    uint32_t required = words_of(p, o->required, words, o->property_count);
    if (o->needs) {
        needs = (uint32_t)p->words.count;
        for (uint32_t i = 0; i < o->property_count; i++)
            (void)words_of(p, o->needs[i], words, o->property_count);
    }
    vec_push(&p->objects, ((struct object_program){.property_count = o->property_count,
                                                   .word_count = words,
                                                   .count_min = o->count_min,
                                                   .count_max = o->count_max,
                                                   .required = required,
                                                   .needs = needs,
                                                   .some = o->some,
                                                   .ordered = o->ordered,
                                                   .open = o->values.count > o->property_count}));
    return (uint32_t)p->objects.count - 1;
}

/* Adds to the state made last the values that may stand behind a label. */
static void call_values(struct compiler *c, const struct object_rules *o, uint32_t label,
                        uint32_t noted, uint32_t next) {
    program_state_action(c->p, ACT_CALL, o->values.items[label], 0, next);
    for (uint32_t i = 0; i < o->somes.count; i++)
        if (o->somes.items[i].label == label && c->productive[o->somes.items[i].rule])
            program_state_action(c->p, ACT_CALL, o->somes.items[i].rule, 0, noted + i);
}

/* start: '{' -> begin -> first: space* (end) -> close: '}' | (more) -> quote: '"' -> key ...
 * -> after the key, one chain a rule of values: (key) space* ':' space* (call) -> next: space*
 * (end) | (more) -> comma: ',' -> behind: space* '"' -> key
 * A value that is noted leads to a state of its own in front of next.
 * With `plain` one space may come behind ':' and ',', to a state like the one where it comes. */
int compile_object(struct compiler *c, uint32_t index) {
    struct program *p = c->p;
    const struct object_rules *o = &c->b->objects.items[index];
    uint32_t one = c->b->loose_space && c->b->plain;
    struct dfa keys;
    uint32_t any_label = (uint32_t)o->values.count; /* one above all labels */
    int rc = key_bytes(c, o, any_label, &keys);
    if (rc)
        return rc;
    uint32_t object = add_object(p, o), words = p->objects.items[object].word_count;
    uint32_t start = (uint32_t)p->states.count, begin = start + 1, first = start + 2,
             close = start + 3, end = start + 4, quote = start + 5, next = start + 6,
             comma = start + 7, behind = start + 8, key = start + 9 + one, width = 3 + one;
    uint32_t any = any_key_state(o), tail = key + (uint32_t)keys.states.count;
    c->starts[object_target(c, index)] = start;
    p->objects.items[object].key = key;
    (void)program_new_state(p);
    program_state_edge(p, '{', '{', begin);
    (void)program_new_state(p);
    program_state_action(p, ACT_OBJECT_BEGIN, object, 0, first);
    (void)program_new_state(p);
    state_space(c, first);
    program_state_action(p, ACT_OBJECT_END, 0, 0, close);
    program_state_action(p, ACT_OBJECT_MORE, 0, 0, quote);
    (void)program_new_state(p);
    program_state_edge(p, '}', '}', end);
    (void)program_new_state(p);
    program_last_state(p)->flags = STATE_ACCEPTS;
    (void)program_new_state(p);
    program_state_edge(p, '"', '"', key);
    (void)program_new_state(p);
    state_space(c, next);
    program_state_action(p, ACT_OBJECT_END, 0, 0, close);
    program_state_action(p, ACT_OBJECT_MORE, 0, 0, comma);
    (void)program_new_state(p);
    program_state_edge(p, ',', ',', behind);
    (void)program_new_state(p);
    state_space(c, behind);
    if (one) {
        program_state_edge(p, ' ', ' ', behind + 1);
        program_state_edge(p, '"', '"', key);
        (void)program_new_state(p);
    }
    program_state_edge(p, '"', '"', key);
    /* Behind each label: the state that notes it, then the value. Labels of one rule share that. */
    uint64_t *reach = mem_calloc(keys.states.count * words + 1, sizeof *reach);
    find_reach(c, &keys, o, words, reach);
    for (uint32_t i = 0; i < keys.states.count; i++) {
        const struct dfa_state *s = &keys.states.items[i];
        (void)program_new_state(p);
        struct state *made = program_last_state(p);
        made->flags = STATE_KEY;
        made->reach = (uint32_t)p->words.count;
        for (uint32_t w = 0; w < words; w++)
            vec_push(&p->words, reach[(size_t)i * words + w]);
        if (s->label == any_label) {
            /* The rest of the string, its quote included, then the note. */
            uint32_t label = o->keys.states.items[any].label;
            program_state_action(p, ACT_CALL, FA_NONE, 1, tail + width * label);
            continue;
        }
        bool closed = s->label == FA_NONE || !label_lives(c, o, s->label);
        for (uint32_t e = 0; e < s->edge_count; e++) {
            const struct fa_edge *edge = &keys.edges.items[s->edge_first + e];
            if (!closed && edge->lo > '"') {
                program_state_edge(p, '"', '"', tail + width * s->label);
                closed = true;
            }
            program_state_edge(p, (uint8_t)edge->lo, (uint8_t)edge->hi, key + edge->to);
        }
        if (!closed)
            program_state_edge(p, '"', '"', tail + width * s->label);
    }
    uint32_t noted = tail + width * (uint32_t)o->values.count; /* behind a member that is needed */
    for (uint32_t label = 0; label < o->values.count; label++) {
        uint32_t colon = tail + width * label + 1, value = colon + 1;
        (void)program_new_state(p);
        program_state_action(p, ACT_OBJECT_KEY, label, 0, colon);
        (void)program_new_state(p);
        state_space(c, colon);
        program_state_edge(p, ':', ':', value);
        (void)program_new_state(p);
        state_space(c, value);
        if (one) {
            program_state_edge(p, ' ', ' ', value + 1);
            call_values(c, o, label, noted, next);
            (void)program_new_state(p);
        }
        call_values(c, o, label, noted, next);
    }
    for (size_t i = 0; i < o->somes.count; i++) {
        (void)program_new_state(p);
        program_state_action(p, ACT_OBJECT_SOME, o->somes.items[i].set, 0, next);
    }
    mem_free(reach);
    dfa_release(&keys);
    return 0;
}
