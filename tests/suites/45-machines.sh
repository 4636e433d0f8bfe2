#!/usr/bin/env bash
# beside: yes
# timeout: 600
# The release on processors that are not here, by qemu's user emulation: the program as people start it, and the kernels' unit tests.
. "$(dirname "$0")/../lib.sh"
if ! command -v qemu-x86_64-static >/dev/null; then
    skip qemu machines "no qemu-x86_64-static (package qemu-user-static)"
    exit 0
fi
export BUILD_RELEASE
(cd "$ROOT/tests/e2e" && python3 run.py test_machines.py)
programs="test_kernels_dense test_kernels_row_ops test_kernels_features test_base_cpu_features"
# shellcheck disable=SC2086
must_build machines.build release $programs
# The kernels' tests run each set that the processor has, half of them at each commit. Haswell's and max's are the same here: qemu 7.2
# emulates no AVX-512.
pairs=$(for program in $programs; do
    for cpu in Nehalem Haswell; do echo "$cpu:$program"; done
done)
# shellcheck disable=SC2086
for pair in $(drawn 2 $pairs); do
    emulated_unit "qemu-x86_64-static -cpu ${pair%:*}" "$BUILD_RELEASE" "machines.${pair%:*}" "${pair#*:}"
done
