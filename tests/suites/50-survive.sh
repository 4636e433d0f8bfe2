#!/usr/bin/env bash
# timeout: 600
# A few rounds of the flagship: streams outlive processes; a poisoned request; two workers.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE
cd "$ROOT/tests/e2e" && python3 run.py test_survive.py
