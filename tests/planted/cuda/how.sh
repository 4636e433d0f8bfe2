# Sourced by tests/planted/run.sh: how a bug in the CUDA kernels, or in what records their graphs, is to be noticed, on the emulator: by
# the program and filter that the patch names ("caught-by:"). Without a bug every one of those programs succeeds.
TARGETS=$(sed -n 's/^caught-by: *\([a-z_]*\).*/\1/p' "$here"/*.patch | sort -u | tr '\n' ' ')
COMMAND='read -r program filter < <(sed -n "s/^caught-by: *//p" "$PATCH"); "$BUILD/bin/$program" ${filter:+"$filter"}'
CLEAN="for program in $TARGETS; do [ \$program = test_emu_attention ] || \"\$BUILD/bin/\$program\" || exit 1; done; \"\$BUILD/bin/test_emu_attention\" attention_with"
