#include "kernels/emu/races.h"

#include "kernels/emu/machine.h"
#include "kernels/emu/memory.h"

namespace emu {

namespace {

enum { WORD = 1 }; /* caches of one byte a value are written by the byte */

unsigned char *shared_begin(const block *b) { return b->shared - (b->owner->what.shared_bytes + 127) / 128 * 128; }

/* Whether a meeting of the warp lies between an access of its thread `number`, after `meeting` meetings, and now. */
bool met(const thread *t, unsigned number, uint32_t meeting) {
    return (number - 1) / WARP == t->warp && t->owner->warps[t->warp]->meeting_count > meeting;
}

/* Linear number of the block, from 1. */
uint32_t block_number(const block *b) {
    const dim &g = b->owner->what.grid_dim;
    return b->idx.x + g.x * (b->idx.y + g.y * b->idx.z) + 1;
}

void complain(const char *where, size_t offset, bool write, const char *other, unsigned number, bool other_block) {
    fail("a race in %s memory, byte %zu: this thread %s what thread %u %s%s, and nothing orders the two", where, offset,
         write ? "writes" : "reads", number - 1, other_block ? "of another block " : "", other);
}

void check(race_cell *c, bool write, const char *where, size_t offset) {
    const thread *t = self;
    const uint32_t me = block_number(t->owner), epoch = t->owner->epoch, meeting = t->owner->warps[t->warp]->meeting_count;
    const uint16_t number = uint16_t(t->linear + 1);
    if (c->writer && (c->write_block != me || (c->write_epoch == epoch && c->writer != number && !met(t, c->writer, c->write_meeting))))
        complain(where, offset, write, "wrote", c->writer, c->write_block != me);
    if (write && c->reader) {
        const bool now = c->read_block == me && c->read_epoch == epoch;
        const bool others = c->several || c->reader != number;
        if (c->blocks || c->read_block != me || (now && (c->warps || (others && !met(t, c->reader, c->read_meeting)))))
            complain(where, offset, write, "reads", c->reader, c->blocks || c->read_block != me);
    }
    if (write) {
        c->writer = number;
        c->write_block = me;
        c->write_epoch = epoch;
        c->write_meeting = meeting;
        return;
    }
    const bool again = c->reader && c->read_block == me && c->read_epoch == epoch;
    if (c->reader && c->read_block != me) c->blocks = true;
    const bool same_warp = again && unsigned(c->reader - 1) / WARP == t->warp;
    c->warps = again && (c->warps || !same_warp);
    c->several = again && c->reader != number && (c->several || c->read_meeting == meeting);
    c->reader = number;
    c->read_block = me;
    c->read_epoch = epoch;
    c->read_meeting = meeting;
}

/* Device memory as kernels know it; the fiber's own stack and the host's memory are nobody else's business. */
bool is_device(const void *p) {
    static thread_local uintptr_t from, to;
    const auto at = reinterpret_cast<uintptr_t>(p);
    if (at >= from && at < to) return true;
    const auto stack = reinterpret_cast<uintptr_t>(self->fiber.stack);
    if (at - stack < FIBER_STACK_BYTES) return false;
    return device_range(p, &from, &to);
}

} // namespace

bool watched;

void note_access(const void *p, size_t size, bool write) {
    if (!self || !size) return;
    block *b = self->owner;
    const auto at = reinterpret_cast<uintptr_t>(p), first = at / WORD, last = (at + size - 1) / WORD;
    const auto begin = reinterpret_cast<uintptr_t>(shared_begin(b));
    if (at >= begin && at < reinterpret_cast<uintptr_t>(b->shared)) {
        if (b->races.cells.empty()) b->races.cells.resize((reinterpret_cast<uintptr_t>(b->shared) - begin) / WORD);
        for (uintptr_t w = first; w <= last && w - begin / WORD < b->races.cells.size(); w++)
            check(&b->races.cells[w - begin / WORD], write, "shared", w * WORD - begin);
        return;
    }
    if (!is_device(p)) return;
    for (uintptr_t w = first; w <= last; w++) check(&b->owner->races.cells[w], write, "device", w * WORD);
}

void note_access_if_watched(const void *p, size_t size, bool write) {
    if (watched) note_access(p, size, write);
}

} // namespace emu
