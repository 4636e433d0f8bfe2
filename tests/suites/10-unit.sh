#!/usr/bin/env bash
# beside: yes
# timeout: 1800
# long: yes
# seconds: 300
# Unit tests under ASan and UBSan. Of the programs that take longest, one third drawn by the commit; with --long the other two, in their short form.
. "$(dirname "$0")/../lib.sh"
must_build unit.build dev
now=$(sanitized_units)
later=$(long_units | grep -vxF "$now")
# shellcheck disable=SC2046,SC2086
if [ -n "${UNIT_FILTER:-}" ]; then
    run_units "$BUILD_DEV" unit. "$UNIT_FILTER"
    if build release $(emulated_programs) >&2; then run_programs "$BUILD_RELEASE" emulated. "$UNIT_FILTER" $(emulated_programs)
    else not_ok emulated.build_tests "do not build"; fi
elif [ "$LONG" = 0 ]; then run_programs "$BUILD_DEV" unit. '' $now $(short_units)
elif [ -z "$later" ]; then ok 'unit.long (nothing was left out)'
else LONG=0 run_programs "$BUILD_DEV" unit. '' $later; fi
