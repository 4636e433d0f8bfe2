#include "grammar/free_text.h"

enum {
    BYTES_MIN = 16, /* with fewer a walk is short anyway */
    ROOM_MIN = 4,
    ROOM_ENOUGH = 24, /* hardly a token has more bytes */
    EDGES_MAX = 4096,
};
_Static_assert(FREE_SETS_MAX <= UINT8_MAX, "depths are counted in a byte");

/* Where this set stands in `slots`, or would. */
static uint32_t slot_of(const struct free_class *f, uint32_t set, uint8_t state) {
    uint32_t at = (set * 2654435761u + state) % FREE_SLOTS;
    for (; f->slots[at]; at = (at + 1) % FREE_SLOTS) {
        const struct free_set *s = &f->sets[f->slots[at] - 1];
        if (s->set == set && s->state == state)
            break;
    }
    return at;
}

static void add(struct free_class *f, uint32_t set, uint8_t state, uint32_t depth) {
    f->sets[f->count++] = (struct free_set){set, state, (uint8_t)depth, 0};
    f->slots[slot_of(f, set, state)] = (uint16_t)f->count;
}

/* Of the bytes that may come, those that may come here. */
static struct text_bytes bytes_behind(const struct free_class *f, struct grammar_run *run,
                                      uint32_t set) {
    struct text_bytes may = f->may;
    for (uint32_t c = 0x20; c < 0x7f; c++)
        if (text_bytes_have(may, (uint8_t)c) && run_next(run, set, (uint8_t)c) == SET_DEAD)
            text_bytes_drop(&may, (uint8_t)c);
    return may;
}

static void begin(struct free_class *f, struct text_bytes may, uint32_t set) {
    f->may = may;
    f->count = 0;
    memset(f->slots, 0, sizeof f->slots);
    add(f, set, TEXT_BEGIN, 0);
}

/* ---- text that lasts ---- */

/* Adds what follows a set on one byte, or drops the byte: where nothing follows, or where that would
 * drop many others. False: one set too many. */
static bool look_behind(struct free_class *f, struct grammar_run *run, struct free_set s, uint8_t c,
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

static void find_lasting(struct free_class *f, struct grammar_run *run) {
    uint32_t room = TEXT_ENDLESS;
    /* breadth first: with one set too many, those of all smaller depths have been looked behind */
    for (uint32_t i = 0; i < f->count && room == TEXT_ENDLESS; i++) {
        struct free_set s = f->sets[i];
        if (s.depth == ROOM_ENOUGH)
            room = s.depth;
        for (uint32_t c = 0x20; c < 256 && room == TEXT_ENDLESS; c++) {
            uint8_t to = text_step((enum text_state)s.state, (uint8_t)c);
            if (to != TEXT_NONE && text_bytes_have(f->may, (uint8_t)c) &&
                !look_behind(f, run, s, (uint8_t)c, to))
                room = s.depth;
        }
        if (text_bytes_count(f->may) < BYTES_MIN)
            room = 0;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        struct free_set *s = &f->sets[i];
        s->left = room == TEXT_ENDLESS ? FREE_ENDLESS
                  : s->depth < room    ? (uint8_t)(room - s->depth)
                                       : 0;
    }
    if (room < ROOM_MIN)
        f->count = 0;
}

/* ---- text that goes on for a while ---- */

struct edge {
    uint8_t from, to;
};

/* Adds what follows a set, and the edges there. False: too many of them. What is not known further
 * leaves a byte. */
static bool look_around(struct free_class *f, struct grammar_run *run, uint32_t i,
                        struct edge *edges, size_t *count) {
    struct free_set *s = &f->sets[i];
    uint32_t last = SET_DEAD; /* bytes side by side mostly lead to one place */
    uint8_t last_to = TEXT_NONE;
    s->left = ROOM_ENOUGH;
    for (uint32_t c = 0x20; c < 256; c++) {
        uint8_t to = text_step((enum text_state)s->state, (uint8_t)c);
        if (to == TEXT_NONE || !text_bytes_have(f->may, (uint8_t)c))
            continue;
        uint32_t next = run_next(run, s->set, (uint8_t)c);
        if (next == last && to == last_to && next != SET_DEAD)
            continue;
        last = next;
        last_to = to;
        if (next == SET_DEAD) {
            s->left = 0;
            return true;
        }
        uint16_t place = f->slots[slot_of(f, next, to)];
        if (!place && f->count == FREE_SETS_MAX) {
            s->left = 1;
            continue;
        }
        if (!place)
            add(f, next, to, s->depth + 1u);
        place = f->slots[slot_of(f, next, to)];
        if (*count == EDGES_MAX)
            return false;
        edges[(*count)++] = (struct edge){(uint8_t)i, (uint8_t)(place - 1)};
    }
    return true;
}

static void find_near(struct free_class *f, struct grammar_run *run) {
    struct edge *edges = mem_alloc(EDGES_MAX * sizeof *edges);
    size_t count = 0;
    bool known = true;
    for (uint32_t i = 0; i < f->count && known; i++) {
        known = look_around(f, run, i, edges, &count);
        known = known && f->sets[0].left > 0;
    }
    for (bool changed = known; changed;) {
        changed = false;
        for (size_t e = count; e-- > 0;) {
            uint8_t *left = &f->sets[edges[e].from].left, behind = f->sets[edges[e].to].left;
            if (behind + 1 < *left) {
                *left = (uint8_t)(behind + 1);
                changed = true;
            }
        }
    }
    if (!known || f->sets[0].left < ROOM_MIN)
        f->count = 0;
    mem_free(edges);
}

void free_text_find(struct free_text *f, struct grammar_run *run, uint32_t set) {
    begin(&f->lasting, text_bytes_all(), set);
    struct text_bytes may = bytes_behind(&f->lasting, run, set);
    f->lasting.may = may;
    find_lasting(&f->lasting, run);
    f->near.count = 0;
    if (!f->lasting.count || text_bytes_within(may, f->lasting.may))
        return;
    begin(&f->near, may, set);
    find_near(&f->near, run);
}

static bool covers(const struct free_class *f, uint32_t set, struct text_bytes below,
                   uint32_t height) {
    if (!f->count || !text_bytes_within(below, f->may))
        return false;
    uint16_t place = f->slots[slot_of(f, set, TEXT_BEGIN)];
    return place && (f->sets[place - 1].left == FREE_ENDLESS || height <= f->sets[place - 1].left);
}

bool free_text_covers(const struct free_text *f, uint32_t set, struct text_bytes below,
                      uint32_t height) {
    return covers(&f->lasting, set, below, height) || covers(&f->near, set, below, height);
}
