#include "kernels/emu/races.h"

#include <algorithm>

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

/* Whether what came before, in this thread's block, is ordered before what it does now. Numbers past the threads' are the
 * block's mbarriers: copies that arrive there. */
bool ordered(uint16_t number, uint32_t epoch, uint32_t meeting, uint32_t clock) {
    const thread *t = self;
    const size_t place = number - 1u;
    const bool copy = place >= t->owner->threads.size();
    if (!copy && (epoch != t->owner->epoch || place == t->linear || met(t, number, meeting))) return true;
    return place < t->clock.size() && t->clock[place] >= clock;
}

/* Whether what a thread of another block did is ordered before what this thread does now. */
bool known(uint32_t other, uint16_t number, uint32_t epoch) {
    const thread *t = self;
    const auto it = t->owner->known.find(other);
    if (it == t->owner->known.end()) return false;
    const known_block &k = it->second;
    if (t->owner->epoch <= k.epoch && k.thread != t->linear + 1) return false;
    return epoch < k.what.epoch || number == k.what.thread;
}

uint32_t own_clock() { return self->clock.empty() ? 0 : self->clock[self->linear]; }

void check_readers(race_cell *c, race_readers *r, bool write, const char *where, size_t offset) {
    const thread *t = self;
    const uint16_t number = uint16_t(t->linear + 1);
    for (unsigned i = 0; write && i < r->count; i++)
        if (!ordered(r->last[i].number, r->last[i].epoch, r->last[i].meeting, r->last[i].clock))
            complain(where, offset, write, "reads", r->last[i].number, false);
    if (write) {
        r->count = r->next = 0;
        return;
    }
    unsigned at = 0;
    while (at < r->count && r->last[at].number != number) at++;
    if (at == r->count && at == race_readers::KEPT) at = r->next++ % race_readers::KEPT;
    if (at == r->count) r->count++;
    r->last[at] = {t->owner->epoch, t->owner->warps[t->warp]->meeting_count, own_clock(), number};
}

void check(race_cell *c, race_readers *readers, bool write, const char *where, size_t offset) {
    const thread *t = self;
    const uint32_t me = block_number(t->owner), epoch = t->owner->epoch, meeting = t->owner->warps[t->warp]->meeting_count;
    const uint16_t number = uint16_t(t->linear + 1);
    const block *lead = t->owner->cluster.size() > 1 ? t->owner->cluster[0] : nullptr;
    const uint32_t cluster = lead ? block_number(lead) : 0, round = lead ? lead->cluster_rounds : 0;
    if (c->writer && !(c->write_block == me ? ordered(c->writer, c->write_epoch, c->write_meeting, c->write_clock)
                                            : known(c->write_block, c->writer, c->write_epoch)))
        complain(where, offset, write, "wrote", c->writer, c->write_block != me);
    if (readers) check_readers(c, readers, write, where, offset);
    if (write && c->reader && !readers) {
        const bool now = c->read_block == me && c->read_epoch == epoch;
        const bool others = c->several || c->reader != number;
        const bool strange = c->read_block != me && !known(c->read_block, c->several ? 0 : c->reader, c->read_epoch);
        const bool mates = c->mates && (c->read_cluster != cluster || c->mate_round == round);
        if (c->blocks || mates || strange || (now && (c->warps || (others && !met(t, c->reader, c->read_meeting)))))
            complain(where, offset, write, "reads", c->reader, c->blocks || mates || strange);
    }
    if (write) {
        c->writer = number;
        c->write_block = me;
        c->write_epoch = epoch;
        c->write_meeting = meeting;
        c->write_clock = own_clock();
        c->write_fences = t->fences;
        return;
    }
    const bool again = c->reader && c->read_block == me && c->read_epoch == epoch;
    if (c->reader && c->read_block != me) {
        if (cluster && c->read_cluster == cluster) {
            c->mates = true;
            c->mate_round = c->read_round;
        } else {
            c->blocks = true;
        }
    }
    c->read_cluster = cluster;
    c->read_round = round;
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
        race_shared &races = b->races;
        if (races.cells.empty()) races.cells.resize((reinterpret_cast<uintptr_t>(b->shared) - begin) / WORD);
        if (!self->clock.empty() && races.readers.empty()) races.readers.resize(races.cells.size());
        for (uintptr_t w = first; w <= last && w - begin / WORD < races.cells.size(); w++)
            check(&races.cells[w - begin / WORD], races.readers.empty() ? nullptr : &races.readers[w - begin / WORD], write, "shared",
                  w * WORD - begin);
        return;
    }
    if (!is_device(p)) return;
    for (uintptr_t w = first; w <= last; w++) check(&b->owner->races.cells[w], nullptr, write, "device", w * WORD);
}

void note_access_if_watched(const void *p, size_t size, bool write) {
    if (watched) note_access(p, size, write);
}

void order_blocks(const void *at) {
    if (!watched) return;
    block *b = self->owner;
    auto &here = b->owner->races.released[reinterpret_cast<uintptr_t>(at)];
    const uint16_t me = uint16_t(self->linear + 1);
    for (const auto &one : here) {
        if (one.first == block_number(b)) continue;
        const auto old = b->known.find(one.first);
        if (old == b->known.end() || old->second.what.epoch < one.second.epoch) b->known[one.first] = {one.second, b->epoch, me};
    }
    for (const auto &one : b->known) /* what it has learned goes on with its own */
        if (one.second.epoch < b->epoch || one.second.thread == me) {
            auto &entry = here.insert({one.first, one.second.what}).first->second;
            if (entry.epoch < one.second.what.epoch) entry = one.second.what;
        }
    here[block_number(b)] = {b->epoch, me};
}

void order_cluster(const std::vector<block *> &cluster) {
    if (!watched) return;
    for (block *b : cluster)
        for (const block *other : cluster)
            if (other != b) b->known[block_number(other)] = {{other->epoch + 1, 0}, b->epoch, 0};
}

/* ---- blocks with mbarriers ---- */

size_t clock_count(const block *b) { return b->threads.size() + MBARRIERS_MAX; }

/* What was read before has no clock: it is ordered by a barrier, which has to lie between the making of an mbarrier and
 * its use. */
void begin_clocks(block *b) {
    for (thread &t : b->threads)
        if (t.clock.empty()) {
            t.clock.resize(clock_count(b));
            t.clock[t.linear] = 1;
        }
}

void release_clock(thread *t, std::vector<uint32_t> *to) {
    if (to->empty()) return;
    for (size_t i = 0; i < to->size(); i++) (*to)[i] = std::max((*to)[i], t->clock[i]);
    t->clock[t->linear]++;
}

void acquire_clock(thread *t, const std::vector<uint32_t> &from) {
    for (size_t i = 0; i < from.size(); i++) t->clock[i] = std::max(t->clock[i], from[i]);
}

void merge_clocks(thread *t, uint32_t mask) {
    block *b = t->owner;
    const size_t first = size_t(t->warp) * WARP, end = std::min(first + WARP, b->threads.size());
    std::vector<uint32_t> all = t->clock;
    for (size_t i = first; i < end; i++)
        if (mask >> (i - first) & 1)
            for (size_t k = 0; k < all.size(); k++) all[k] = std::max(all[k], b->threads[i].clock[k]);
    for (size_t i = first; i < end; i++)
        if (mask >> (i - first) & 1) {
            b->threads[i].clock = all;
            b->threads[i].clock[i]++;
        }
}

void note_copy(const void *p, size_t size, unsigned place, uint32_t clock) {
    block *b = self->owner;
    const size_t first = size_t(static_cast<const unsigned char *>(p) - shared_begin(b)) / WORD;
    for (size_t w = first; w < first + size / WORD; w++) {
        b->races.cells[w].writer = uint16_t(place + 1);
        b->races.cells[w].write_clock = clock;
    }
}

void note_async_read(const void *p, size_t size) {
    block *b = self->owner;
    note_access(p, size, false);
    const size_t first = size_t(static_cast<const unsigned char *>(p) - shared_begin(b)) / WORD;
    for (size_t w = first; w < first + size / WORD; w++) {
        const race_cell &c = b->races.cells[w];
        if (c.writer && c.writer <= b->threads.size() && b->threads[c.writer - 1u].fences == c.write_fences)
            fail("wgmma reads shared memory, byte %zu, that thread %u wrote without a fence.proxy.async behind", w, c.writer - 1);
    }
}

} // namespace emu
