#include "kernels/emu/memory.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu {

namespace {

struct region {
    void *mapping;
    size_t mapped, size;
    int fd = -1;          /* of what others can map */
    bool foreign = false; /* another process's */
};

std::mutex lock;
std::map<uintptr_t, region> device_regions, pinned_regions;
size_t device_used;

int fresh_byte = POISON;
enum : size_t { PAGE = 4096 };

region map_guarded(size_t size, size_t align, uintptr_t *at) {
    size_t room = (size + align - 1) / align * align, pages = (room + PAGE - 1) / PAGE * PAGE;
    void *m = mmap(nullptr, pages + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return {nullptr, 0, 0, -1, false};
    mprotect(m, PAGE, PROT_NONE);
    mprotect(static_cast<char *>(m) + PAGE + pages, PAGE, PROT_NONE);
    *at = reinterpret_cast<uintptr_t>(m) + PAGE + pages - room;
    return {m, pages + 2 * PAGE, size, -1, false};
}

bool canary_intact(uintptr_t at, const region &r) {
    size_t room = (r.size + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    const auto *end = reinterpret_cast<const unsigned char *>(at);
    for (size_t i = r.size; i < room; i++)
        if (end[i] != CANARY) return false;
    return true;
}

/* Freed memory stays out of reach, and its addresses unused, until many others were freed after it: who still uses it is
 * stopped. The pages themselves go back at once. */
void retire(const region &r) {
    enum { KEPT = 512 };
    static std::deque<region> kept;
    mmap(r.mapping, r.mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    kept.push_back(r);
    if (kept.size() <= KEPT) return;
    munmap(kept.front().mapping, kept.front().mapped);
    kept.pop_front();
}

bool owned(const std::map<uintptr_t, region> &regions, const void *p) {
    auto at = reinterpret_cast<uintptr_t>(p);
    auto next = regions.upper_bound(at);
    if (next == regions.begin()) return false;
    --next;
    return at < next->first + (next->second.size ? next->second.size : 1);
}

} // namespace

size_t device_memory_total() {
    const char *set = getenv("TRIREME_EMU_MEMORY");
    return set ? strtoull(set, nullptr, 0) : size_t(8) << 30;
}

size_t device_memory_free() {
    std::lock_guard<std::mutex> hold(lock);
    size_t total = device_memory_total();
    return total > device_used ? total - device_used : 0;
}

void *device_take(size_t size) {
    if (size > device_memory_free()) return nullptr;
    uintptr_t at = 0;
    region r = map_guarded(size, DEVICE_ALIGN, &at);
    if (!r.mapping) return nullptr;
    size_t room = (size + DEVICE_ALIGN - 1) / DEVICE_ALIGN * DEVICE_ALIGN;
    memset(reinterpret_cast<void *>(at), fresh_byte, size);
    memset(reinterpret_cast<char *>(at) + size, CANARY, room - size);
    std::lock_guard<std::mutex> hold(lock);
    device_regions[at] = r;
    device_used += size;
    return reinterpret_cast<void *>(at);
}

void set_fill(int byte) { fresh_byte = byte; }

bool device_give(void *p) {
    std::lock_guard<std::mutex> hold(lock);
    auto found = device_regions.find(reinterpret_cast<uintptr_t>(p));
    if (found == device_regions.end()) return false;
    if (!canary_intact(found->first, found->second)) {
        fprintf(stderr, "emulator: something was written past the end of an allocation of %zu bytes\n", found->second.size);
        abort();
    }
    if (found->second.foreign) return false;
    if (found->second.fd >= 0) close(found->second.fd);
    device_used -= found->second.size;
    retire(found->second);
    device_regions.erase(found);
    return true;
}

bool device_export(void *p, export_name *out) {
    std::lock_guard<std::mutex> hold(lock);
    auto found = device_regions.find(reinterpret_cast<uintptr_t>(p));
    if (found == device_regions.end() || found->second.foreign) return false;
    region &r = found->second;
    const size_t pages = r.mapped - 2 * PAGE;
    char *at = static_cast<char *>(r.mapping) + PAGE;
    if (r.fd < 0) {
        const int fd = memfd_create("emulated device memory", MFD_CLOEXEC);
        bool copied = fd >= 0 && ftruncate(fd, off_t(pages)) == 0;
        for (size_t done = 0; copied && done < pages;) {
            const ssize_t n = pwrite(fd, at + done, pages - done, off_t(done));
            copied = n > 0;
            done += copied ? size_t(n) : 0;
        }
        if (!copied || mmap(at, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
            if (fd >= 0) close(fd);
            return false;
        }
        r.fd = fd;
    }
    *out = {int(getpid()), r.fd, r.size};
    return true;
}

void *device_open(const export_name &name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", name.pid, name.fd);
    const int fd = name.pid == int(getpid()) ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    uintptr_t at = 0;
    region r = map_guarded(name.size, DEVICE_ALIGN, &at);
    const bool mapped = r.mapping && mmap(static_cast<char *>(r.mapping) + PAGE, r.mapped - 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
    close(fd);
    if (!mapped) {
        if (r.mapping) munmap(r.mapping, r.mapped);
        return nullptr;
    }
    r.foreign = true;
    std::lock_guard<std::mutex> hold(lock);
    device_regions[at] = r;
    return reinterpret_cast<void *>(at);
}

bool device_shut(void *p) {
    std::lock_guard<std::mutex> hold(lock);
    auto found = device_regions.find(reinterpret_cast<uintptr_t>(p));
    if (found == device_regions.end() || !found->second.foreign) return false;
    retire(found->second);
    device_regions.erase(found);
    return true;
}

bool memory_intact() {
    std::lock_guard<std::mutex> hold(lock);
    for (const auto &[at, r] : device_regions)
        if (!canary_intact(at, r)) {
            fprintf(stderr, "emulator: something was written past the end of an allocation of %zu bytes\n", r.size);
            return false;
        }
    return true;
}

bool device_owns(const void *p) {
    std::lock_guard<std::mutex> hold(lock);
    return owned(device_regions, p);
}

bool device_range(const void *p, uintptr_t *from, uintptr_t *to) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    std::lock_guard<std::mutex> hold(lock);
    auto next = device_regions.upper_bound(at);
    if (next == device_regions.begin() || at >= (--next)->first + next->second.size) return false;
    *from = next->first;
    *to = next->first + next->second.size;
    return true;
}

/* Called from a signal handler of the thread that runs kernels, never while that thread holds the lock. */
const char *describe(const void *p) {
    static thread_local char text[100];
    auto at = reinterpret_cast<uintptr_t>(p);
    std::lock_guard<std::mutex> hold(lock);
    for (const auto &[from, r] : device_regions) {
        const uintptr_t end = from + r.size, mapped = reinterpret_cast<uintptr_t>(r.mapping);
        if (at < mapped || at >= mapped + r.mapped) continue;
        if (at < from)
            snprintf(text, sizeof text, " (%zu bytes before an allocation of %zu)", size_t(from - at), r.size);
        else
            snprintf(text, sizeof text, " (%zu bytes past an allocation of %zu)", size_t(at - end), r.size);
        return text;
    }
    return "";
}

void *pinned_take(size_t size) {
    uintptr_t at = 0;
    region r = map_guarded(size, DEVICE_ALIGN, &at);
    if (!r.mapping) return nullptr;
    std::lock_guard<std::mutex> hold(lock);
    pinned_regions[at] = r;
    return reinterpret_cast<void *>(at);
}

bool pinned_give(void *p) {
    std::lock_guard<std::mutex> hold(lock);
    auto found = pinned_regions.find(reinterpret_cast<uintptr_t>(p));
    if (found == pinned_regions.end()) return false;
    munmap(found->second.mapping, found->second.mapped);
    pinned_regions.erase(found);
    return true;
}

bool pinned_owns(const void *p) {
    std::lock_guard<std::mutex> hold(lock);
    return owned(pinned_regions, p);
}

} // namespace emu
