#include "kernels/emu/fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void emu_fiber_swap(void **save_sp, void *load_sp);
extern "C" void emu_fiber_entry(void);

#if defined(__x86_64__)
asm(R"(
.text
.globl emu_fiber_swap
.type emu_fiber_swap,@function
emu_fiber_swap:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_fiber_swap,.-emu_fiber_swap
.globl emu_fiber_entry
.type emu_fiber_entry,@function
emu_fiber_entry:
    movq %r12, %rdi
    callq *%rbx
    ud2
.size emu_fiber_entry,.-emu_fiber_entry
.section .note.GNU-stack,"",@progbits
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl emu_fiber_swap
.type emu_fiber_swap,@function
emu_fiber_swap:
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #176
    ret
.size emu_fiber_swap,.-emu_fiber_swap
.globl emu_fiber_entry
.type emu_fiber_entry,@function
emu_fiber_entry:
    mov x0, x20
    blr x19
    brk #1
.size emu_fiber_entry,.-emu_fiber_entry
)");
#else
#error "no fiber switch for this machine"
#endif

void fiber_start(struct fiber *f, void (*run)(void *arg), void *arg) {
    if (!f->stack) {
        f->stack = mmap(nullptr, FIBER_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (f->stack == MAP_FAILED) {
            perror("emulator: no memory for a thread's stack");
            abort();
        }
        mprotect(f->stack, 4096, PROT_NONE);
    }
    auto *top = reinterpret_cast<uint64_t *>(static_cast<char *>(f->stack) + FIBER_STACK_BYTES);
#if defined(__x86_64__)
    top -= 2; /* after the entry's ret the stack is 16-byte aligned, as at a function's call */
    *--top = reinterpret_cast<uint64_t>(&emu_fiber_entry);
    *--top = 0;                               /* rbp */
    *--top = reinterpret_cast<uint64_t>(run); /* rbx */
    *--top = reinterpret_cast<uint64_t>(arg); /* r12 */
    *--top = 0;
    *--top = 0;
    *--top = 0; /* r13, r14, r15 */
#else
    top -= 22;
    for (int i = 0; i < 22; i++) top[i] = 0;
    top[0] = reinterpret_cast<uint64_t>(run);
    top[1] = reinterpret_cast<uint64_t>(arg);
    top[11] = reinterpret_cast<uint64_t>(&emu_fiber_entry);
#endif
    f->sp = top;
}

void fiber_switch(struct fiber *from, struct fiber *to) { emu_fiber_swap(&from->sp, to->sp); }

void fiber_release(struct fiber *f) {
    if (f->stack) munmap(f->stack, FIBER_STACK_BYTES);
    f->stack = nullptr;
}
