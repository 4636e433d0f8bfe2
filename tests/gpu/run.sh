#!/usr/bin/env bash
# ./dev gpu --run [--budget SECONDS] [--ledger FILE] [--again] [--only PATTERN], in a packed folder: checks and measures what
# the GPU of this machine makes of this tree, in order of worth. Each result is a line of JSON in the ledger (ledger.jsonl)
# as it comes; given a ledger, steps it has for this device and commit are passed over. A table at the end.
set -uo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$HERE" || exit 1
budget=3600 ledger=$HERE/ledger.jsonl again=0 only='' failures=0
while [ $# -gt 0 ]; do
    case $1 in
    --budget) budget=${2:?--budget SECONDS}; shift ;;
    --ledger) ledger=${2:?--ledger FILE}; shift ;;
    --only) only=${2:?--only PATTERN}; shift ;;
    --again) again=1 ;;
    *) echo "gpu --run: unknown option $1; known are --budget SECONDS, --ledger FILE, --only PATTERN, --again" >&2; exit 2 ;;
    esac
    shift
done
if ! [ -x bin/bench_gpu ]; then echo "gpu --run: this is no packed folder; make one with ./dev gpu --pack" >&2; exit 2; fi
commit=$(sed -n 's/^commit=//p' PACKED)
export TRIREME_COMMIT=$commit
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-gpu-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
left() { echo $((budget - SECONDS)); }

# --- the machine ---
missing() {
    ls /dev/nvidia[0-9]* >/dev/null 2>&1 || echo "  - no /dev/nvidia0: no NVIDIA GPU, or its kernel driver is not loaded, or it was not given to this container"
    (ldconfig -p 2>/dev/null; ls /usr/lib/*/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1 2>/dev/null) | grep -q 'libcuda.so.1' ||
        echo "  - no libcuda.so.1: the driver's library for programs (CUDA 13 wants driver 580 or later)"
}
probe=$(bin/bench_gpu probe 2>&1)
case $probe in
cuda\|* | emulated\|*) IFS='|' read -r kind device isa memory_gb <<<"$probe" ;;
*)
    echo "This machine has no GPU that Trireme can use: $probe"
    missing
    echo "Nothing was run. The folder is complete: bring it to a machine with an NVIDIA GPU (compute capability as in PACKED: $(sed -n 's/^arch=//p' PACKED))."
    exit 0
    ;;
esac
emulated=0
[ "$kind" != emulated ] || emulated=1
python=$(command -v python3 || true)
echo "device: $device ($isa, $memory_gb GB), commit $commit, $([ -n "$python" ] && "$python" --version || echo no python3), $budget s"

# --- the ledger ---
touch "$ledger" || exit 1
is_done() { [ $again = 0 ] && grep -F "\"step\":\"$1\"" "$ledger" | grep -F "\"kind\":\"step\"" | grep -F "\"commit\":\"$commit\"" | grep -F "\"device\":\"$device\"" | grep -qE '"status":"(passed|failed)"'; }
clean() { tr -d '\\"\r' | tr '\n\t' '  ' | tr -cd '[:print:]' | cut -c1-400; }
record() { # record STEP STATUS SECONDS NOTE
    printf '{"kind":"step","step":"%s","device":"%s","commit":"%s","time":"%s","isa":"%s","status":"%s","seconds":%s,"note":"%s"}\n' \
        "$1" "$device" "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$isa" "$2" "$3" "$(printf %s "$4" | clean)" >>"$ledger"
    printf '%-8s %-28s %5s s  %s\n' "$2" "$1" "$3" "$(printf %s "$4" | clean | cut -c1-110)"
}
# step NAME ESTIMATE COMMAND...: lines of JSON on its standard output go to the ledger, other lines to the log; its last line is the note.
step() {
    local name=$1 estimate=$2 began=$SECONDS rc=0 status=passed note
    shift 2
    case $name in *"$only"*) ;; *) return 0 ;; esac
    if is_done "$name"; then printf '%-8s %-28s          in the ledger\n' done "$name"; return 0; fi
    [ $emulated = 0 ] || estimate=$((estimate * 2))
    if [ "$(left)" -lt "$estimate" ]; then record "$name" later 0 "about $estimate s are needed, $(left) are left"; return 0; fi
    TRIREME_STEP=$name timeout -k 10 "$(($(left) > 5 ? $(left) : 5))" bash -c '"$@"' step "$@" >"$work/out" 2>"$work/err" </dev/null || rc=$?
    grep '^{"kind":"figure"' "$work/out" >>"$ledger" || true
    note=$(grep -hE '^(not ok|skip |emulator:|CUDA device failed|bench_gpu:|check failed|ERROR|=====.*(Invalid|Race|ERROR SUMMARY))' "$work/out" "$work/err" | head -3)
    [ -n "$note" ] || note=$(cat "$work/out" "$work/err" | grep -v '^{' | tail -1)
    case $rc in
    0) ! grep -q '^not ok' "$work/out" || status=failed ;;
    77) status=skipped ;;
    124 | 137) status=later note="the budget ended in the middle of it; $note" ;;
    *) status=failed note="exit code $rc; $note" ;;
    esac
    if [ $status = failed ]; then failures=$((failures + 1)); tail -25 "$work/err" >&2; fi
    record "$name" $status $((SECONDS - began)) "$note"
}

# --- what the steps do ---
kernel_test() { "bin/test_gpu_$1" ${2:+"$2"}; }
with_python() { if [ -z "$python" ]; then echo "no python3 on this machine"; return 77; fi; "$python" "$@"; }
end_to_end() { TRIREME_BIN=$HERE/bin/trireme TRIREME_GPU_SMALL=$emulated TRIREME_GPU_BENCH=$HERE/bin/bench_gpu with_python tests/e2e/run.py tests/e2e/test_gpu.py; }
sanitizer() { # sanitizer TOOL TEST [FILTER]
    local tool
    tool=$(command -v compute-sanitizer || ls "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" 2>/dev/null) || true
    if [ -z "$tool" ]; then echo "no compute-sanitizer on this machine"; return 77; fi
    if ! "$tool" --tool memcheck --target-processes all --error-exitcode 9 bin/bench_gpu probe >"$work/sanitizer" 2>&1; then echo "compute-sanitizer does not work here: $(tail -1 "$work/sanitizer")"; return 77; fi
    "$tool" --tool "$1" --target-processes all --error-exitcode 9 "bin/test_gpu_$2" ${3:+"$3"}
}
weights=${TRIREME_GPU_WEIGHTS:-$work}
model() { # model SHAPE WHAT; weights are made on the machine
    local free_kb need_kb=1000000
    case $1 in *8b) need_kb=17000000 ;; *1b) need_kb=3000000 ;; esac
    free_kb=$(df -Pk "$weights" | awk 'NR == 2 { print $4 }')
    if [ ! -e "$weights/$1/config.json" ] && [ "$free_kb" -lt $need_kb ]; then echo "$weights has no room for the weights: $free_kb KB"; return 77; fi
    bin/bench_gpu model "$1" "$weights/$1" "$2"
}
model_cublaslt() { # the same with prompt rows multiplied by the library
    export TRIREME_GEMM=cublaslt
    case $(bin/bench_gpu probe 2>&1) in *cuBLASLt*) echo "no cuBLASLt on this machine"; return 77 ;; esac
    model "$@"
}
served() { bin/bench_gpu weights "$1" "$weights/$1" && TRIREME_BIN=$HERE/bin/trireme with_python bench/gpu/served.py "$1" "$weights/$1" "$device"; }
peer() { with_python bench/gpu/peer_torch.py "$1" "$device"; }

export -f kernel_test with_python end_to_end sanitizer model model_cublaslt served peer
export HERE emulated python work weights device

# --- in order of worth ---
step ceilings 10 bin/bench_gpu ceilings
for test in rows linear attention sample model; do step "kernels.$test" 20 kernel_test $test; done
for file in bin/test_gpu_*; do
    test=${file#bin/test_gpu_}
    case $test in rows | linear | attention | sample | model) ;; *) step "model.$test" 20 kernel_test "$test" ;; esac
done
step e2e 40 end_to_end
if [ $emulated = 1 ]; then
    step bench.kernels 5 bin/bench_gpu kernels
    step bench.tiny.1k 10 model tiny 1,2@64
    step bench.tiny.prefill 10 model tiny prefill
    step bench.tiny.prefill.cublaslt 10 model_cublaslt tiny prefill
else
    for test in rows linear attention sample; do step "sanitizer.memcheck.$test" 60 sanitizer memcheck "$test"; done
    step bench.kernels 30 bin/bench_gpu kernels
    for shape in llama-3.2-1b qwen2.5-0.5b llama-3.1-8b; do step "bench.$shape.1k" 20 model $shape 1,8,32,64,128,256@1024; done
    for shape in llama-3.2-1b llama-3.1-8b; do step "bench.$shape.prefill" 20 model $shape prefill; done
    step bench.llama-3.1-8b.prefill.cublaslt 20 model_cublaslt llama-3.1-8b prefill
    for shape in llama-3.2-1b llama-3.1-8b; do step "served.$shape" 30 served $shape; done
    for shape in llama-3.2-1b qwen2.5-0.5b llama-3.1-8b; do step "bench.$shape.4k" 20 model $shape 1,8,32,64,128,256@4096; done
    for shape in llama-3.2-1b qwen2.5-0.5b llama-3.1-8b; do step "peer.$shape" 60 peer $shape; done
    for test in rows sample attention linear; do step "sanitizer.racecheck.$test" 90 sanitizer racecheck "$test"; done
fi
echo
awk -f tests/gpu/table.awk -v device="$device" -v commit="$commit" "$ledger"
[ $failures = 0 ]
