/*
 * program_text.c - states from which text may go on for ever (STATE_TEXT).
 */
#include "grammar/program_internal.h"

/* What a state can be for: between two characters of text, or within one. */
enum text_place {
    TEXT_BETWEEN, /* characters */
    TEXT_LAST,    /* one more byte of a character, any; then of those with two and three more */
    TEXT_LAST_2,
    TEXT_LAST_3,
    TEXT_E0, /* behind a first byte that does not take every second one */
    TEXT_ED,
    TEXT_F0,
    TEXT_F4,
    TEXT_E2,    /* U+2028 and U+2029 are not asked for, since patterns' `.` has them not */
    TEXT_E2_80, /* behind two bytes of those */
    TEXT_PLACES
};
static const struct {
    uint8_t place, lo, hi, to;
} TEXT_STEPS[] = {
    {TEXT_BETWEEN, 0x20, 0x21, TEXT_BETWEEN}, /* printable, but for quotes and backslashes */
    {TEXT_BETWEEN, 0x23, 0x5b, TEXT_BETWEEN}, {TEXT_BETWEEN, 0x5d, 0x7e, TEXT_BETWEEN},
    {TEXT_BETWEEN, 0xc2, 0xdf, TEXT_LAST},    {TEXT_BETWEEN, 0xe0, 0xe0, TEXT_E0},
    {TEXT_BETWEEN, 0xe1, 0xe1, TEXT_LAST_2},  {TEXT_BETWEEN, 0xe2, 0xe2, TEXT_E2},
    {TEXT_BETWEEN, 0xe3, 0xec, TEXT_LAST_2},  {TEXT_BETWEEN, 0xed, 0xed, TEXT_ED},
    {TEXT_BETWEEN, 0xee, 0xef, TEXT_LAST_2},  {TEXT_BETWEEN, 0xf0, 0xf0, TEXT_F0},
    {TEXT_BETWEEN, 0xf1, 0xf3, TEXT_LAST_3},  {TEXT_BETWEEN, 0xf4, 0xf4, TEXT_F4},
    {TEXT_LAST, 0x80, 0xbf, TEXT_BETWEEN},    {TEXT_LAST_2, 0x80, 0xbf, TEXT_LAST},
    {TEXT_LAST_3, 0x80, 0xbf, TEXT_LAST_2},   {TEXT_E0, 0xa0, 0xbf, TEXT_LAST},
    {TEXT_ED, 0x80, 0x9f, TEXT_LAST},         {TEXT_F0, 0x90, 0xbf, TEXT_LAST_2},
    {TEXT_F4, 0x80, 0x8f, TEXT_LAST_2},       {TEXT_E2, 0x80, 0x80, TEXT_E2_80},
    {TEXT_E2, 0x81, 0xbf, TEXT_LAST},         {TEXT_E2_80, 0x80, 0xa7, TEXT_BETWEEN},
    {TEXT_E2_80, 0xaa, 0xbf, TEXT_BETWEEN},
};

/* Each byte from lo to hi leads to a state that can be `to`. */
static bool leads_to(const struct program *p, const struct state *s, const uint16_t *can,
                     uint32_t lo, uint32_t hi, uint8_t to) {
    for (uint32_t i = 0; i < s->edge_count && lo <= hi; i++) {
        const struct byte_edge *e = &p->edges.items[s->edge_first + i];
        if (e->hi < lo)
            continue;
        if (e->lo > lo || !(can[e->to] >> to & 1))
            return false;
        lo = (uint32_t)e->hi + 1;
    }
    return lo > hi;
}

static uint16_t still_can(const struct program *p, uint32_t state, const uint16_t *can) {
    uint16_t left = can[state];
    for (size_t i = 0; i < ARRAY_LEN(TEXT_STEPS) && left; i++)
        if (left >> TEXT_STEPS[i].place & 1 &&
            !leads_to(p, &p->states.items[state], can, TEXT_STEPS[i].lo, TEXT_STEPS[i].hi,
                      TEXT_STEPS[i].to))
            left &= (uint16_t) ~(1u << TEXT_STEPS[i].place);
    return left;
}

/* Every state can be everything until a step of it leads nowhere. Long chains of states in an
 * unlucky order would need many rounds; they are given up, and walked when masks are made. */
void program_mark_text(struct program *p) {
    enum { ROUNDS = 16 };
    uint16_t *can = mem_calloc(p->states.count + 1, sizeof *can);
    bool changed = true;
    for (uint32_t i = 0; i < p->states.count; i++) /* frames have a say there */
        can[i] = p->states.items[i].flags & (STATE_KEY | STATE_CHAR) ? 0 : (1u << TEXT_PLACES) - 1;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (uint32_t i = (uint32_t)p->states.count; i-- > 0;) {
            uint16_t left = still_can(p, i, can);
            changed |= left != can[i];
            can[i] = left;
        }
    }
    for (uint32_t i = 0; i < p->states.count && !changed; i++)
        if (can[i] & 1u << TEXT_BETWEEN)
            p->states.items[i].flags |= STATE_TEXT;
    mem_free(can);
}
