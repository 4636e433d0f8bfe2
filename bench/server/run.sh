#!/usr/bin/env bash
# Trireme's server beside llama-server on this machine's CPU: ./dev bench server [--peer SOURCE | --llama-server PROGRAM]
# [--shape qwen2.5-0.5b|llama-3.2-1b | --model FILE] [--clients 1,8,32] [--rounds N] [--requests N] [--prompt N] [--answer N] [--limit S] [--threads N] [--port N] [-- OPTIONS of trireme serve]
# --quick: only see that our side runs, on the bundled model and without the peer.
# The peer is npm's node-llama-cpp: its libraries for this kind of machine, and the server from the same version's source, linked with them. Or
# all of it is built from SOURCE (a folder with llama.cpp), or is there already (PROGRAM). All of it lies in build/peer, with the model: random weights in the shape, Q4_0.
set -euo pipefail
ROOT=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=tests/lib.sh
. "$ROOT/tests/lib.sh"
# shellcheck source=bench/peer.sh
. "$ROOT/bench/peer.sh"
PEER=$ROOT/build/peer BIN=${BUILD_RELEASE:-$ROOT/build/release}/bin source='' program='' model='' shape=qwen2.5-0.5b quick=${TRIREME_BENCH_QUICK:-} rest=()
while [ $# -gt 0 ]; do
    case $1 in
    --peer) source=$(cd "$2" && pwd) && shift 2 ;;
    --llama-server) program=$(realpath "$2") && shift 2 ;;
    --model) model=$(realpath "$2") && shift 2 ;;
    --shape) shape=$2 && shift 2 ;;
    --quick) quick=1 && shift ;;
    *) rest+=("$1") && shift ;;
    esac
done

# The server alone, beside the libraries, where it looks for them. What it asks about images is answered with nothing.
link_server() {
    program=$PEER/server/bin/llama-server
    [ ! -x "$program" ] || return 0
    local folder=$PEER/server objects=()
    say "building llama-server; this takes minutes"
    cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF >"$folder.log"
    # Objects by name: the libraries would bring all of the peer with them.
    mapfile -t objects < <(ninja -C "$folder" -t targets all | grep -oE '^(tools/server|vendor/cpp-httplib)/CMakeFiles/.*\.o')
    ninja -C "$folder" "${objects[@]}" llama-ui llama-common-base >&2
    mkdir -p "$folder/bin"
    ln -sf "$libraries"/*.so "$folder/bin"
    objects=("${objects[@]/#/$folder/}")
    nm -uP "${objects[@]}" | sort -u | awk '$1 ~ /mtmd/ { print ".weak " $1 "; " $1 ": xor %eax, %eax; ret" } END { print ".section .note.GNU-stack" }' >"$folder/images.s"
    "${CXX:-c++}" -o "$program" -Wl,-rpath,"\$ORIGIN" "${objects[@]}" "$folder/images.s" "$folder"/tools/ui/lib*.a -L "$libraries" \
        "$(peer_library llama-common)" "$(peer_library llama)" "$(peer_library ggml)" "$(peer_library ggml-base)" \
        "$folder"/common/libllama-common-base.a -lpthread
}
build_server() {
    program=$PEER/llama-server/bin/llama-server
    [ ! -x "$program" ] || return 0
    say "building the peer, with all that this machine has; this takes long"
    cmake -S "$source" -B "$PEER/llama-server" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_UI=OFF >"$PEER/cmake-server.log"
    ninja -C "$PEER/llama-server" llama-server >&2
}
make_model() {
    local folder=$PEER/models/$shape data=${TRIREME_SHARED:-$ROOT/../shared/data}/tokenizers
    model=$folder.Q4_0.server.gguf
    [ ! -e "$model" ] || return 0
    case $shape in # whose vocabulary has as many tokens
    qwen2.5-0.5b) data=$data/qwen2.5 ;;
    llama-3.2-1b) data=$data/llama3 ;;
    *) die "no vocabulary for the shape $shape: qwen2.5-0.5b and llama-3.2-1b have one" ;;
    esac
    [ -e "$data/tokenizer.derived.json" ] || die "the shared data is not here: give a model with --model"
    mkdir -p "$folder"
    "$BIN/bench_kernels" write "$shape" "$folder"
    cp "$data/tokenizer.derived.json" "$folder/tokenizer.json"
    if [ -e "$data/tokenizer_config.json" ]; then cp "$data/tokenizer_config.json" "$folder"; fi
    "$BIN/trireme" quantize --model "$folder" --out "$folder.part.gguf" --type q4_0 >/dev/null
    mv "$folder.part.gguf" "$model"
}

need_packages python3
if [ -n "$quick" ]; then
    exec python3 "$ROOT/bench/server/server_bench.py" --model "$ROOT/demo/model" --clients 2 --rounds 1 --requests 4 --idle 0.2 "${rest[@]}"
fi
mkdir -p "$PEER"
if [ -z "$program" ]; then
    if [ -n "$source" ]; then build_server; else fetch_peer "$PEER" && link_server; fi
fi
[ -n "$model" ] || make_model
exec python3 "$ROOT/bench/server/server_bench.py" --llama-server "$program" --model "$model" "${rest[@]}"
