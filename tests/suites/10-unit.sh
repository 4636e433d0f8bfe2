#!/usr/bin/env bash
# timeout: 1200
# Unit tests under ASan and UBSan.
. "$(dirname "$0")/../lib.sh"
run_units "$BUILD_DEV" unit. "${UNIT_FILTER:-}"
