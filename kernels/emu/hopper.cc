#include "kernels/emu/hopper.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/emu/machine.h"
#include "kernels/emu/memory.h"

namespace emu {

namespace {

uint64_t early_copies; /* bulk copies asked for before the kernel's wait */

mbarrier *find(block *b, const void *at) {
    for (auto &m : b->mbarriers)
        if (m->at == reinterpret_cast<uintptr_t>(at)) return m.get();
    return nullptr;
}

mbarrier *mbarrier_at(uint64_t *at, const char *what) {
    mbarrier *m = find(self->owner, at);
    if (!m) fail("%s: %p is no mbarrier", what, static_cast<void *>(at));
    note_access_if_watched(at, sizeof *at, false);
    return m;
}

size_t index_of(const block *b, const mbarrier *m) {
    size_t i = 0;
    while (b->mbarriers[i].get() != m) i++;
    return i;
}

void complete_if_due(block *b, mbarrier *m) {
    if (m->missing || m->bytes) return;
    m->phase++;
    m->missing = m->expected;
    if (m->coming.empty()) return;
    m->coming[b->threads.size() + index_of(b, m)] = m->phase;
    m->passed = m->coming;
}

/* Code of sm_90a runs on GPUs of compute capability 9.0 alone: not before it, and not on 10.0 or 12.0. */
void must_be_hopper(const char *what) {
    if (emulated.arch != 90 || emulated.compiled != 90)
        fail("%s: code of sm_90a on a GPU of %d.%d (compiled for %d)", what, emulated.arch / 10, emulated.arch % 10, emulated.compiled);
}

bool is_shared(const void *p, size_t size) {
    const block *b = self->owner;
    const auto at = static_cast<const unsigned char *>(p);
    return at >= b->shared - (b->owner->what.shared_bytes + 127) / 128 * 128 && at + size <= b->shared;
}

} // namespace

void mbarrier_init(uint64_t *at, uint32_t arrivals) {
    block *b = self->owner;
    must_be_hopper("mbarrier.init");
    if (reinterpret_cast<uintptr_t>(at) % 8 || !is_shared(at, 8)) fail("mbarrier.init: not 8 aligned bytes of shared memory");
    if (!arrivals || arrivals >= 1u << 20) fail("mbarrier.init: %u arrivals", arrivals);
    if (find(b, at) || b->mbarriers.size() == MBARRIERS_MAX) fail("mbarrier.init: twice, or more than %d of them", MBARRIERS_MAX);
    if (watched) begin_clocks(b);
    note_access_if_watched(at, sizeof *at, true);
    b->mbarriers.push_back(std::unique_ptr<mbarrier>(new mbarrier{reinterpret_cast<uintptr_t>(at), arrivals, arrivals, 0, 0, {}, {}}));
    if (watched) b->mbarriers.back()->coming.resize(clock_count(b));
}

void mbarrier_arrive(uint64_t *at, uint32_t bytes) {
    mbarrier *m = mbarrier_at(at, "mbarrier.arrive");
    m->bytes += bytes;
    m->missing--;
    release_clock(self, &m->coming);
    complete_if_due(self->owner, m);
}

bool mbarrier_passed(thread *t) {
    mbarrier *m = find(t->owner, t->waits_at);
    if ((m->phase & 1) == t->parity) return false; /* PTX: the phase before the first has parity 1 */
    acquire_clock(t, m->passed);
    return true;
}

void mbarrier_wait(uint64_t *at, uint32_t parity) {
    mbarrier_at(at, "mbarrier.try_wait");
    self->waits_at = at;
    self->parity = parity;
    if (mbarrier_passed(self)) return;
    wait_here(wait::mbarrier);
}

namespace {

/* A bulk copy from device memory that the GPU can make. */
void check_bulk(const void *to, const void *from, uint32_t bytes) {
    uintptr_t first, end;
    const auto at = reinterpret_cast<uintptr_t>(from);
    if (at % 16 || reinterpret_cast<uintptr_t>(to) % 16 || bytes % 16 || !bytes) fail("cp.async.bulk of %u bytes is not aligned", bytes);
    if (!is_shared(to, bytes)) fail("cp.async.bulk writes past the block's shared memory");
    if (!device_range(from, &first, &end) || at + bytes > end) fail("cp.async.bulk reads %u bytes at %p, not all of them device memory", bytes, from);
}

} // namespace

void copy_bulk(void *to, const void *from, uint32_t bytes, uint64_t *barrier) {
    mbarrier *m = mbarrier_at(barrier, "cp.async.bulk");
    check_bulk(to, from, bytes);
    if (watched) {
        note_access(from, bytes, false);
        note_access(to, bytes, true);
        note_copy(to, bytes, unsigned(self->owner->threads.size() + index_of(self->owner, m)), m->phase + 1);
    }
    memset(to, 0xff, bytes);
    if (!self->owner->owner->waited) early_copies++;
    self->owner->bulk.push_back({to, from, bytes, barrier});
}

namespace {

block *peer(unsigned rank) {
    if (rank >= self->owner->cluster.size()) fail("block %u of a cluster of %zu", rank, self->owner->cluster.size());
    block *b = self->owner->cluster[rank];
    if (!b->live) fail("block %u of the cluster has ended", rank);
    return b;
}

mbarrier *peer_mbarrier(const uint64_t *at, unsigned rank, const char *what) {
    mbarrier *m = find(peer(rank), of_peer(at, rank));
    if (!m) fail("%s: no mbarrier there in block %u of the cluster", what, rank);
    return m;
}

} // namespace

void mbarrier_arrive_peer(uint64_t *at, unsigned rank) {
    mbarrier *m = peer_mbarrier(at, rank, "mbarrier.arrive.shared::cluster");
    m->missing--;
    complete_if_due(peer(rank), m);
}

/* Races between blocks of a cluster are seen by the poison and by late landing alone. */
void copy_to_peer(void *at, uint32_t bytes, uint64_t *barrier, unsigned rank) {
    peer_mbarrier(barrier, rank, "cp.async.bulk.shared::cluster");
    if (reinterpret_cast<uintptr_t>(at) % 16 || bytes % 16 || !bytes) fail("cp.async.bulk of %u bytes is not aligned", bytes);
    if (!is_shared(at, bytes)) fail("cp.async.bulk reads past the block's shared memory");
    if (rank == self->owner->cluster_rank) fail("cp.async.bulk to the block itself");
    void *to = of_peer(at, rank);
    memset(to, 0xff, bytes);
    peer(rank)->bulk.push_back({to, at, bytes, static_cast<uint64_t *>(of_peer(barrier, rank))});
}

void copy_bulk_to_ranks(void *to, const void *from, uint32_t bytes, uint64_t *barrier, uint16_t ranks) {
    check_bulk(to, from, bytes);
    if (!ranks || ranks >> self->owner->cluster.size()) fail("cp.async.bulk to blocks %x of a cluster of %zu", ranks, self->owner->cluster.size());
    for (unsigned rank = 0; rank < self->owner->cluster.size(); rank++) {
        if (!(ranks >> rank & 1)) continue;
        if (rank == self->owner->cluster_rank) {
            copy_bulk(to, from, bytes, barrier);
            continue;
        }
        peer_mbarrier(barrier, rank, "cp.async.bulk.shared::cluster");
        memset(of_peer(to, rank), 0xff, bytes);
        peer(rank)->bulk.push_back({of_peer(to, rank), from, bytes, static_cast<uint64_t *>(of_peer(barrier, rank))});
    }
}

void load_of_peer(void *to, const void *at, size_t size, unsigned rank) {
    must_be_hopper("a cluster");
    if (reinterpret_cast<uintptr_t>(at) % 16) fail("ld.shared::cluster is not aligned");
    if (!is_shared(at, size)) fail("ld.shared::cluster reads past the block's shared memory");
    peer(rank);
    memcpy(to, of_peer(at, rank), size);
}

bool land_copies(block *b, int order, uint64_t random, bool must) {
    if (b->bulk.empty() || (order == 0 && !must)) return false;
    for (size_t i = 0; i < b->bulk.size();) {
        const bool now = order == 1 || must || (random >> i % 64 & 3) == 0;
        if (!now) {
            i++;
            continue;
        }
        const bulk_copy c = b->bulk[i];
        mbarrier *m = find(b, c.barrier);
        b->bulk.erase(b->bulk.begin() + long(i));
        memcpy(c.to, c.from, c.bytes);
        m->bytes -= c.bytes;
        complete_if_due(b, m);
        if (must) return true;
    }
    return true;
}

void fence_async() { self->fences++; }

uint64_t product_tile(const void *tile, uint32_t k) {
    const auto at = reinterpret_cast<uint64_t>(tile);
    if (at % 1024) fail("wgmma: a tile in 128-byte swizzle begins at a multiple of 1024");
    if (k % 16 || k >= 64) fail("wgmma: k %u within a tile of 64", k);
    return at + k * 2;
}

/* Bits 48 and up: the panel's bytes in units of 1024, of which there is at least one. */
uint64_t product_panels(const void *tile, uint32_t bytes) {
    if (!bytes || bytes % 1024 || bytes >> 10 >= 1u << 14) fail("wgmma: panels of %u bytes", bytes);
    return product_tile(tile, 0) | uint64_t(bytes >> 10) << 48;
}

void product_fence() { self->product_fenced = true; }

namespace {

/* The 16 values of a row of a tile, as 8 pairs. */
void tile_row(uint64_t tile, unsigned row, uint32_t pairs[8]) {
    for (unsigned half = 0; half < 2; half++) {
        uint64_t at = tile + row * 128 + half * 16;
        at ^= (at >> 7 & 7) << 4;
        memcpy(pairs + half * 4, reinterpret_cast<const void *>(at), 16);
    }
}

/* Where value (k, column) of panels is. */
uint64_t panel_value(uint64_t panels, unsigned k, unsigned column) {
    uint64_t at = (panels & ((uint64_t(1) << 48) - 1)) + column / 64 * (panels >> 48 << 10) + k * 128 + column % 64 * 2;
    return at ^ (at >> 7 & 7) << 4;
}

/* The 16 values of a column of panels, as 8 pairs. */
void panel_column(uint64_t panels, unsigned column, uint32_t pairs[8]) {
    uint16_t values[16];
    for (unsigned k = 0; k < 16; k++) memcpy(values + k, reinterpret_cast<const void *>(panel_value(panels, k, column)), 2);
    memcpy(pairs, values, sizeof values);
}

void note_panels(uint64_t panels, unsigned columns) {
    for (unsigned k = 0; k < 16; k++)
        for (unsigned c = 0; c < columns; c += 8) note_async_read(reinterpret_cast<const void *>(panel_value(panels, k, c)), 16);
}

void note_tile(uint64_t tile, unsigned first, unsigned rows) {
    for (unsigned r = first; r < first + rows; r++)
        for (unsigned k = 0; k < 16; k += 8) {
            uint64_t at = tile + r * 128 + k * 2;
            at ^= (at >> 7 & 7) << 4;
            note_async_read(reinterpret_cast<const void *>(at), 16);
        }
}

void note_operands(const warpgroup_product &p) {
    if (!watched || self->lane) return;
    if (p.a) note_tile(p.a, self->warp % 4 * 16, 16);
    if (p.b >> 48)
        note_panels(p.b, p.columns);
    else
        note_tile(p.b, 0, p.columns);
}

void compute(const warpgroup_product &p, float *d) {
    enum { MINE = PRODUCT_COLUMNS_MAX / 4, DEEPEST = 32 }; /* columns of a thread */
    const unsigned g = self->lane / 4, t = self->lane % 4, first = self->warp % 4 * 16, count = p.columns / 4;
    float a[2][DEEPEST], b[DEEPEST][MINE], sums[2][MINE] = {}, column[DEEPEST];
    uint32_t words[8];
    for (unsigned half = 0; half < 2; half++) {
        if (p.a) tile_row(p.a, first + g + half * 8, words);
        p.to_f32(p.a ? words : p.rows + half * 8, 8, a[half]);
    }
    for (unsigned i = 0; i < count; i++) {
        const unsigned n = i / 2 * 8 + 2 * t + i % 2;
        if (p.b >> 48)
            panel_column(p.b, n, words);
        else
            tile_row(p.b, n, words);
        p.to_f32(words, 8, column);
        for (unsigned k = 0; k < p.depth; k++) b[k][i] = column[k];
    }
    for (unsigned k = 0; k < p.depth; k++)
        for (unsigned i = 0; i < count; i++) {
            sums[0][i] += a[0][k] * b[k][i];
            sums[1][i] += a[1][k] * b[k][i];
        }
    for (unsigned i = 0; i < count; i++)
        for (unsigned half = 0; half < 2; half++) {
            float *to = d + i / 2 * 4 + half * 2 + i % 2;
            *to = p.fresh ? sums[half][i] : *to + sums[half][i];
        }
}

/* The sums that a thread keeps at d: taken out of its registers while products are under way. */
unsigned take_sums(float *d, unsigned count) {
    std::vector<product_sums> &all = self->sums;
    for (unsigned i = 0; i < all.size(); i++)
        if (all[i].at == d) {
            if (all[i].count != count) fail("wgmma: sums of another size are under way there");
            return i;
        }
    all.push_back({d, count, reads_early(), std::vector<float>(d, d + count)});
    std::fill(d, d + count, NAN);
    return unsigned(all.size() - 1);
}

} // namespace

void product_ask(float *d, unsigned columns, uint64_t a, const uint32_t *regs, uint64_t b, bool fresh, pairs_to_f32 to_f32, unsigned depth) {
    must_be_hopper("wgmma");
    struct {
        uint64_t a, b;
        uint32_t regs[4];
    } mine = {a, b, {}};
    if (!self->product_fenced) fail("wgmma: no wgmma.fence since the registers were last used");
    if (columns % 8 || !columns || columns > PRODUCT_COLUMNS_MAX) fail("wgmma of %u columns", columns);
    if (regs) memcpy(mine.regs, regs, sizeof mine.regs);
    auto *all = exchange(0xffffffffu, "wgmma", &mine, sizeof mine);
    if (memcmp(all[0], &mine, 16)) fail("wgmma: the lanes of a warp name different tiles");
    warpgroup_product p = {take_sums(d, columns / 2), columns, self->product_group, depth, fresh, a, b, {}, to_f32};
    for (unsigned i = 0; regs && i < 16; i++) { /* row g + i / 8 * 8, word i % 8 */
        uint32_t lane[4];
        memcpy(lane, all[self->lane / 4 * 4 + i % 4] + 16, sizeof lane);
        p.rows[i] = lane[i / 8 + i % 8 / 4 * 2];
    }
    note_operands(p);
    product_sums &s = self->sums[p.sums];
    if (s.early) compute(p, s.value.data());
    self->products.push_back(p);
}

void product_commit() { self->product_group++; }

void product_wait(unsigned groups_left) {
    thread *t = self;
    size_t kept = 0;
    for (warpgroup_product &p : t->products) {
        if (p.group + groups_left >= t->product_group) {
            t->products[kept++] = p;
            continue;
        }
        note_operands(p);
        if (!t->sums[p.sums].early) compute(p, t->sums[p.sums].value.data());
    }
    t->products.resize(kept);
    exchange(0xffffffffu, "wgmma.wait_group", "", 1); /* of the warp as one */
    /* sums that no later group adds to go back to the registers; the others are nobody's yet */
    std::vector<product_sums> under_way;
    std::vector<unsigned> place(t->sums.size());
    for (unsigned i = 0; i < t->sums.size(); i++) {
        product_sums &s = t->sums[i];
        const bool added_to = std::any_of(t->products.begin(), t->products.end(), [i](const warpgroup_product &p) { return p.sums == i; });
        place[i] = unsigned(under_way.size());
        if (added_to) {
            under_way.push_back(std::move(s));
        } else {
            memcpy(s.at, s.value.data(), s.count * sizeof *s.at);
            t->product_fenced = false;
        }
    }
    for (warpgroup_product &p : t->products) p.sums = place[p.sums];
    t->sums = std::move(under_way);
}

void check_products_done() {
    if (!self->products.empty()) fail("ends with %zu wgmma that it never waited for", self->products.size());
}

} // namespace emu

/* Bulk copies so far that kernels asked for before they had waited for the kernel ahead. */
extern "C" uint64_t emu_early_copy_count(void);
uint64_t emu_early_copy_count(void) { return emu::early_copies; }
