#!/usr/bin/env bash
# timeout: 2400
# seconds: 240
# The rogue peers, fuzzed for a while each; the seed is drawn by the commit. What a target tries follows from the seed alone where all that
# it fuzzes is one thread with a clock of its own (rogue/house.h): there runs are counted, so that a second run of a commit, here or on
# another machine, tries the same, or the first of it where FUZZ_SECONDS come before. A model's executor (fuzz_rogue_plan) has threads of its
# own and nearly so. A gateway (fuzz_rogue_scheduler) lives with threads, sockets and the machine's clock: what it tries is another thing each
# time, and only its seconds are bounded.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
for file in tests/fuzz/fuzz_rogue_*.c; do
    name=$(basename "$file" .c) runs=2000 seconds=${FUZZ_SECONDS:-120}
    if [ "$name" = fuzz_rogue_scheduler ]; then runs='' seconds=${FUZZ_SECONDS:-40}; fi
    if FUZZ_RUNS=$runs FUZZ_SEED=$(($(drawn_number) + 1)) ./dev fuzz "$name" "$seconds" >/tmp/fuzz.$$ 2>&1 </dev/null; then
        ok "fuzz.${name#fuzz_} ($(grep -m1 '^Done' /tmp/fuzz.$$))"
    else tail -60 /tmp/fuzz.$$ >&2; not_ok "fuzz.${name#fuzz_}" "$(grep -m1 -E 'check failed|ERROR|runtime error' /tmp/fuzz.$$)"; fi
done
rm -f /tmp/fuzz.$$
