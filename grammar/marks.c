#include "grammar/marks.h"

#include "base/utf8.h"

int dfa_of_marks(struct builder *b, const struct bytes *marks, size_t count, bool free,
                 struct dfa *out, struct error *err) {
    struct nfa n = {0};
    struct dfa d = {0};
    *out = (struct dfa){0};
    uint32_t start = nfa_state(&n);
    nfa_edge(&n, start, 0, 0x10ffff, start);
    for (size_t i = 0; i < count; i++) {
        uint32_t at = start;
        for (size_t k = 0; k < marks[i].len;) {
            uint32_t cp = 0, next = nfa_state(&n);
            k += MAX(utf8_decode(marks[i].data + k, marks[i].len - k, &cp), (size_t)1);
            nfa_edge(&n, at, cp, cp, next);
            at = next;
        }
        n.labels.items[at] = MIN(n.labels.items[at], (uint32_t)i);
    }
    int rc = dfa_from_nfa(&n, start, &b->fuel, &d, err);
    nfa_release(&n);
    if (rc)
        return rc;
    for (size_t i = 0; i < d.states.count; i++) {
        struct dfa_state state = d.states.items[i];
        bool marked = state.label != FA_NONE;
        uint32_t first = (uint32_t)out->edges.count;
        for (uint32_t e = 0; e < state.edge_count && !marked; e++) {
            struct fa_edge edge = d.edges.items[state.edge_first + e];
            if (!free || d.states.items[edge.to].label == FA_NONE)
                vec_push(&out->edges, edge);
        }
        uint32_t label = free ? (marked ? FA_NONE : 0) : state.label;
        vec_push(&out->states,
                 ((struct dfa_state){first, (uint32_t)out->edges.count - first, label}));
    }
    dfa_release(&d);
    return 0;
}
