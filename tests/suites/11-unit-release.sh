#!/usr/bin/env bash
# timeout: 600
# The same unit tests in the build that is shipped: other code is generated there. The emulated GPU is not shipped.
. "$(dirname "$0")/../lib.sh"
UNIT_EXCEPT='^test_emu_' run_units "$BUILD_RELEASE" release. "${UNIT_FILTER:-}"
