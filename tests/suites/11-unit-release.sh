#!/usr/bin/env bash
# timeout: 600
# The same unit tests in the build that is shipped: other code is generated there.
. "$(dirname "$0")/../lib.sh"
run_units "$BUILD_RELEASE" release. "${UNIT_FILTER:-}"
