TARGETS='sim test_scheduler_core_ranks test_worker_comm test_worker_ranks test_model_shard'
TESTS='"$BUILD/bin/test_scheduler_core_ranks" && "$BUILD/bin/test_model_shard" && "$BUILD/bin/test_worker_comm" && timeout 120 "$BUILD/bin/test_worker_ranks"'
CLEAN="$TESTS"' && "$BUILD/bin/sim" --seeds 1..200 --jobs "$(nproc)"'
COMMAND="$CLEAN"
