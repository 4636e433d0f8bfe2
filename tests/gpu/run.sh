#!/usr/bin/env bash
# ./dev gpu --run [--budget S] [--limit S] [--ledger FILE] [--only NAMES] [--again] [--list], in a packed folder: checks and measures
# what the GPU of this machine makes of this tree. One call takes at most --budget seconds (600 unless told otherwise), and a
# step at most its own limit, so that one that hangs costs that much and no more. Call it again for what is left: each result
# is a line of JSON in the ledger (ledger.jsonl) as it comes, and steps that passed for this device and commit are passed over.
# A step that failed is tried again when --only names it. --only: names or beginnings of names, divided by commas. --limit: no
# step takes longer. What one step leaves for the next call, above all weights, lies in $TRIREME_GPU_WEIGHTS.
# Order: what decides whether the rest means anything comes first. Exit status: 0 unless a step of this call failed.
set -uo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$HERE" || exit 1
budget=600 limit_max=600 ledger=$HERE/ledger.jsonl again=0 only='' list=0 failures=0 left_over=''
while [ $# -gt 0 ]; do
    case $1 in
    --budget) budget=${2:?--budget SECONDS}; shift ;;
    --limit) limit_max=${2:?--limit SECONDS}; shift ;;
    --ledger) ledger=${2:?--ledger FILE}; shift ;;
    --only) only=${2:?--only NAMES}; shift ;;
    --again) again=1 ;;
    --list) list=1 ;;
    *) echo "gpu --run: unknown option $1; known are --budget SECONDS, --limit SECONDS, --ledger FILE, --only NAMES, --again, --list" >&2; exit 2 ;;
    esac
    shift
done
if ! [ -x bin/bench_gpu ]; then echo "gpu --run: this is no packed folder; make one with ./dev gpu --pack" >&2; exit 2; fi
commit=$(sed -n 's/^commit=//p' PACKED)
export TRIREME_COMMIT=$commit
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-gpu-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
left() { echo $((budget - SECONDS)); }

# --- libraries that come as Python packages: cuBLASLt and NCCL of any Python environment here ---
python_with() { # python_with MODULE: the first Python here that has it
    local candidate
    for candidate in "${VIRTUAL_ENV:+$VIRTUAL_ENV/bin/python3}" "${CONDA_PREFIX:+$CONDA_PREFIX/bin/python3}" \
        "$(command -v python3)" /opt/*/bin/python3 /opt/*/*/bin/python3 /venv/bin/python3 /usr/local/bin/python3 /usr/bin/python3; do
        [ -x "$candidate" ] && timeout 60 "$candidate" -c "import $1" 2>/dev/null && { echo "$candidate"; return 0; }
    done
    return 1
}
nvidia_folders() { # where the packages nvidia-cublas and nvidia-nccl of a Python keep their libraries
    "$1" -c 'import glob, site, sys
folders = site.getsitepackages() + [site.getusersitepackages()] + [p for p in sys.path if p.endswith("-packages")]
for f in dict.fromkeys(folders):
    for lib in sorted(glob.glob(f + "/nvidia/*/lib")):
        if glob.glob(lib + "/libcublasLt.so.*") or glob.glob(lib + "/libnccl.so.*"): print(lib)' 2>/dev/null
}
python=$(python_with torch || python_with json || true)
if [ -n "$python" ]; then
    for folder in $(nvidia_folders "$python"); do export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"; done
fi

# --- the machine ---
missing() {
    ls /dev/nvidia[0-9]* >/dev/null 2>&1 || echo "  - no /dev/nvidia0: no NVIDIA GPU, or its kernel driver is not loaded, or it was not given to this container"
    (ldconfig -p 2>/dev/null; ls /usr/lib/*/libcuda.so.1 /usr/local/nvidia/lib64/libcuda.so.1 2>/dev/null) | grep -q 'libcuda.so.1' ||
        echo "  - no libcuda.so.1: the driver's library for programs (CUDA 13 wants driver 580 or later)"
}
probe=$(timeout -k 5 120 bin/bench_gpu probe 2>&1)
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
echo "device: $device ($isa, $memory_gb GB), commit $commit, $([ -n "$python" ] && "$python" --version || echo no python3), $budget s"

# --- the ledger ---
touch "$ledger" || exit 1
has() { # has STEP STATUSES: it has a line of the step for this device and commit
    grep -F "\"step\":\"$1\"" "$ledger" | grep -F '"kind":"step"' | grep -F "\"commit\":\"$commit\"" | grep -F "\"device\":\"$device\"" | grep -qE "\"status\":\"($2)\""
}
is_done() { # a failed step is done unless it is asked for by name
    [ $again = 0 ] || return 1
    if [ -n "$only" ]; then has "$1" passed; else has "$1" 'passed|failed'; fi
}
wanted() {
    local name IFS=,
    [ -n "$only" ] || return 0
    for name in $only; do case $1 in "$name"*) return 0 ;; esac; done
    return 1
}
clean() { tr -d '\\"\r' | tr '\n\t' '  ' | tr -cd '[:print:]' | cut -c1-400; }
record() { # record STEP STATUS SECONDS NOTE
    printf '{"kind":"step","step":"%s","device":"%s","commit":"%s","time":"%s","isa":"%s","status":"%s","seconds":%s,"note":"%s"}\n' \
        "$1" "$device" "$commit" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$isa" "$2" "$3" "$(printf %s "$4" | clean)" >>"$ledger"
    printf '%-8s %-28s %5s s  %s\n' "$2" "$1" "$3" "$(printf %s "$4" | clean | cut -c1-110)"
}
kept=0
keep_figures() { # the lines of $work/out that came since it was last asked: figures go to the ledger
    local lines
    lines=$(wc -l <"$work/out")
    [ "$lines" -gt "$kept" ] || return 0
    sed -n "$((kept + 1)),${lines}p" "$work/out" | grep '^{"kind":"figure"' >>"$ledger"
    kept=$lines
}
# step NAME NEEDS LIMIT COMMAND...: begun where NEEDS seconds are left, ended after LIMIT seconds. Lines of JSON on its standard
# output go to the ledger, other lines to the log; its last line is the note.
step() {
    local name=$1 needs=$2 limit=$3 began=$SECONDS rc=0 status=passed note
    shift 3
    wanted "$name" || return 0
    if [ $list = 1 ]; then printf '%-28s needs %4s s, ends after %4s s\n' "$name" "$needs" "$limit"; return 0; fi
    if is_done "$name"; then printf '%-8s %-28s          in the ledger\n' done "$name"; return 0; fi
    if [ $emulated = 1 ]; then needs=$((needs * 2)) limit=$((limit * 10)); fi
    if [ "$(left)" -lt "$needs" ]; then
        left_over="$left_over $name"
        record "$name" later 0 "about $needs s are needed, $(left) are left"
        return 0
    fi
    [ "$limit_max" -ge "$limit" ] || limit=$limit_max
    [ "$(left)" -ge "$limit" ] || limit=$(left)
    kept=0
    : >"$work/out" # or the lines of the step before count as this one's, until it has begun
    TRIREME_STEP=$name timeout -k 5 "$limit" bash -c '"$@"' step "$@" >"$work/out" 2>"$work/err" </dev/null &
    while kill -0 $! 2>/dev/null; do keep_figures; sleep 0.2; done
    wait $! || rc=$?
    keep_figures
    note=$(grep -hE '^(not ok|skip |emulator:|CUDA device failed|bench_gpu:|check failed|ERROR|=====.*(Invalid|Race|ERROR SUMMARY))' "$work/out" "$work/err" | head -3)
    [ -n "$note" ] || note=$(cat "$work/out" "$work/err" | grep -v '^{' | tail -1)
    case $rc in
    0) ! grep -q '^not ok' "$work/out" || status=failed ;;
    77) status=skipped ;;
    124 | 137)
        if [ "$(left)" -le 0 ]; then status=later note="the budget ended in the middle of it; $note"
        else status=failed note="not over after $limit s; $note"; fi
        ;;
    *) status=failed note="exit code $rc; $note" ;;
    esac
    [ $status != later ] || left_over="$left_over $name"
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
# Kept from call to call.
weights=${TRIREME_GPU_WEIGHTS:-${TMPDIR:-/tmp}/trireme-gpu-weights}
mkdir -p "$weights" || exit 1
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
model_mma() { TRIREME_PROMPT_ATTENTION=mma model "$@"; } # the same with prompts that attend as on older GPUs
served() { bin/bench_gpu weights "$1" "$weights/$1" && TRIREME_BIN=$HERE/bin/trireme with_python bench/gpu/served.py "$1" "$weights/$1" "$device"; }
peer() { with_python bench/gpu/peer_torch.py "$1" "$device"; }

export -f kernel_test with_python end_to_end sanitizer model model_cublaslt model_mma served peer
export HERE emulated python work weights device

# --- right: without this, no figure means anything ---
quantized=packed # weights in units: test_packed asks for a Hopper GPU, on others test_packed_mma has what there is
case $isa in sm_90*) ;; *) quantized='packed packed_mma' ;; esac
right="rows linear $quantized expert_packed expert_mma fp8 attention sample model step"
for test in $right; do step "kernels.$test" 20 60 kernel_test "$test"; done
step e2e 40 120 end_to_end
# --- fast: the figures that decide what to mend first ---
step ceilings 10 30 bin/bench_gpu ceilings
if [ $emulated = 1 ]; then
    step bench.kernels 5 60 bin/bench_gpu kernels
    step bench.tiny.1k 10 60 model tiny 1,2@64
    step bench.tiny.prefill 10 60 model tiny prefill
    step bench.tiny.prefill.cublaslt 10 60 model_cublaslt tiny prefill
else
    step bench.llama-3.1-8b.1k 60 190 model llama-3.1-8b 1,8,32,64,128,256@1024
    step bench.llama-3.1-8b.prefill 40 100 model llama-3.1-8b prefill
    step bench.llama-3.1-8b.prefill.cublaslt 40 100 model_cublaslt llama-3.1-8b prefill
    step bench.kernels 30 90 bin/bench_gpu kernels
    step served.llama-3.1-8b 40 120 served llama-3.1-8b
    step bench.mma.prefill 40 100 model_mma llama-3.1-8b prefill
fi
# --- safe, and beside peers ---
if [ $emulated = 0 ]; then
    for test in attention linear rows sample; do step "sanitizer.memcheck.$test" 60 90 sanitizer memcheck "$test"; done
    step sanitizer.racecheck.attention 90 120 sanitizer racecheck attention
    step peer.llama-3.1-8b 60 120 peer llama-3.1-8b
fi
# --- the rest ---
for file in bin/test_gpu_*; do
    test=${file#bin/test_gpu_}
    case " $right " in *" $test "*) ;; *) step "model.$test" 20 90 kernel_test "$test" ;; esac
done
if [ $emulated = 0 ]; then
    for shape in llama-3.2-1b qwen2.5-0.5b; do step "bench.$shape.1k" 20 80 model $shape 1,8,32,64,128,256@1024; done
    step bench.llama-3.2-1b.prefill 20 60 model llama-3.2-1b prefill
    step served.llama-3.2-1b 30 90 served llama-3.2-1b
    for shape in llama-3.1-8b llama-3.2-1b qwen2.5-0.5b; do step "bench.$shape.4k" 40 190 model $shape 1,8,32,64,128,256@4096; done
    for shape in llama-3.2-1b qwen2.5-0.5b; do step "peer.$shape" 60 120 peer $shape; done
    for test in rows sample linear; do step "sanitizer.racecheck.$test" 90 150 sanitizer racecheck "$test"; done
fi
[ $list = 0 ] || exit 0
echo
awk -f tests/gpu/table.awk -v device="$device" -v commit="$commit" "$ledger"
[ -z "$left_over" ] || printf '\nCall it again for what had no time:%s\n' "$left_over"
[ $failures = 0 ]
