#!/usr/bin/env bash
# timeout: 1500
# seconds: 400
# The emulated GPU's unit tests in their short form with UBSan's checks of the kernels (alignment of vectors, shifts, bounds), in an order drawn
# by the commit, as many as begin in time.
. "$(dirname "$0")/../lib.sh"
# shellcheck disable=SC2046
programs=$(lot $(emulated_programs))
# shellcheck disable=SC2086
must_build checked.build dev $programs
[ "${TRIREME_TEST_ALL:-0}" = 1 ] || export RUN_SECONDS=150
# shellcheck disable=SC2086
LONG=0 run_programs "$BUILD_DEV" checked. '' $programs
