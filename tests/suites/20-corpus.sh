#!/usr/bin/env bash
# beside: yes
# timeout: 1800
# Every fuzz target over its corpus, and over small changes of it, under ASan and UBSan.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
must_build corpus.build dev
for file in tests/fuzz/fuzz_*.c; do
    [ -f "$file" ] || { not_ok corpus "there are no fuzz targets"; break; }
    name=$(basename "$file" .c)
    corpus=tests/fuzz/corpus/${name#fuzz_}
    timeout -k 5 120 "$BUILD_DEV/bin/replay_${name#fuzz_}" $([ -d "$corpus" ] && echo "$corpus") >/tmp/replay.$$ 2>&1 </dev/null
    rc=$?
    if [ $rc = 0 ]; then ok "corpus.${name#fuzz_} ($(tail -1 /tmp/replay.$$))"
    else tail -40 /tmp/replay.$$ >&2; not_ok "corpus.${name#fuzz_}" "exit code $rc: $(grep -E 'ERROR|runtime error|check failed' /tmp/replay.$$ | head -1)"; fi
done
rm -f /tmp/replay.$$
