#!/usr/bin/env bash
# beside: yes
# timeout: 300
# ./dev gpu --run on a GPU that is not there: programs that pass, fail, hang and die take the place of the packed ones.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/packed
mkdir -p "$folder/bin" "$folder/tests/gpu" "$work/tmp"
cp tests/gpu/run.sh tests/gpu/table.awk "$folder/tests/gpu/"
printf 'commit=abc123\narch=90a-real\n' >"$folder/PACKED"
program() { { echo '#!/bin/bash'; cat; } >"$folder/bin/$1" && chmod +x "$folder/bin/$1"; }
program bench_gpu <<'TEXT'
echo "$*" >>"$CALLS"
figure() { echo "{\"kind\":\"figure\",\"step\":\"$TRIREME_STEP\",\"device\":\"Fake\",\"commit\":\"abc123\",\"name\":\"$1\",\"value\":1,\"unit\":\"x\"}"; }
case $1 in
probe) echo 'cuda|Fake|sm_90|141' ;;
ceilings) figure early; sleep 100 ;;
model) figure "$2.$4"; ls "$3" >/dev/null 2>&1 || mkdir -p "$3"; touch "$3/config.json" ;;
esac
TEXT
for test in rows linear attention sample model step heads; do program "test_gpu_$test" <<<'echo "ok it"'; done
program test_gpu_linear <<<'echo "not ok a_product: wrong"; exit 1'
program test_gpu_heads <<<'[ -e "$HEALED" ] || { echo "ok it"; exit 3; }; echo "ok it"'
mkdir -p "$work/tools" # this machine's disk may be full
printf '#!/bin/sh\nprintf "Filesystem 1024-blocks Used Available Capacity Mounted on\\nfake 1 1 100000000 1%%%% /\\n"\n' >"$work/tools/df" && chmod +x "$work/tools/df"
run() { (cd "$folder" && env -i PATH="$work/tools:$PATH" TMPDIR="$work/tmp" HEALED="$work/healed" CALLS="$work/calls" bash tests/gpu/run.sh "$@") >"$work/run" 2>&1; }
status() { grep -F "\"step\":\"$1\"" "$folder/ledger.jsonl" | grep -F '"kind":"step"' | tail -1 | sed 's/.*"status":"\([a-z]*\)".*/\1/'; }
runs() { grep -cF "\"step\":\"$1\",\"device\":\"Fake\",\"commit\":\"abc123\",\"time\"" "$folder/ledger.jsonl"; }
expect() { # expect NAME CONDITION...
    local name=$1
    shift
    if "$@"; then ok "gpu_run.$name"; else not_ok "gpu_run.$name" "$* ($(tail -3 "$work/run" | tr '\n' ' '))"; fi
}
is() { [ "$(status "$1")" = "$2" ]; }

began=$SECONDS
run --limit 10 --only kernels,ceilings,model
took=$((SECONDS - began))
expect a_step_that_hangs_costs_its_limit [ $took -lt 60 ]
expect what_hung_has_failed is ceilings failed
expect what_it_said_before_is_kept grep -qF '"name":"early"' "$folder/ledger.jsonl"
expect steps_after_it_run is model.heads failed
expect a_failed_test_has_failed is kernels.linear failed
expect a_passed_test_has_passed is kernels.rows passed
right=$(grep -n '"step":"kernels.rows"' "$folder/ledger.jsonl" | head -1 | cut -d: -f1)
fast=$(grep -n '"step":"ceilings"' "$folder/ledger.jsonl" | head -1 | cut -d: -f1)
expect what_is_right_comes_before_what_is_fast [ "$right" -lt "$fast" ]
touch "$work/healed"
run --limit 2 --only model
expect a_failed_step_is_tried_again_by_name is model.heads passed
run --limit 2 --only model,kernels.rows
expect a_passed_one_is_not [ "$(runs model.heads)" = 2 -a "$(runs kernels.rows)" = 1 ]
run --limit 2 --only bench.llama-3.1-8b.prefill
expect weights_stay_between_calls [ -e "$work/tmp/trireme-gpu-weights/llama-3.1-8b/config.json" ]
run --budget 0 --only bench.llama-3.1-8b.1k
expect what_has_no_time_comes_later is bench.llama-3.1-8b.1k later
run --budget 90 --only bench.llama-3.1-8b.1k --limit 5
expect and_is_taken_up_by_the_next_call is bench.llama-3.1-8b.1k passed
