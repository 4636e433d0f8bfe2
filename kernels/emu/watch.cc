/*
 * watch.cc - what gcc's instrumentation (-fsanitize=thread) calls, for races.cc. Linked into programs whose kernels are
 * compiled with it, and never into one that has the real ThreadSanitizer.
 */
#include "kernels/emu/races.h"

extern "C" {
void __tsan_init(void) { emu::watched = true; }
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_read_range(void *p, size_t size) { emu::note_access(p, size, false); }
void __tsan_write_range(void *p, size_t size) { emu::note_access(p, size, true); }
#define ACCESS(size)                                                                  \
    void __tsan_read##size(void *p) { emu::note_access(p, size, false); }             \
    void __tsan_write##size(void *p) { emu::note_access(p, size, true); }             \
    void __tsan_unaligned_read##size(void *p) { emu::note_access(p, size, false); }   \
    void __tsan_unaligned_write##size(void *p) { emu::note_access(p, size, true); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
}
