/* What the tests of tests/unit/emu ask of the emulator, where a real device takes its place: it has
 * one order and one architecture of its own, does not recover, counts nothing (0), and watches for
 * no races. */
#include <stdbool.h>
#include <stdint.h>

void emu_set_order(int order, uint64_t seed);
void emu_set_blas_choice(int choice);
void emu_set_device(int arch, int compiled);
void emu_recover(void);
const char *emu_failure(void);
uint64_t emu_launch_count(void);
uint64_t emu_early_copy_count(void);
bool emu_is_watched(void);

void emu_set_order(int order, uint64_t seed) {
    (void)order;
    (void)seed;
}
void emu_set_blas_choice(int choice) {
    (void)choice;
}
void emu_set_device(int arch, int compiled) {
    (void)arch;
    (void)compiled;
}
void emu_recover(void) {}
const char *emu_failure(void) {
    return "see the lines above";
}
uint64_t emu_launch_count(void) {
    return 0;
}
uint64_t emu_early_copy_count(void) {
    return 0;
}
bool emu_is_watched(void) {
    return false;
}
