#!/usr/bin/env bash
# timeout: 600
# long: yes
# seconds: 60
# The same unit tests in the build that is shipped: other code is generated there, most of all in the kernels. One half of the programs, drawn by
# the commit; with --long the other half. The emulated GPU is not shipped.
. "$(dirname "$0")/../lib.sh"
UNIT_EXCEPT='^test_emu_'
all=$(unit_programs)
# shellcheck disable=SC2086
now=$(drawn 2 $all)
[ "$LONG" = 0 ] || now=$(grep -vxF "$now" <<<"$all")
# shellcheck disable=SC2046,SC2086
if [ -n "${UNIT_FILTER:-}" ]; then run_units "$BUILD_RELEASE" release. "$UNIT_FILTER"
elif [ -z "$now" ]; then ok 'release (nothing was left out)'
else run_programs "$BUILD_RELEASE" release. '' $(longest_first $now); fi
