#!/usr/bin/env bash
# timeout: 900
# Minutes of bench/chaos: no stream may be lost.
. "$(dirname "$0")/../lib.sh"
export BUILD_RELEASE
if python3 "$ROOT/bench/chaos/chaos_bench.py" --rounds 100000 --seconds "${CHAOS_SECONDS:-150}" --seed "${CHAOS_SEED:-$RANDOM}" >&2; then ok chaos.long; else not_ok chaos.long "streams were lost; see the log"; fi
