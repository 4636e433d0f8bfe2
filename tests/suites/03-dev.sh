#!/usr/bin/env bash
# What ./dev builds for the GPUs it finds; nvidia-smi and nvcc are stand-ins.
. "$(dirname "$0")/../lib.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$here/$1" && chmod +x "$here/$1"; }
expect() { # expect NAME WANTED [VARIABLE=VALUE...]: the CUDA_ARGS, without the compiler
    local name=$1 wanted=$2 got
    shift 2
    got=$(env PATH="$here:/usr/bin:/bin" "$@" bash -c 'set -euo pipefail; . "$0"; choose_cuda; printf "%s " "${CUDA_ARGS[@]/-DCMAKE_CUDA_COMPILER=*/compiler}"' "$ROOT/tests/lib.sh" 2>&1 | grep -v '^==')
    if [ "$(echo $got)" = "$wanted" ]; then ok "dev.$name"; else not_ok "dev.$name" "it is '$got', expected '$wanted'"; fi
}
tool nvcc 'echo "Cuda compilation tools, release 12.8, V12.8.61"'
expect cuda_without_a_gpu ''
expect cuda_when_asked '-DTRIREME_CUDA=ON compiler' TRIREME_CUDA=on
tool nvidia-smi 'printf "9.0\n8.6\n9.0\n7.5\n12.0\n"'
expect cuda_for_the_gpus_here '-DTRIREME_CUDA=ON compiler -DTRIREME_CUDA_ARCHITECTURES=86-real;90a-real;120-real'
expect cuda_refused '-DTRIREME_CUDA=OFF' TRIREME_CUDA=off
expect cuda_of_another_kind "dev: TRIREME_CUDA is 'maybe'; it may be on, off or auto" TRIREME_CUDA=maybe
tool nvidia-smi 'printf "7.5\n"'
expect cuda_for_old_gpus_alone ''
tool nvidia-smi 'echo "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."; exit 9'
expect cuda_without_a_driver ''
rm "$here/nvidia-smi"
for release in 11.8 12.4; do
    tool nvcc "echo 'Cuda compilation tools, release $release, V$release.1'"
    if (PATH="$here:/usr/bin:/bin" nvcc_will_do "$here/nvcc"); then not_ok dev.nvcc_$release "is taken"; else ok dev.nvcc_$release; fi
done
