/* order.cu - the emulator's knobs for tests in C. */
#include "kernels/emu/cuda_emu.h"

extern "C" {
void emu_set_order(int order, uint64_t seed);
const char *emu_failure(void);
}

void emu_set_order(int order, uint64_t seed) {
    emu::set_order((emu::order)order, seed);
}
const char *emu_failure(void) {
    return emu::failure_text();
}
