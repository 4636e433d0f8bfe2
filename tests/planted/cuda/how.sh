# Sourced by tests/planted/run.sh: how a bug in the CUDA kernels, or in what records their graphs, is to be noticed, on the emulator: by
# the program and filter that the patch names ("caught-by:"). Only that program is built. That they succeed without a bug is what suites
# 10 and 25 show.
choose_targets() { TARGETS=$(sed -n 's/^caught-by: *\([a-z_]*\).*/\1/p' "$PATCH"); }
COMMAND='read -r program filter < <(sed -n "s/^caught-by: *//p" "$PATCH"); "$BUILD/bin/$program" ${filter:+"$filter"}'
CLEAN=true
