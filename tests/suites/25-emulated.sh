#!/usr/bin/env bash
# beside: yes
# timeout: 2400
# long: yes
# seconds: 600
# The emulated GPU: the product links none of it; its unit tests, of those that take longest one third; served by it. With LONG=1 the full
# sweep, a third of the programs at each commit, in an order drawn by it, as many as begin in time.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
must_build emulated.build release trireme
if nm -C "$BUILD_RELEASE/bin/trireme" | grep -qE ' emu(::|_)'; then
    not_ok emulated.not_in_the_product "bin/trireme has symbols of kernels/emu"
else
    ok emulated.not_in_the_product
fi
if [ "$LONG" = 0 ]; then # served by the emulated device: alone, together, in chunks, preempted, after kill -9
    # shellcheck disable=SC2046,SC2086
    programs=$(drawn 3 $EMULATED_LONGEST && printf '%s\n' $EMULATED_LONGEST | grep -vxFf - <(emulated_programs))
    # shellcheck disable=SC2086
    must_build emulated.build_served release trireme-emu bench_gpu_emulated $programs
    # shellcheck disable=SC2086
    run_programs "$BUILD_RELEASE" emulated. '' $programs
    export BUILD_RELEASE TRIREME_BIN=$BUILD_RELEASE/bin/trireme-emu TRIREME_GPU_BENCH=$BUILD_RELEASE/bin/bench_gpu_emulated TRIREME_GPU_SMALL=1
    cd tests/e2e && exec python3 run.py test_gpu.py
fi
[ "${TRIREME_TEST_ALL:-0}" = 1 ] || export RUN_SECONDS=${EMULATED_SECONDS:-240}
# shellcheck disable=SC2046
programs=$(drawn 3 $(emulated_programs))
# shellcheck disable=SC2086
must_build emulated.build_tests release $programs
# Every access of the kernels watched for races, on the short sweeps.
# shellcheck disable=SC2046
watched=$(lot $(drawn 2 test_race_rows test_race_sample test_race_linear test_race_packed test_race_fp8 test_race_state test_race_attention))
# shellcheck disable=SC2086
if build release $watched >&2; then
    LONG=0 RUN_SECONDS=${RUN_SECONDS:+120} run_programs "$BUILD_RELEASE" emulated. '' $watched
else
    not_ok emulated.build_watched "do not build"
fi
export LONG
# shellcheck disable=SC2046,SC2086
run_programs "$BUILD_RELEASE" emulated. '' $(lot $programs)
