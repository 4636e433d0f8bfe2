#!/usr/bin/env bash
# timeout: 1800
# seconds: 400
# long: yes
# Ranks on the emulated CUDA device, and pipelines that mix it with the CPU.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
must_build ranks_emulated.build release trireme-emu bench_gpu_emulated
export LONG BUILD_RELEASE TRIREME_BIN=$BUILD_RELEASE/bin/trireme-emu TRIREME_GPU_BENCH=$BUILD_RELEASE/bin/bench_gpu_emulated TRIREME_GPU_SMALL=1
cd tests/e2e && exec python3 run.py test_ranks_gpu.py
