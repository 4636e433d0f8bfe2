#!/usr/bin/env bash
# timeout: 1200
# long: yes
# seconds: 200
# Unit tests under ASan and UBSan. Of the emulated GPU's, which take longest, one half drawn by the commit; with --long the other half.
. "$(dirname "$0")/../lib.sh"
# shellcheck disable=SC2046
now=$(drawn 2 $(unit_programs | grep '^test_emu_'))
later=$(unit_programs | grep '^test_emu_' | grep -vxF "$now")
if [ -n "${UNIT_FILTER:-}" ]; then run_units "$BUILD_DEV" unit. "$UNIT_FILTER"
elif [ "$LONG" = 0 ]; then UNIT_EXCEPT="^($(paste -sd'|' <<<"$later"))\$" run_units "$BUILD_DEV" unit.
elif [ -z "$later" ]; then ok 'unit.emulated (nothing was left out)'
# shellcheck disable=SC2086
else run_programs "$BUILD_DEV" unit. '' $later; fi
