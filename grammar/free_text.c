#include "grammar/free_text.h"

enum {
    BYTES_MIN = 16, /* with fewer a walk is short anyway */
    ROOM_MIN = 4,
};
_Static_assert(FREE_SETS_MAX <= UINT8_MAX, "depths are counted in a byte");

/* Where this set stands in `slots`, or would. */
static uint32_t slot_of(const struct free_text *f, uint32_t set, uint8_t state) {
    uint32_t at = (set * 2654435761u + state) % FREE_SLOTS;
    for (; f->slots[at]; at = (at + 1) % FREE_SLOTS) {
        const struct free_set *s = &f->sets[f->slots[at] - 1];
        if (s->set == set && s->state == state)
            break;
    }
    return at;
}

static void add(struct free_text *f, uint32_t set, uint8_t state, uint32_t depth) {
    f->sets[f->count++] = (struct free_set){set, state, (uint8_t)depth};
    f->slots[slot_of(f, set, state)] = (uint16_t)f->count;
}

/* Of the bytes that may come, those that may come here. */
static struct text_bytes bytes_behind(const struct free_text *f, struct grammar_run *run,
                                      uint32_t set) {
    struct text_bytes may = f->may;
    for (uint32_t c = 0x20; c < 0x7f; c++)
        if (text_bytes_have(may, (uint8_t)c) && run_next(run, set, (uint8_t)c) == SET_DEAD)
            text_bytes_drop(&may, (uint8_t)c);
    return may;
}

/* Adds what follows a set on one byte, or drops the byte: where nothing follows, or where that would
 * drop many others. False: one set too many. */
static bool look_behind(struct free_text *f, struct grammar_run *run, struct free_set s, uint8_t c,
                        uint8_t to) {
    uint32_t next = run_next(run, s.set, c);
    if (next != SET_DEAD && f->slots[slot_of(f, next, to)])
        return true;
    if (next != SET_DEAD && f->count == FREE_SETS_MAX)
        return false;
    uint32_t count = text_bytes_count(f->may);
    struct text_bytes may =
        to == TEXT_BEGIN && next != SET_DEAD ? bytes_behind(f, run, next) : f->may;
    if (next == SET_DEAD || text_bytes_count(may) * 4 < count * 3) {
        text_bytes_drop(&f->may, c);
        return true;
    }
    f->may = may;
    add(f, next, to, s.depth + 1u);
    return true;
}

void free_text_find(struct free_text *f, struct grammar_run *run, uint32_t set) {
    *f = (struct free_text){.may = text_bytes_all(), .room = TEXT_ENDLESS};
    add(f, set, TEXT_BEGIN, 0);
    f->may = bytes_behind(f, run, set);
    /* breadth first: with one set too many, those of all smaller depths have been looked behind */
    for (uint32_t i = 0; i < f->count && f->room == TEXT_ENDLESS; i++) {
        struct free_set s = f->sets[i];
        for (uint32_t c = 0x20; c < 256 && f->room == TEXT_ENDLESS; c++) {
            uint8_t to = text_step((enum text_state)s.state, (uint8_t)c);
            if (to != TEXT_NONE && text_bytes_have(f->may, (uint8_t)c) &&
                !look_behind(f, run, s, (uint8_t)c, to))
                f->room = s.depth;
        }
        if (text_bytes_count(f->may) < BYTES_MIN)
            f->room = 0;
    }
    if (f->room < ROOM_MIN)
        f->room = 0;
}

bool free_text_covers(const struct free_text *f, uint32_t set, struct text_bytes below,
                      uint32_t height) {
    if (!text_bytes_within(below, f->may))
        return false;
    uint16_t place = f->slots[slot_of(f, set, TEXT_BEGIN)];
    return place && (f->room == TEXT_ENDLESS || height + f->sets[place - 1].depth <= f->room);
}
