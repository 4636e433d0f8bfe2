#!/usr/bin/env bash
# Proof that the gateway's tests can fail: each patch here plants one bug in a copy of the tree, and the test named in its first line must
# fail by it (and pass without). tests/planted/gateway/run.sh [PATCH...]; one verdict a patch.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
[ $# -gt 0 ] || set -- "$here"/*.patch

mkdir "$work/tree"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$work/tree" 2>/dev/null)
launcher=$(command -v ccache) && launcher="-DCMAKE_C_COMPILER_LAUNCHER=$launcher"
cmake --preset release -S "$work/tree" -B "$work/build" -G Ninja ${launcher:-} >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

build() { ninja -C "$work/build" "$1" >"$work/log" 2>&1; }
passes() { timeout 120 "$work/build/bin/$1" "$2" 2>/dev/null | grep -qx "ok $2"; }

for patch in "$@"; do
    name=$(basename "$patch" .patch)
    read -r _ program test <"$patch" # "caught-by: PROGRAM TEST"
    if ! build "$program" || ! passes "$program" "$test"; then
        echo "not ok planted.gateway.$name: $program $test does not pass without it"
        failures=$((failures + 1))
        continue
    fi
    if ! patch -s -d "$work/tree" -p1 <"$patch"; then
        echo "not ok planted.gateway.$name: the patch does not apply any more"
        failures=$((failures + 1))
        continue
    fi
    if ! build "$program"; then
        echo "not ok planted.gateway.$name: does not compile"; tail -3 "$work/log"
        failures=$((failures + 1))
    elif passes "$program" "$test"; then
        echo "not ok planted.gateway.$name: $test did not notice"
        failures=$((failures + 1))
    else
        echo "ok planted.gateway.$name"
    fi
    patch -s -R -d "$work/tree" -p1 <"$patch"
done
exit $((failures > 0))
