#!/usr/bin/env bash
# timeout: 900
# Unit tests under ASan and UBSan.
. "$(dirname "$0")/../lib.sh"
run_units "$BUILD_DEV" unit. "${UNIT_FILTER:-}"
