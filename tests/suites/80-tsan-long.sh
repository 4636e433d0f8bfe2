#!/usr/bin/env bash
# timeout: 1500
# Unit tests under TSan. Without the emulated GPU's: they run on one thread, on stacks that TSan does not know, and take it an hour.
. "$(dirname "$0")/../lib.sh"
if ! build tsan; then
    not_ok tsan.build "does not build"
    exit 1
fi
UNIT_EXCEPT='^test_emu_' run_units "$BUILD_TSAN" tsan. "${UNIT_FILTER:-}"
