#!/usr/bin/env bash
# timeout: 2400
# seconds: 240
# The rogue peers, fuzzed for a while each: live processes stand behind them, so that a replay of their corpora says little. The seed is
# drawn by the commit: a second run of it tries the same.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
for file in tests/fuzz/fuzz_rogue_*.c; do
    name=$(basename "$file" .c)
    if FUZZ_SEED=$(($(drawn_number) + 1)) ./dev fuzz "$name" "${FUZZ_SECONDS:-40}" >/tmp/fuzz.$$ 2>&1 </dev/null; then ok "fuzz.${name#fuzz_} ($(grep -m1 '^Done' /tmp/fuzz.$$))"
    else tail -60 /tmp/fuzz.$$ >&2; not_ok "fuzz.${name#fuzz_}" "$(grep -m1 -E 'check failed|ERROR|runtime error' /tmp/fuzz.$$)"; fi
done
rm -f /tmp/fuzz.$$
