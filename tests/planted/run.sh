#!/usr/bin/env bash
# Proof that a category's tests can fail: each tests/planted/CATEGORY/*.patch plants one bug in a copy of the tree, and a test must fail by it:
# the one that the patch names ("caught-by: PROGRAM [TEST]"; that it succeeds without the bug the other suites show), or, where there is a
# CATEGORY/how.sh, the command that it sets: TARGETS (what to build), CLEAN (succeeds without a bug), COMMAND (must fail with each; in both
# $BUILD is the build folder). tests/planted/run.sh CATEGORY [PATCH...]; one verdict a patch.
. "$(dirname "$0")/../lib.sh"
category=${1:?usage: run.sh CATEGORY [PATCH...]}
here=$ROOT/tests/planted/$category
[ -d "$here" ] || die "there is no tests/planted/$category"
shift
[ $# -gt 0 ] || set -- "$here"/*.patch
tree=$ROOT/build/planted/tree BUILD=$ROOT/build/planted/build log=$ROOT/build/planted/log # of all categories: most is compiled once
failures=0
failed() { not_ok "$1" "$2"; failures=$((failures + 1)); }

rm -rf "$tree"
mkdir -p "$tree" "$BUILD"
(cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp -p --parents -t "$tree" 2>/dev/null)
# As old as they are in the checkout, files that once had a bug would not be compiled again.
(cd "$tree" && sed -n 's#^+++ b/\([^\t]*\).*#\1#p' "$ROOT"/tests/planted/*/*.patch | sort -u | xargs touch -c)
launcher=()
export CCACHE_BASEDIR=$ROOT/build/planted CCACHE_NOHASHDIR=1 # what was compiled for another checkout serves here
command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake --preset release -S "$tree" -B "$BUILD" -G Ninja "${launcher[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; not_ok "planted.$category" "cannot configure"; exit 1; }

# shellcheck disable=SC2086
build() { ninja -C "$BUILD" -j"$(nproc)" $TARGETS >"$log" 2>&1 </dev/null; }
run() { timeout -k 5 300 bash -c "$1" >"$log" 2>&1 </dev/null; }
export BUILD TRIREME_TEST_FIRST=1

if [ -f "$here/how.sh" ]; then
    . "$here/how.sh"
    if ! build; then tail -20 "$log" >&2; failed "planted.$category" "does not build without a bug"; exit 1; fi
    if ! run "$CLEAN"; then tail -20 "$log" >&2; failed "planted.$category" "fails without a bug"; exit 1; fi
fi
named_test() { # sets TARGETS and COMMAND
    local test
    [ ! -f "$here/how.sh" ] || return 0
    read -r TARGETS test < <(sed -n 's/^caught-by: *//p' "$1")
    COMMAND="$BUILD/bin/$TARGETS $test"
}
# A bug that a test meets only with some seeds fails the day that another seed is drawn: PLANTED_SEEDS=N runs each with N seeds, and all must notice.
again() { # again COMMAND: fails if the command succeeds with one of the further seeds
    local i
    for ((i = 1; i < ${PLANTED_SEEDS:-1}; i++)); do ! run "$1" || return 1; done
}
# With PLANTED_SECONDS only as many as fit into that time, in an order drawn by the commit, so that every one has its turn sooner or later.
[ "${TRIREME_TEST_ALL:-0}" != 1 ] || PLANTED_SECONDS=
mapfile -t order < <(if [ -n "${PLANTED_SECONDS:-}" ]; then lot "$@"; else printf '%s\n' "$@"; fi)
began=$SECONDS tried=0
for patch in "${order[@]}"; do
    [ -z "${PLANTED_SECONDS:-}" ] || [ $((SECONDS - began)) -lt "$PLANTED_SECONDS" ] || break
    tried=$((tried + 1))
    name=planted.$category.$(basename "$patch" .patch)
    if ! patch -s -d "$tree" -p1 --dry-run <"$patch" >"$log" 2>&1; then failed "$name" "the patch does not apply any more"; continue; fi
    patch -s -d "$tree" -p1 <"$patch"
    named_test "$patch"
    if ! build; then
        grep -m3 -E 'error|FAILED' "$log" >&2
        failed "$name" "does not compile"
    elif run "$COMMAND"; then failed "$name" "nobody noticed"
    elif [ $? = 124 ]; then ok "$name (did not end in 300 s)" # nothing says whether by the bug: look at one that never did before
    elif ! again "$COMMAND"; then failed "$name" "not noticed with every seed"
    else ok "$name ($(grep -m1 -E '^(violated|check failed|not ok)' "$log" | cut -c1-120))"; fi
    patch -s -R -d "$tree" -p1 <"$patch"
done
[ $tried = ${#order[@]} ] || say "$category: $tried of ${#order[@]} bugs tried in $PLANTED_SECONDS s; tests/planted/run.sh $category tries all"
exit $((failures > 0))
