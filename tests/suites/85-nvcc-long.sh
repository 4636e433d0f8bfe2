#!/usr/bin/env bash
# timeout: 2400
# seconds: 300
# nvcc compiles the kernels for Hopper and, at each commit, one of the other targets without a warning, no kernel spills, and the hot loops of both are what they were. REGISTERS=1 writes build/gpu-registers.md, all kernels; docs/gpu-registers.md has the hot ones.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
if ! find_nvcc; then
    skip nvcc nvcc.compiles "no nvcc of CUDA 12.8 or later on the path, in CUDA_HOME or in /usr/local/cuda"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
compile() { # compile SOURCE, for $arch
    "$NVCC" -std=c++17 -O3 -arch="$arch" --Werror all-warnings -Xptxas -v -D_GNU_SOURCE=1 -Xcompiler=-Wall,-Wextra,-Wno-unused-parameter \
        -I"$ROOT" -c "$1" -o "$work/$(basename "$1" .cu).$arch.o" >"$work/$(basename "$1" .cu).$arch.log" 2>&1
}
# kernel | registers | bytes spilled, of one log of ptxas
table() {
    awk '/Compiling entry/ { name = $7; gsub(/\047/, "", name) }
         / spill stores/ { match($0, /[0-9]+ bytes spill stores/); spill = substr($0, RSTART, RLENGTH); sub(/ .*/, "", spill) }
         /Used [0-9]+ registers/ { match($0, /Used [0-9]+/); print name, substr($0, RSTART + 5, RLENGTH - 5), spill }' "$1" |
        sed -E 's/_GLOBAL__N__[a-z0-9_]*//' | c++filt
}
# The sampler's block has 64 registers a thread; on sm_86 and sm_89 its chain of rules, which few requests ask for, keeps 8 bytes elsewhere.
# On sm_100, whose Hopper kernels are empty, the sampler keeps 36 and one shape of the product of few rows 32; on sm_80, sm_86 and sm_89
# 64 rows by Q4_K keep 4, on sm_100 64 rows by int4 8. Experts of types with minima keep 32 with 64 rows,
# read five times a stage of 256 k, and int4 with 8 rows 16 on sm_120. On sm_100 and sm_120 prompts of head size 256 keep up to 132, and the sampler keeps 28 on sm_120: not looked at yet.
spills() { # those past what is said above, of one log: spills LOG ARCH
    table "$1" | awk -v arch="$2" '
        { allowed = 0 }
        arch ~ /sm_8[69]/ && /sample_kernel/ { allowed = 8 }
        arch ~ /sm_8/ && /linear_packed_mma_kernel<[23], 17, false, 64/ { allowed = 4 }
        arch == "sm_100" && /linear_packed_mma_kernel<3, 8, false, 64/ { allowed = 8 }
        /expert_packed_kernel<[23], (8|17), false, 64/ { allowed = 32 }
        arch == "sm_120" && /expert_packed_kernel<[23], 8, false, 8/ { allowed = 16 }
        arch ~ /sm_1[02]0/ && /attention_prompt_kernel<[23], [2346], 256, 32>/ { allowed = 132 }
        arch == "sm_120" && /sample_kernel/ { allowed = 28 }
        arch == "sm_100" && /sample_kernel/ { allowed = 36 }
        arch == "sm_100" && /linear_rows_kernel/ { allowed = 32 }
        $NF > allowed { printf "%s; ", $0 }'
}
others=$(drawn 5 sm_80 sm_86 sm_89 sm_100 sm_120)
[ "${REGISTERS:-0}" != 1 ] || others='sm_80 sm_86 sm_89 sm_120'
for arch in $others sm_90a; do
    wrong='' spills=''
    at_a_time 2 compile kernels/cuda/*.cu
    for source in kernels/cuda/*.cu; do
        log=$work/$(basename "$source" .cu).$arch.log
        [ -f "${log%.log}.o" ] || wrong="$wrong$source: $(grep -m1 -E 'error|warning' "$log"); "
        spills="$spills$(spills "$log" $arch)"
    done
    if [ -z "$wrong" ]; then ok "nvcc.compiles_$arch"; else not_ok "nvcc.compiles_$arch" "$wrong"; fi
    if [ -z "$spills" ]; then ok "nvcc.no_spills_$arch"; else not_ok "nvcc.no_spills_$arch" "kernel, registers, bytes: $spills"; fi
done
# The hot loops of GPUs that are no Hopper, with how many kernels of each file have one.
for arch in $others; do
    if ! need_cuobjdump; then
        skip cuobjdump "nvcc.machine_code_$arch" "no cuobjdump, and it cannot be fetched"
        continue
    fi
    wrong=''
    for file in linear=18 linear_packed_mma=54 expert_packed=54 expert_mma=16 attention_prompt=18 attention_decode=16 attention_decode_narrow=10 attention_decode_narrow_f16=10; do
        object=$work/${file%=*}.$arch.o
        [ ! -f "$object" ] || wrong="$wrong$(python3 tests/machine_code_mma.py "$CUOBJDUMP" "$object" "${file#*=}" 2>&1 | tr '\n' ';')"
    done
    if [ -z "$wrong" ]; then ok "nvcc.machine_code_$arch"; else not_ok "nvcc.machine_code_$arch" "$wrong"; fi
done
# Experts of 16 bits take the same loops on Hopper.
if [ -f "$work/expert_mma.sm_90a.o" ] && need_cuobjdump; then
    wrong=$(python3 tests/machine_code_mma.py "$CUOBJDUMP" "$work/expert_mma.sm_90a.o" 16 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_expert_mma; else not_ok nvcc.machine_code_expert_mma "$wrong"; fi
fi
# The small kernels between a layer's products: instructions in all.
small=("$work"/{route,rope,expert,expert_norm}.sm_90a.o)
if [ -f "${small[0]}" ] && [ -f "${small[1]}" ] && [ -f "${small[2]}" ] && [ -f "${small[3]}" ] && need_cuobjdump; then
    wrong=$(python3 tests/machine_code_small.py "$CUOBJDUMP" "${small[@]}" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_small; else not_ok nvcc.machine_code_small "$wrong"; fi
fi
# The hot loops of the product for Hopper: HGMMA, bulk copies, a budget of instructions (docs/gpu-registers.md).
if [ ! -f "$work/linear_hopper.sm_90a.o" ]; then
    not_ok nvcc.machine_code "linear_hopper.cu does not compile"
elif ! need_cuobjdump; then
    skip cuobjdump nvcc.machine_code "no cuobjdump, and it cannot be fetched"
else
    wrong=$(python3 tests/machine_code.py "$CUOBJDUMP" "$work/linear_hopper.sm_90a.o" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code; else not_ok nvcc.machine_code "$wrong"; fi
fi
# The same of the product with quantised weights.
if [ -f "$work/linear_packed.sm_90a.o" ] && [ -n "${CUOBJDUMP:-}" ]; then
    wrong=$(python3 tests/machine_code_packed.py "$CUOBJDUMP" "$work/linear_packed.sm_90a.o" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_packed; else not_ok nvcc.machine_code_packed "$wrong"; fi
fi
if [ -f "$work/expert_packed_hopper.sm_90a.o" ] && [ -n "${CUOBJDUMP:-}" ]; then
    wrong=$(python3 tests/machine_code_packed.py "$CUOBJDUMP" "$work/expert_packed_hopper.sm_90a.o" --experts 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_packed_experts; else not_ok nvcc.machine_code_packed_experts "$wrong"; fi
fi
if [ -f "$work/linear_packed_few.sm_90a.o" ] && [ -n "${CUOBJDUMP:-}" ]; then
    wrong=$(python3 tests/machine_code_packed.py "$CUOBJDUMP" "$work/linear_packed_few.sm_90a.o" --few 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_packed_few; else not_ok nvcc.machine_code_packed_few "$wrong"; fi
fi
# The same of the product with weights and activations in fp8.
if [ -f "$work/linear_fp8.sm_90a.o" ] && [ -n "${CUOBJDUMP:-}" ]; then
    wrong=$(python3 tests/machine_code_fp8.py "$CUOBJDUMP" "$work/linear_fp8.sm_90a.o" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_fp8; else not_ok nvcc.machine_code_fp8 "$wrong"; fi
fi
# The same of decode attention, with the number of kernels that each file is to have.
for file in attention_decode=16 attention_decode_narrow=10 attention_decode_narrow_f16=10; do
    object=$work/${file%=*}.sm_90a.o
    [ -f "$object" ] && [ -n "${CUOBJDUMP:-}" ] || continue
    wrong=$(python3 tests/machine_code_attention.py "$CUOBJDUMP" "$object" "${file#*=}" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok "nvcc.machine_code_${file%=*}"; else not_ok "nvcc.machine_code_${file%=*}" "$wrong"; fi
done
# The same of prompt attention.
for file in attention_prompt_hopper=6 attention_prompt_narrow=12; do
    object=$work/${file%=*}.sm_90a.o
    [ -f "$object" ] && [ -n "${CUOBJDUMP:-}" ] || continue
    wrong=$(python3 tests/machine_code_prompt.py "$CUOBJDUMP" "$object" "${file#*=}" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok "nvcc.machine_code_${file%=*}"; else not_ok "nvcc.machine_code_${file%=*}" "$wrong"; fi
done
# The same of sums over ranks with the norm behind them.
if [ -f "$work/peers_norm.sm_90a.o" ] && [ -n "${CUOBJDUMP:-}" ]; then
    wrong=$(python3 tests/machine_code_peers.py "$CUOBJDUMP" "$work/peers_norm.sm_90a.o" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok nvcc.machine_code_peers; else not_ok nvcc.machine_code_peers "$wrong"; fi
fi
# Products that give their sums to other ranks, with how many kernels of each file do.
for file in linear_hopper=10 linear_packed=72 linear_packed_few=8 linear_fp8=16; do
    object=$work/${file%=*}.sm_90a.o
    [ -f "$object" ] && [ -n "${CUOBJDUMP:-}" ] || continue
    wrong=$(python3 tests/machine_code_peers.py "$CUOBJDUMP" "$object" --products "${file#*=}" 2>&1 | tr '\n' ';')
    if [ -z "$wrong" ]; then ok "nvcc.machine_code_pushes_${file%=*}"; else not_ok "nvcc.machine_code_pushes_${file%=*}" "$wrong"; fi
done
if [ "${REGISTERS:-0}" = 1 ]; then
    {
        printf '# Registers and spills of the CUDA kernels\n\nAs ptxas reports them (%s); written by tests/suites/85-nvcc-long.sh.\n\n' \
            "$("$NVCC" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p')"
        printf '| kernel | target | registers | bytes spilled |\n| --- | --- | --- | --- |\n'
        for arch in sm_80 sm_90a; do
            for log in "$work"/*.$arch.log; do
                table "$log" | awk -v arch=$arch '{ n = NF; r = $(n - 1); s = $n; sub(/ [0-9]+ [0-9]+$/, ""); printf "| `%s` | %s | %s | %s |\n", $0, arch, r, s }'
            done
        done
    } >build/gpu-registers.md
fi
