#include "kernels/emu/machine.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/emu/memory.h"

namespace emu {

thread_local thread *self;

static void catch_bad_accesses();

namespace {

thread_local fiber scheduler;
thread_local order pass_order = order::ascending;
thread_local uint64_t random_state = 1;
thread_local bool broken;
thread_local char failure[1024];
thread_local std::vector<fiber> spare_fibers;
thread_local std::vector<unsigned char *> spare_shared;
thread_local std::vector<std::unique_ptr<warp>> spare_warps;
struct sigaction old_segv, old_bus;

uint64_t next_random() {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void to_scheduler() {
    fiber_switch(&self->fiber, &scheduler);
}

void thread_main(void *arg) {
    auto *t = static_cast<thread *>(arg);
    t->owner->owner->what.run();
    if (!t->copies.empty())
        fail("ends with %zu cp.async that it never waited for", t->copies.size());
    check_products_done();
    if (t->owner->live == 1 && !t->owner->bulk.empty())
        fail("the block ends with %zu bulk copies on their way", t->owner->bulk.size());
    t->state = wait::ended;
    to_scheduler();
}

/* Shared memory of SHARED_MAX bytes that ends at a guard page; a block uses its last part. */
unsigned char *take_shared() {
    if (!spare_shared.empty()) {
        unsigned char *area = spare_shared.back();
        spare_shared.pop_back();
        return area;
    }
    size_t room = (SHARED_MAX + 4095) / 4096 * 4096;
    auto *area = static_cast<unsigned char *>(
        mmap(nullptr, room + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (area == MAP_FAILED)
        abort();
    mprotect(area + room, 4096, PROT_NONE);
    return area + room;
}

std::unique_ptr<warp> take_warp() {
    if (spare_warps.empty())
        return std::unique_ptr<warp>(new warp);
    std::unique_ptr<warp> w = std::move(spare_warps.back());
    spare_warps.pop_back();
    return w;
}

/* Gives a block's parts back for the next one. */
void recycle(block *b) {
    for (thread &t : b->threads)
        spare_fibers.push_back(t.fiber);
    for (auto &w : b->warps)
        spare_warps.push_back(std::move(w));
    spare_shared.push_back(b->shared);
}

const char *wait_name(wait w) {
    switch (w) {
    case wait::nothing: return "nothing";
    case wait::barrier: return "a barrier";
    case wait::cluster: return "the cluster's barrier";
    case wait::mbarrier: return "an mbarrier";
    case wait::warp: return "its warp";
    case wait::dependency: return "the kernel before";
    case wait::outside: return "another process";
    case wait::yield: return "its turn";
    case wait::ended: return "nothing (ended)";
    }
    return "?";
}

/* Lets everybody go who waits at this barrier once all threads of the block do. One that has ended never comes: CUDA
 * would let the others go, our kernels must not count on that. */
bool open_barrier(block *b, unsigned idx) {
    if (++b->arrived[idx] != b->threads.size())
        return false;
    b->arrived[idx] = 0;
    b->epoch++;
    for (thread &t : b->threads)
        t.state = wait::nothing;
    return true;
}

} // namespace

void set_order(order o, uint64_t seed) {
    pass_order = o;
    random_state = seed;
}

bool failed() {
    return broken;
}
void clear_failure() {
    broken = false;
}
const char *failure_text() {
    return failure;
}

namespace {

/* Names the kernel, block and thread, and puts the device into its failed state. */
void report(const char *text) {
    const block *b = self->owner;
    snprintf(failure, sizeof failure, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s",
             b->owner->what.name, b->idx.x, b->idx.y, b->idx.z, self->idx.x, self->idx.y,
             self->idx.z, text);
    fprintf(stderr, "emulator: %s\n", failure);
    broken = true;
}

/* A kernel touched memory that is nobody's: its thread is left where it is and the grid is dropped. Outside kernels the
 * signal does what it did before. */
void on_bad_access(int signal, siginfo_t *info, void *) {
    if (!self) {
        sigaction(signal, signal == SIGSEGV ? &old_segv : &old_bus, nullptr);
        return;
    }
    char text[200];
    snprintf(text, sizeof text, "an access to %p, which is no device memory%s", info->si_addr,
             describe(info->si_addr));
    report(text);
    to_scheduler();
}

} // namespace

static void catch_bad_accesses() {
    static thread_local unsigned char *stack;
    enum { STACK = 64 * 1024 };
    if (stack)
        return;
    stack = static_cast<unsigned char *>(malloc(STACK));
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = STACK;
    sigaltstack(&alternate, nullptr);
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = on_bad_access;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &old_segv);
        sigaction(SIGBUS, &action, &old_bus);
    });
}

void fail(const char *fmt, ...) {
    char text[700];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (!self) {
        fprintf(stderr, "emulator: %s\n", text);
        abort();
    }
    report(text);
    to_scheduler(); /* never resumed: the grid is dropped */
    abort();
}

model emulated;

size_t model::shared_max() const {
    switch (arch) {
    case 80:
    case 87: return 163 * 1024;
    case 86:
    case 89:
    case 120:
    case 121: return 99 * 1024;
    default: return SHARED_MAX;
    }
}

/* Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". */
bool launchable(const launch &l) {
    const dim &g = l.grid_dim, &b = l.block_dim;
    const uint64_t threads = uint64_t(b.x) * b.y * b.z;
    const bool grid_fits = g.x && g.y && g.z && g.x <= 0x7fffffffu && g.y <= 65535 && g.z <= 65535;
    const bool block_fits = threads && b.x <= 1024 && b.y <= 1024 && b.z <= 64 && threads <= 1024;
    const bool cluster_fits =
        l.cluster() == 1 ||
        (emulated.arch >= 90 && emulated.compiled >= 90 && l.cluster() <= CLUSTER_MAX &&
         g.y % l.cluster_y == 0 && g.z % l.cluster_z == 0);
    if (grid_fits && block_fits && cluster_fits && l.shared_bytes <= emulated.shared_max())
        return true;
    snprintf(
        failure, sizeof failure,
        "kernel %s: bad launch: a grid of %u x %u x %u, clusters of %u x %u, blocks of %u x %u x %u, %zu bytes of shared memory (of %zu)",
        l.name, g.x, g.y, g.z, l.cluster_y, l.cluster_z, b.x, b.y, b.z, l.shared_bytes,
        emulated.shared_max());
    fprintf(stderr, "emulator: %s\n", failure);
    return false;
}

grid::grid(const launch &l) : what(l) {
    const dim &g = what.grid_dim;
    const uint64_t blocks = uint64_t(g.x) * g.y * g.z / what.cluster(); /* clusters, below */
    if (blocks > (1u << 24)) {
        snprintf(failure, sizeof failure,
                 "kernel %s: a grid of %llu blocks is too large to emulate", what.name,
                 (unsigned long long)blocks);
        fprintf(stderr, "emulator: %s\n", failure);
        broken = true;
        return;
    }
    block_order.resize(blocks);
    for (unsigned i = 0; i < blocks; i++)
        block_order[i] = i;
    if (pass_order == order::descending)
        std::reverse(block_order.begin(), block_order.end());
    if (pass_order == order::seeded)
        for (size_t i = blocks; i > 1; i--)
            std::swap(block_order[i - 1], block_order[next_random() % i]);
}

grid::~grid() {
    for (auto &b : resident)
        recycle(b.get());
}

/* The blocks of a cluster, neighbours along y, then along z. */
void grid::start_cluster(unsigned number) {
    const unsigned x = what.grid_dim.x, plane = x * what.grid_dim.y,
                   in_plane = plane / what.cluster_y;
    const unsigned first = number / in_plane * plane * what.cluster_z +
                           number % in_plane / x * x * what.cluster_y + number % x;
    std::vector<block *> together;
    for (unsigned z = 0; z < what.cluster_z; z++)
        for (unsigned y = 0; y < what.cluster_y; y++)
            together.push_back(start_block(first + z * plane + y * x));
    for (unsigned r = 0; r < what.cluster(); r++) {
        together[r]->cluster = together;
        together[r]->cluster_rank = r;
    }
}

block *grid::start_block(unsigned linear) {
    auto b = std::make_unique<block>();
    const dim &g = what.grid_dim, &d = what.block_dim;
    b->owner = this;
    b->idx = {linear % g.x, linear / g.x % g.y, linear / g.x / g.y};
    unsigned count = d.x * d.y * d.z;
    b->live = count;
    b->threads.resize(count);
    for (unsigned i = 0; i < (count + WARP - 1) / WARP; i++) {
        b->warps.push_back(take_warp());
        b->warps.back()->open_count = b->warps.back()->ended = b->warps.back()->meeting_count = 0;
    }
    b->shared = take_shared();
    memset(b->shared - (what.shared_bytes + 127) / 128 * 128, 0xff,
           (what.shared_bytes + 127) / 128 * 128);
    for (unsigned i = 0; i < count; i++) {
        thread &t = b->threads[i];
        t.idx = {i % d.x, i / d.x % d.y, i / d.x / d.y};
        t.linear = i;
        t.lane = i % WARP;
        t.warp = i / WARP;
        t.owner = b.get();
        if (!spare_fibers.empty()) {
            t.fiber = spare_fibers.back();
            spare_fibers.pop_back();
        }
        fiber_start(&t.fiber, thread_main, &t);
    }
    resident.push_back(std::move(b));
    return resident.back().get();
}

/* Whether only the favoured warp of a block runs in this pass. */
static bool favour(block *b) {
    if (pass_order != order::seeded || b->warps.size() < 2)
        return false;
    if (!b->favoured_passes && next_random() % 8 == 0) {
        b->favoured = unsigned(next_random() % b->warps.size());
        b->favoured_passes = 1 + unsigned(next_random() % 64);
        return true;
    }
    if (b->favoured_passes)
        b->favoured_passes--;
    return b->favoured_passes != 0;
}

/* Gives every thread that can run one turn. False when nobody could. */
bool grid::pass(bool dependency_done) {
    bool moved = false;
    for (auto &b : resident) {
        size_t count = b->threads.size(), start = 0;
        if (pass_order == order::seeded)
            start = next_random() % count;
        const bool alone = favour(b.get());
        const bool landed =
            land_copies(b.get(), int(pass_order),
                        pass_order == order::seeded && !b->bulk.empty() ? next_random() : 0, false);
        bool moved_here = landed;
        moved = moved || landed;
        bool backward =
            pass_order == order::descending || (pass_order == order::seeded && (next_random() & 1));
        for (size_t k = 0; k < count; k++) {
            size_t i = (start + (backward ? count - 1 - k : k)) % count;
            thread &t = b->threads[i];
            if (alone && t.warp != b->favoured)
                continue;
            if (t.state == wait::dependency && dependency_done)
                t.state = wait::nothing;
            if (t.state == wait::yield)
                t.state = wait::nothing;
            if (t.state == wait::mbarrier && mbarrier_passed(&t))
                t.state = wait::nothing;
            const bool asks =
                t.state == wait::outside; /* again: no step forward unless it gets an answer */
            if (t.state != wait::nothing && !asks)
                continue;
            self = &t;
            t.state = wait::nothing;
            fiber_switch(&scheduler, &t.fiber);
            self = nullptr;
            if (!asks || t.state != wait::outside)
                moved = moved_here = true;
            if (broken)
                return true;
            if (t.state == wait::ended) {
                b->live--;
                b->warps[t.warp]->ended |= 1u << t.lane;
            }
        }
        if (alone && !moved_here) { /* as far as it could: the others' turn */
            b->favoured_passes = 0;
            moved = true;
        }
    }
    return moved;
}

void grid::report_deadlock() {
    const block *b = resident.front().get();
    int used = snprintf(failure, sizeof failure, "kernel %s, block (%u, %u, %u): nobody can go on;",
                        what.name, b->idx.x, b->idx.y, b->idx.z);
    unsigned shown = 0;
    for (size_t i = 0; i < b->threads.size() && shown < 6 && used < 900; i++) {
        const thread &t = b->threads[i];
        if (i && t.state == b->threads[i - 1].state &&
            t.barrier_idx == b->threads[i - 1].barrier_idx)
            continue;
        used += snprintf(failure + used, sizeof failure - size_t(used),
                         " from thread %zu on: waits for %s%s%s;", i, wait_name(t.state),
                         t.state == wait::warp ? " in " : "",
                         t.state == wait::warp ? t.collective : "");
        shown++;
    }
    fprintf(stderr, "emulator: %s\n", failure);
    broken = true;
}

bool grid::advance(bool dependency_done) {
    catch_bad_accesses();
    waited = dependency_done;
    waits_outside = false;
    while (!broken) {
        const size_t room = what.shared_bytes <= SHARED_OF_TWO ? 2 * SM_COUNT : SM_COUNT;
        while ((resident.empty() || resident.size() + what.cluster() <= room) &&
               next_block < block_order.size())
            start_cluster(block_order[next_block++]);
        if (resident.empty())
            return true;
        bool moved = pass(dependency_done);
        if (broken)
            break;
        std::vector<bool>
            over; /* with all of its cluster: until then the others may look at its memory */
        for (auto &b : resident)
            over.push_back(std::none_of(b->cluster.begin(), b->cluster.end(),
                                        [](const block *other) { return other->live; }));
        for (size_t i = resident.size(); i-- > 0;) {
            if (!over[i])
                continue;
            recycle(resident[i].get());
            resident.erase(resident.begin() + long(i));
            moved = true;
        }
        for (auto &b : resident)
            moved = moved || land_copies(b.get(), int(pass_order), 0, true);
        if (moved)
            continue;
        for (auto &b : resident)
            for (thread &t : b->threads)
                waits_outside |= t.state == wait::outside;
        if (waits_outside)
            return false;
        bool all_dependent = true;
        for (auto &b : resident)
            for (thread &t : b->threads)
                all_dependent &= t.state == wait::dependency || t.state == wait::ended ||
                                 t.state == wait::barrier || t.state == wait::cluster ||
                                 t.state == wait::mbarrier || t.state == wait::warp;
        bool some_dependent = false;
        for (auto &b : resident)
            for (thread &t : b->threads)
                some_dependent |= t.state == wait::dependency;
        if (!dependency_done && all_dependent && some_dependent)
            return false;
        report_deadlock();
    }
    return true;
}

/* ---- what kernels call ---- */

void barrier(unsigned idx) {
    if (idx >= BARRIERS)
        fail("barrier %u: there are %d", idx, BARRIERS);
    self->state = wait::barrier;
    self->barrier_idx = idx;
    if (!open_barrier(self->owner, idx))
        to_scheduler();
}

void cluster_barrier() {
    block *first = self->owner->cluster[0];
    self->state = wait::cluster;
    if (++first->cluster_arrived != first->threads.size() * first->cluster.size()) {
        to_scheduler();
        return;
    }
    first->cluster_arrived = 0;
    first->cluster_rounds++;
    order_cluster(first->cluster);
    for (block *b : first->cluster) {
        b->epoch++;
        for (thread &t : b->threads)
            t.state = wait::nothing;
    }
}

unsigned cluster_rank() {
    return self->owner->cluster_rank;
}
unsigned cluster_y() {
    return self->owner->owner->what.cluster_y;
}

void *of_peer(const void *p, unsigned rank) {
    const block *b = self->owner;
    if (rank >= b->cluster.size())
        fail("block %u of a cluster of %zu", rank, b->cluster.size());
    return b->cluster[rank]->shared + (static_cast<const unsigned char *>(p) - b->shared);
}

void wait_here(wait what) {
    self->state = what;
    to_scheduler();
}

bool reads_early() {
    return pass_order == order::descending || (pass_order == order::seeded && (next_random() & 1));
}

void yield() {
    wait_here(wait::yield);
}

void dependency_wait() {
    if (!self->owner->owner->what.dependent || emulated.compiled < 90)
        return;
    self->state = wait::dependency;
    to_scheduler();
}

/* What is told must have been written before a barrier, if not by this thread: as if it were read here. */
__attribute__((no_sanitize_thread)) void tell_outside(uint32_t *flag, uint32_t v, const void *sent,
                                                      size_t bytes) {
    note_access_if_watched(sent, bytes, false);
    __atomic_store_n(flag, v, __ATOMIC_RELEASE);
}

/* What has come is known to this thread, to others behind a barrier: as if it were written here. */
__attribute__((no_sanitize_thread)) bool told_outside(const uint32_t *flag, uint32_t wanted,
                                                      const void *here, size_t bytes) {
    if (int32_t(__atomic_load_n(flag, __ATOMIC_ACQUIRE) - wanted) < 0) {
        wait_here(wait::outside);
        return false;
    }
    note_access_if_watched(here, bytes, true);
    return true;
}

uint64_t host_clock_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return uint64_t(t.tv_sec) * 1000000000u + uint64_t(t.tv_nsec);
}

void dependents_launch() {
    grid *g = self->owner->owner;
    if (emulated.compiled >= 90 && !g->waited)
        g->lets_dependents_begin = true;
}

const unsigned char (*exchange(uint32_t mask, const char *what, const void *in,
                               size_t size))[EXCHANGE_BYTES] {
    thread *t = self;
    block *b = t->owner;
    if (size > EXCHANGE_BYTES)
        fail("%s exchanges %zu bytes", what, size);
    if (!(mask >> t->lane & 1))
        fail("%s: the mask %08x does not name the calling lane %u", what, mask, t->lane);
    warp *w = b->warps[t->warp].get();
    if (mask & w->ended)
        fail("%s: lanes %08x of the mask %08x have ended", what, mask & w->ended, mask);
    memcpy(w->deposits[t->lane], in, size);
    t->state = wait::warp;
    t->collective = what;
    unsigned at = 0;
    while (at < w->open_count && !(w->open[at].mask & mask))
        at++;
    if (at == w->open_count)
        w->open[w->open_count++] = {mask, 0, what};
    warp::gathering &g = w->open[at];
    if (g.mask != mask || (g.what != what && strcmp(g.what, what)))
        fail("%s (mask %08x) meets %s (mask %08x)", what, mask, g.what, g.mask);
    g.here |= 1u << t->lane;
    if (g.here != mask) {
        to_scheduler();
        return t->view;
    }
    g = w->open[--w->open_count];
    w->meeting_count++;
    const size_t first = size_t(t->warp) * WARP, end = std::min(first + WARP, b->threads.size());
    auto *meeting = w->meetings[w->next_meeting++ % MEETINGS];
    for (size_t i = first; i < end; i++) {
        thread &other = b->threads[i];
        if (!(mask >> other.lane & 1))
            continue;
        memcpy(meeting[other.lane], w->deposits[other.lane], size);
        other.view = meeting;
        other.state = wait::nothing;
    }
    if (!t->clock.empty())
        merge_clocks(t, mask);
    return meeting;
}

void copy_async(void *to, const void *from, unsigned bytes, unsigned zero_bytes) {
    if (reinterpret_cast<uintptr_t>(to) % bytes ||
        (bytes > zero_bytes && reinterpret_cast<uintptr_t>(from) % bytes))
        fail("cp.async of %u bytes is not aligned", bytes);
    note_access_if_watched(to, bytes, true);
    memset(to, 0xff, bytes);
    self->copies.push_back({to, from, bytes, zero_bytes, self->copy_group});
}

void copy_commit() {
    self->copy_group++;
}

void copy_wait(unsigned groups_left) {
    thread *t = self;
    size_t kept = 0;
    for (async_copy &c : t->copies) {
        if (c.group + groups_left >= t->copy_group) {
            t->copies[kept++] = c;
            continue;
        }
        unsigned copied = c.bytes - c.zero_bytes;
        note_access_if_watched(c.to, c.bytes, true);
        if (copied)
            note_access_if_watched(c.from, copied, false);
        if (copied)
            memcpy(c.to, c.from, copied);
        memset(static_cast<char *>(c.to) + copied, 0, c.zero_bytes);
    }
    t->copies.resize(kept);
}

} // namespace emu
