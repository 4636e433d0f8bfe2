#!/usr/bin/env bash
# timeout: 1500
# Unit tests under TSan.
. "$(dirname "$0")/../lib.sh"
if ! build tsan; then
    not_ok tsan.build "does not build"
    exit 1
fi
run_units "$BUILD_TSAN" tsan. "${UNIT_FILTER:-}"
