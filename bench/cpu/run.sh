#!/usr/bin/env bash
# Trireme beside llama.cpp on this machine's CPU: ./dev bench cpu [--peer SOURCE] [--shapes A,B] [--types A,B] [--rounds N]
# --quick: only see that our side runs, on the bundled model and without the peer.
# Builds the peer in build/peer: from SOURCE (a folder with llama.cpp), else from the source that npm's node-llama-cpp brings along.
# Models are random weights in real shapes, in build/peer/models; the report is bench/cpu/cpu_bench.py's.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/lib.sh
. "$ROOT/tests/lib.sh"
PEER=$ROOT/build/peer BIN=${BUILD_RELEASE:-$ROOT/build/release}/bin source='' quick=${TRIREME_BENCH_QUICK:-} rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --peer) source=$(cd "$2" && pwd) && shift 2 ;;
    --quick) quick=1 && shift ;;
    *) rest+=("$1") && shift ;;
    esac
done

fetch_source() { # the git bundle in the package, as a folder
    command -v git >/dev/null || need_packages git
    command -v npm >/dev/null || need_packages nodejs npm
    mkdir -p "$PEER/npm" && echo '{}' >"$PEER/npm/package.json"
    (cd "$PEER/npm" && npm install --ignore-scripts --no-audit --no-fund --omit=optional --loglevel=error node-llama-cpp@3 >&2 </dev/null)
    git clone -q "$PEER/npm/node_modules/node-llama-cpp/llama/gitRelease.bundle" "$PEER/source" >&2
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
if [ -z "$source" ]; then
    source=$PEER/source
    [ -f "$source/CMakeLists.txt" ] || fetch_source
fi
if [ ! -x "$PEER/llama/bin/llama-batched-bench" ]; then
    say "building the peer, with all that this machine has"
    cmake -S "$source" -B "$PEER/llama" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF >"$PEER/cmake.log"
    ninja -C "$PEER/llama" llama-bench llama-batched-bench llama-quantize >&2
fi
need_packages python3
exec python3 "$ROOT/bench/cpu/cpu_bench.py" --peer "$PEER/llama/bin" --models "$PEER/models" "${rest[@]}"
