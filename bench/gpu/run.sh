#!/bin/bash
# The CUDA device: ceilings of the GPU, then each kernel beside them, one JSON object a line: ./dev bench gpu [--emulated].
# ./dev gpu --run measures whole models and peers, too. --emulated runs the program on the emulator, to see that it works; its
# times mean nothing.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${BUILD_RELEASE:-$root/build/release}/bin/bench_gpu
[ "${1:-}" != --emulated ] || program=${program}_emulated
if [ ! -x "$program" ]; then
    echo "bench gpu: this build has no CUDA device (TRIREME_CUDA=on ./dev build makes one); --emulated runs without" >&2
    exit 1
fi
"$program" ceilings
[ -n "${TRIREME_BENCH_QUICK:-}" ] || "$program" kernels
