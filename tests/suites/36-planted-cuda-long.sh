#!/usr/bin/env bash
# timeout: 3600
# seconds: 220
# Bugs planted in the CUDA kernels and in what records their graphs, each found on the emulator.
. "$(dirname "$0")/../lib.sh"
PLANTED_SECONDS=${PLANTED_SECONDS:-150} "$ROOT/tests/planted/run.sh" cuda
