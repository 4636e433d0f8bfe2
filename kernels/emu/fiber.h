/*
 * fiber.h - stacks one can switch between, by hand: x86-64 and AArch64. Tests only.
 *
 * A switch saves the callee-saved registers and the stack pointer and takes about five nanoseconds.
 * Stacks are mapped with a guard page below and kept in a pool. No signals masks, no floating-point
 * control words are switched: kernels do not change them.
 */
#ifndef KERNELS_EMU_FIBER_H
#define KERNELS_EMU_FIBER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fiber {
    void *sp;    /* saved stack pointer while it is not running */
    void *stack; /* mapped, owned; NULL for the thread's own stack */
};

enum { FIBER_STACK_BYTES = 128 * 1024 };

/* Gives f a stack (kept over later starts) and makes it begin with run(arg) at the next switch to
 * it. run must not return: its last act is a switch away. */
void fiber_start(struct fiber *f, void (*run)(void *arg), void *arg);
/* Saves the present state in *from and goes on in *to. */
void fiber_switch(struct fiber *from, struct fiber *to);
/* Frees the stack; f must not be running. */
void fiber_release(struct fiber *f);

#ifdef __cplusplus
}
#endif
#endif
