#!/usr/bin/env bash
# timeout: 600
# seconds: 110
# Twenty bugs drawn at random by the commit, as many as fit into the time. Those that no unit test noticed are printed: a test is missing,
# or the change makes no difference. It fails where nearly none is noticed, for then the tests did not run against the bugs; the share
# itself is followed by ./dev mutants, over more bugs than fit in here.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
least=20 # percent
out=$(mktemp)
trap 'rm -f "$out"' EXIT
python3 tests/tools/mutants.py 20 --seed "$(drawn_by)" --seconds "${MUTANTS_SECONDS:-100}" --each 20 --suites --least $least --build "$BUILD_RELEASE" --sanitized "$BUILD_DEV" >"$out" 2>&1 </dev/null
rc=$?
cat "$out" >&2
tally=$(grep -m1 ' noticed; ' "$out" || tail -1 "$out")
tried=$(sed -n 's/^[0-9]* of \([0-9]*\) noticed; .*/\1/p' "$out")
if [ -n "$tried" ] && [ "$tried" -lt 5 ]; then skip time mutants "$tally"
elif [ $rc = 0 ]; then ok "mutants ($tally)"; else not_ok mutants "$tally; at least $least % must be noticed"; fi
