/* spin.h - what a thread that waits in a loop tells its core. */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

/* The other thread of this core may have it; the loop's next look comes a little later. */
static inline void spin_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
