#!/usr/bin/env bash
# beside: yes
# timeout: 1800
# seconds: 110
# long: yes
# The scheduler's core in the simulator: every seed a day of faults. In a long run ten times the seeds, and the planted bugs.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
out=$(mktemp)
trap 'rm -f "$out"' EXIT

sim() { # sim NAME BUILD FIRST..LAST
    if [ ! -x "$2/bin/sim" ]; then not_ok "$1" "there is no $2/bin/sim"; return; fi
    if timeout -k 5 1500 "$2/bin/sim" --seeds "$3" --jobs "$(nproc)" >"$out" 2>&1; then ok "$1 ($(head -1 "$out"))"
    else
        tail -300 "$out" >&2
        not_ok "$1" "$(grep -m1 -E '^(violated|check failed)|ERROR: |runtime error' "$out"); $(grep -m1 '^not ok' "$out" || echo 'no seed was named')"
    fi
}

if [ "$LONG" = 1 ]; then
    sim sim.release "$BUILD_RELEASE" 1..20000
    tests/planted/run.sh scheduler
else
    sim sim.release "$BUILD_RELEASE" 1..2000
    must_build sim.build dev sim
    sim sim.dev "$BUILD_DEV" 100001..100100
fi
