TARGETS=sim
CLEAN='"$BUILD/bin/sim" --seeds 1..200 --jobs "$(nproc)"'
COMMAND='"$BUILD/bin/sim" --seeds 1..10000 --jobs "$(nproc)"'
