/* Smallest automata: what they accept, and what it costs to find them. */
#include "check.h"
#include "grammar/fa.h"

/* The smallest dfa of a text of n symbols, or of any number of such texts with another symbol in
 * between: at most `most` edges are looked at. */
static void expect_chain_looks(uint32_t n, bool again, uint64_t most) {
    struct nfa chain = {0};
    struct dfa d;
    struct error err;
    struct fa_fuel fuel = {.states = 100000};
    for (uint32_t i = 0; i <= n; i++)
        (void)nfa_state(&chain);
    for (uint32_t i = 0; i < n; i++)
        nfa_edge(&chain, i, 'a', 'a', i + 1);
    chain.labels.items[n] = 0;
    if (again)
        nfa_edge(&chain, n, 'b', 'b', 0);
    EXPECT(!dfa_from_nfa(&chain, 0, &fuel, &d, &err));
    EXPECT_EQ(d.states.count, n + 1);
    dfa_release(&d);
    nfa_release(&chain);
    EXPECT(fuel.looked <= most);
}

TEST(smallest_automata_of_long_texts_cost_their_length) {
    for (int again = 0; again < 2; again++)
        expect_chain_looks(8000, again, 8000 * 8);
}

enum { FA_STATES = 8, FA_SYMBOLS = 3 };

static void random_nfa(struct nfa *n) {
    for (int i = 0; i < FA_STATES; i++) {
        (void)nfa_state(n);
        n->labels.items[i] = check_random() % 3 ? FA_NONE : (uint32_t)(check_random() % 2);
    }
    for (int i = 0; i < 12; i++) {
        uint32_t lo = (uint32_t)(check_random() % FA_SYMBOLS),
                 hi = lo + (uint32_t)(check_random() % (FA_SYMBOLS - lo));
        nfa_edge(n, (uint32_t)(check_random() % FA_STATES), lo, hi,
                 (uint32_t)(check_random() % FA_STATES));
    }
}

/* Marks the pairs of states that a text tells apart; FA_NONE as a state is the last one. */
static void tell_apart(const struct dfa *d, size_t count, bool *apart) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count * count; i++) {
            size_t a = i / count, b = i % count;
            bool differs = (a + 1 < count ? d->states.items[a].label : FA_NONE) !=
                           (b + 1 < count ? d->states.items[b].label : FA_NONE);
            for (uint32_t c = 0; c < FA_SYMBOLS && !differs; c++) {
                size_t x = a + 1 < count ? dfa_step(d, (uint32_t)a, c) : FA_NONE,
                       y = b + 1 < count ? dfa_step(d, (uint32_t)b, c) : FA_NONE;
                differs = apart[MIN(x, count - 1) * count + MIN(y, count - 1)];
            }
            changed |= differs && !apart[i];
            apart[i] |= differs;
        }
    }
}

/* The lowest label with which the nfa (without free edges) accepts. */
static uint32_t nfa_label(const struct nfa *n, const uint32_t *text, size_t len) {
    uint32_t at = 1, label = FA_NONE;
    for (size_t i = 0; i < len; i++) {
        uint32_t next = 0;
        for (uint32_t s = 0; s < FA_STATES; s++)
            for (uint32_t e = n->first.items[s]; e != FA_NONE; e = n->edges.items[e].next)
                if ((at >> s & 1) && n->edges.items[e].lo <= text[i] &&
                    n->edges.items[e].hi >= text[i])
                    next |= 1u << n->edges.items[e].to;
        at = next;
    }
    for (uint32_t s = 0; s < FA_STATES; s++)
        if (at >> s & 1)
            label = MIN(label, n->labels.items[s]);
    return label;
}

static void expect_same_texts(const struct nfa *n, const struct dfa *d) {
    for (int i = 0; i < 40; i++) {
        uint32_t text[7], state = 0;
        size_t len = check_random() % 8;
        for (size_t k = 0; k < len; k++) {
            text[k] = (uint32_t)(check_random() % FA_SYMBOLS);
            state = state == FA_NONE ? state : dfa_step(d, state, text[k]);
        }
        uint32_t label = state == FA_NONE ? FA_NONE : d->states.items[state].label;
        EXPECT_EQ(label, nfa_label(n, text, len));
    }
}

TEST(automata_are_the_smallest) {
    for (int round = 0; round < 300; round++) {
        struct nfa n = {0};
        struct dfa d;
        struct error err;
        struct fa_fuel fuel = {.states = 10000};
        random_nfa(&n);
        EXPECT(!dfa_from_nfa(&n, 0, &fuel, &d, &err));
        size_t count = d.states.count + 1;
        bool *apart = mem_calloc(count * count, sizeof *apart);
        tell_apart(&d, count, apart);
        for (size_t a = 0; a < count; a++)
            for (size_t b = a + 1; b < count; b++)
                if (!apart[a * count + b] && count > 2)
                    check_fail(__FILE__, __LINE__, "round %d: states %zu and %zu are one", round, a,
                               b);
        mem_free(apart);
        expect_same_texts(&n, &d);
        dfa_release(&d);
        nfa_release(&n);
    }
}
