#!/usr/bin/env bash
# beside: yes
# timeout: 1800
# long: yes
# seconds: 60
# The same unit tests in the build that is shipped: other code is generated there, most of all in the kernels. The long programs that 10-unit.sh
# leaves out at this commit, and one half of the others, drawn by the commit; with --long the rest.
. "$(dirname "$0")/../lib.sh"
left_out=$(long_units | grep -vxF "$(sanitized_units)")
# shellcheck disable=SC2046
now=$(printf '%s\n' $left_out $(drawn 2 $(short_units)))
[ "$LONG" = 0 ] || now=$(grep -vxF "$now" <<<"$(unit_programs)")
[ -z "${UNIT_FILTER:-}" ] || now=$(unit_programs)
# shellcheck disable=SC2086
must_build release.build release $now
# shellcheck disable=SC2046,SC2086
if [ -n "${UNIT_FILTER:-}" ]; then run_units "$BUILD_RELEASE" release. "$UNIT_FILTER"
elif [ -z "$now" ]; then ok 'release (nothing was left out)'
else run_programs "$BUILD_RELEASE" release. '' $(longest_first $now); fi
