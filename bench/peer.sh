# The peer of `cpu` and `server`, in build/peer: what npm's node-llama-cpp brings. Sourced, after tests/lib.sh. Sets
#   libraries   the folder with the peer's libraries for this kind of machine
#   source      the folder with the sources of the same version, from the git bundle in the package
# shellcheck shell=bash
# shellcheck disable=SC2034
fetch_peer() { # FOLDER
    local kind package=$1/npm/node_modules/node-llama-cpp
    case $(uname -m) in x86_64) kind=linux-x64 ;; aarch64) kind=linux-arm64 ;; *) die "npm has no peer for $(uname -m): use --peer SOURCE" ;; esac
    libraries=$1/npm/node_modules/@node-llama-cpp/$kind/bins/$kind source=$1/source
    [ -d "$libraries" ] && [ -d "$source/include" ] && return
    command -v git >/dev/null || need_packages git
    command -v npm >/dev/null || need_packages nodejs npm
    mkdir -p "$1/npm" && echo '{}' >"$1/npm/package.json"
    say "fetching the peer"
    (cd "$1/npm" && npm install --ignore-scripts --no-audit --no-fund --omit=optional --loglevel=error node-llama-cpp@3 "@node-llama-cpp/$kind@3" >&2 </dev/null)
    rm -rf "$source"
    git clone -q -c advice.detachedHead=false "$package/llama/gitRelease.bundle" "$source" >&2
}
# The linker's name for one of the libraries: those of npm carry a version.
peer_library() { # NAME
    echo "-l:$(basename "$(find "$libraries" -maxdepth 1 \( -name "lib$1.so" -o -name "lib$1.v*.so" \) | head -1)")"
}
