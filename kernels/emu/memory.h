/*
 * memory.h - the emulated device's memory: poisoned, ending at a guard page, with a canary in what
 * lies between.
 */
#ifndef KERNELS_EMU_MEMORY_H
#define KERNELS_EMU_MEMORY_H

#include <cstddef>
#include <cstdint>

namespace emu {

enum { DEVICE_ALIGN = 64, POISON = 0xff, CANARY = 0xa5 };

/* nullptr past the device's memory (TRIREME_EMU_MEMORY bytes, default 8 GB). */
void *device_take(size_t size);
/* How another process finds an allocation. */
struct export_name {
    int pid, fd;
    size_t size;
};
/* Moves an allocation, where it lies, into memory that other processes can map. False: p is none, or
 * there is no such memory. */
bool device_export(void *p, export_name *out);
/* Another process's allocation, between guard pages; nullptr: it is not there, or this process's
 * own. Not counted as this device's memory. */
void *device_open(const export_name &name);
/* Ends that. False: p is none of them. */
bool device_shut(void *p);
/* What fresh device memory holds from now on (POISON before). */
void set_fill(int byte);
/* false: not one of ours. Reports a canary that was overwritten. */
bool device_give(void *p);
/* Checks every canary; reports the first allocation that was overrun. */
bool memory_intact();
/* The allocation p lies in: [*from, *to). False: in none. */
bool device_range(const void *p, uintptr_t *from, uintptr_t *to);
/* Whether p lies in device memory that was taken. */
bool device_owns(const void *p);
/* What lies near an address that is nobody's: " (24 bytes past an allocation of 4096)", or "".
 * Static buffer. */
const char *describe(const void *p);
/* Bytes that device_take may still give. */
size_t device_memory_free();
/* Bytes of the device in all. */
size_t device_memory_total();
/* Pinned host memory: copies from it are read when they run. */
void *pinned_take(size_t size);
/* False: not one of ours. */
bool pinned_give(void *p);
/* Whether p lies in pinned memory. */
bool pinned_owns(const void *p);

} // namespace emu
#endif
