#!/usr/bin/env bash
# Trireme beside llama.cpp on this machine's CPU: ./dev bench cpu [--peer SOURCE] [--shapes A,B] [--types A,B] [--models FILE,...] [--threads N] [--rounds N]
# --quick: only see that our side runs, on the bundled model and without the peer.
# The peer is the binaries that npm's node-llama-cpp brings for this kind of machine, or libraries built from SOURCE (a folder with
# llama.cpp); bench/cpu/peer.c asks them. All of it lies in build/peer, with the models: random weights in real shapes.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/lib.sh
. "$ROOT/tests/lib.sh"
# shellcheck source=bench/peer.sh
. "$ROOT/bench/peer.sh"
PEER=$ROOT/build/peer BIN=${BUILD_RELEASE:-$ROOT/build/release}/bin source='' quick=${TRIREME_BENCH_QUICK:-} rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --peer) source=$(cd "$2" && pwd) && shift 2 ;;
    --quick) quick=1 && shift ;;
    *) rest+=("$1") && shift ;;
    esac
done

build_peer() {
    libraries=$PEER/llama/bin
    if [ ! -e "$libraries/libllama.so" ]; then
        say "building the peer, with all that this machine has"
        cmake -S "$source" -B "$PEER/llama" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON \
            -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF >"$PEER/cmake.log"
        ninja -C "$PEER/llama" llama >&2
    fi
}
link_peer() { # PROGRAM
    "${CC:-cc}" -O2 -I "$source/include" -I "$source/ggml/include" "$ROOT/bench/cpu/peer.c" -L "$libraries" \
        "$(peer_library llama)" "$(peer_library ggml)" "$(peer_library ggml-base)" "-Wl,-rpath,$libraries" -o "$1"
}

if [ -n "$quick" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    "$BIN/trireme" quantize --model "$ROOT/demo/model" --out "$folder/model.gguf" --type q4_0 >/dev/null
    # One thread: others may be busy, and threads that wait for each other would take long.
    taskset -c "$(taskset -pc $$ | grep -oE '[0-9]+$')" "$BIN/bench_kernels" speeds "$folder/model.gguf"
    exit
fi
mkdir -p "$PEER"
if [ -n "$source" ]; then build_peer; else fetch_peer "$PEER"; fi
link_peer "$PEER/peer"
need_packages python3
exec python3 "$ROOT/bench/cpu/cpu_bench.py" --peer "$PEER/peer" --libraries "$libraries" --folder "$PEER/models" "${rest[@]}"
