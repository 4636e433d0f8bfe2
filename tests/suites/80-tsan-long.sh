#!/usr/bin/env bash
# timeout: 1500
# seconds: 510
# Unit tests under TSan, a third of them at each commit. Without the emulated GPU's: they run on one thread, on stacks that TSan does not know, and take it an hour.
. "$(dirname "$0")/../lib.sh"
export TSAN_OPTIONS="die_after_fork=0 ${TSAN_OPTIONS:-}" # some tests fork with ZeroMQ's threads running, as a user's program may
# shellcheck disable=SC2046
programs=$(drawn 3 $(unit_programs))
# shellcheck disable=SC2086
must_build tsan.build tsan $programs
# shellcheck disable=SC2086
run_programs "$BUILD_TSAN" tsan. "${UNIT_FILTER:-}" $programs
