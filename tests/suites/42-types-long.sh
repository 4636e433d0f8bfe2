#!/usr/bin/env bash
# timeout: 900
# seconds: 100
# The bundled model in every storage type against the f32 network on the decoded weights; damaged files of every kind.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
out=$(mktemp /tmp/trm-types-XXXXXX)
trap 'rm -f "$out"' EXIT
need_venv && python=$VENV/bin/python
"${python:-python3}" tests/tools/type_table.py --trireme "$BUILD_RELEASE/bin/trireme" >"$out" 2>&1 </dev/null
case $? in
0) ok "types.likelihood ($(grep -c '+0\|-0\|e-' "$out") rows)" ;;
77) skip gguf types.likelihood "$(tail -1 "$out")" ;;
*) not_ok types.likelihood "$(grep 'too far\|rror' "$out" | head -3 | tr '\n' ' ')" ;;
esac
if python3 tests/tools/damaged_files.py 300 --seed "${TRIREME_TEST_SEED:-$RANDOM}" --bin "$BUILD_RELEASE/bin" >"$out" 2>&1 </dev/null; then
    ok "types.damaged ($(grep -o 'at most [0-9]* ms' "$out" | sort -k3n | tail -1))"
else not_ok types.damaged "$(tail -3 "$out" | tr '\n' ' ')"; fi
