# Sourced by tests/planted/run.sh: how a bug in the CUDA kernels, or in what records their graphs, is to be noticed, on the emulator.
TARGETS="test_emu_rows test_emu_linear test_emu_emulator test_emu_sample test_emu_attention test_emu_step"
COMMAND='for test in rows linear emulator sample attention step; do "$BUILD/bin/test_emu_$test" || exit 1; done'
CLEAN=$COMMAND
