#!/usr/bin/env bash
# timeout: 900
# seconds: 240
# arm64: builds with Debian's cross compiler; kernels, goldens and the program itself run under qemu with the NEON set.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
sysroot=$ROOT/build/arm64-root
if ! need_packages gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static || ! tests/arm64/sysroot.sh "$sysroot"; then
    skip arm64 arm64.builds "the cross compiler or the arm64 libraries could not be had"
    exit 0
fi
# Programs of many shapes take an hour under qemu; TRIREME_ARM64=all runs them, too.
programs="base_cpu_features kernels_features kernels_dense"
[ "${TRIREME_ARM64:-}" != all ] ||
    programs="$programs kernels_row_ops kernels_attention kernels_quant kernels_sample kernels_state kernels_expert kernels_latent
        kernels_types model_llama_goldens model_families model_golden"
targets=trireme
for program in $programs; do targets="$targets test_$program"; done
# shellcheck disable=SC2086
if build arm64 $targets; then ok arm64.builds; else not_ok arm64.builds "see the log" && exit 0; fi
# An old core and one with every extension; each program runs all sets that the emulated processor has.
for program in $programs; do emulated_unit "qemu-aarch64-static -L $sysroot -cpu max" build/arm64 arm64.max "test_$program"; done
for program in kernels_features kernels_dense; do
    emulated_unit "qemu-aarch64-static -L $sysroot -cpu cortex-a72" build/arm64 arm64.cortex-a72 "test_$program"
done
export TRIREME_MACHINES=aarch64 TRIREME_SYSROOT=$sysroot TRIREME_BIN=$ROOT/build/arm64/bin/trireme
cd tests/e2e && python3 run.py test_machines.py
