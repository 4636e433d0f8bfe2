#!/usr/bin/env bash
# Proof that a category's tests can fail: each tests/planted/CATEGORY/*.patch plants one bug in a copy of the tree, and the
# category's command must fail by it. tests/planted/run.sh CATEGORY [PATCH...]; one verdict a patch.
# CATEGORY/how.sh sets TARGETS (what to build), CLEAN (a command that succeeds without a bug) and COMMAND (that must fail with
# each); in all three $BUILD is the build folder, in COMMAND and, where TARGETS is set by a function choose_targets, there too,
# $PATCH the patch's file. Then nothing is built before the first patch.
. "$(dirname "$0")/../lib.sh"
category=${1:?usage: run.sh CATEGORY [PATCH...]}
here=$ROOT/tests/planted/$category
[ -f "$here/how.sh" ] || die "there is no tests/planted/$category/how.sh"
shift
[ $# -gt 0 ] || set -- "$here"/*.patch
tree=$ROOT/build/planted/$category/tree BUILD=$ROOT/build/planted/$category/build log=$ROOT/build/planted/$category/log
failures=0
failed() { not_ok "$1" "$2"; failures=$((failures + 1)); }

rm -rf "$tree"
mkdir -p "$tree" "$BUILD"
(cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$tree" 2>/dev/null)
launcher=()
export CCACHE_BASEDIR=$ROOT/build/planted/$category CCACHE_NOHASHDIR=1 # what was compiled for another checkout serves here
command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --preset release -S "$tree" -B "$BUILD" -G Ninja "${launcher[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; not_ok "planted.$category" "cannot configure"; exit 1; }
. "$here/how.sh"

# shellcheck disable=SC2086
build() { ninja -C "$BUILD" -j"$(nproc)" $TARGETS >"$log" 2>&1 </dev/null; }
run() { timeout -k 5 900 bash -c "$1" >"$log" 2>&1 </dev/null; }
export BUILD TRIREME_TEST_FIRST=1

if ! declare -F choose_targets >/dev/null && ! build; then tail -20 "$log" >&2; failed "planted.$category" "does not build without a bug"; exit 1; fi
if ! run "$CLEAN"; then tail -20 "$log" >&2; failed "planted.$category" "fails without a bug"; exit 1; fi
# With PLANTED_SECONDS only as many as fit into that time, drawn by lot, so that every one has its turn sooner or later.
mapfile -t order < <(if [ -n "${PLANTED_SECONDS:-}" ]; then printf '%s\n' "$@" | shuf; else printf '%s\n' "$@"; fi)
began=$SECONDS tried=0
for patch in "${order[@]}"; do
    [ -z "${PLANTED_SECONDS:-}" ] || [ $((SECONDS - began)) -lt "$PLANTED_SECONDS" ] || break
    tried=$((tried + 1))
    name=planted.$category.$(basename "$patch" .patch)
    if ! patch -s -d "$tree" -p1 --dry-run <"$patch" >"$log" 2>&1; then failed "$name" "the patch does not apply any more"; continue; fi
    patch -s -d "$tree" -p1 <"$patch"
    export PATCH=$patch
    ! declare -F choose_targets >/dev/null || choose_targets
    if ! build; then
        grep -m3 -E 'error|FAILED' "$log" >&2
        failed "$name" "does not compile"
    elif run "$COMMAND"; then failed "$name" "nobody noticed"
    else ok "$name ($(grep -m1 -E '^(violated|check failed|not ok)' "$log" | cut -c1-120))"; fi
    patch -s -R -d "$tree" -p1 <"$patch"
done
[ $tried = ${#order[@]} ] || say "$category: $tried of ${#order[@]} bugs tried in $PLANTED_SECONDS s; tests/planted/run.sh $category tries all"
exit $((failures > 0))
