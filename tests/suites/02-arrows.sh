#!/usr/bin/env bash
# beside: yes
# An include along an arrow of CMakeLists.txt compiles, any other does not: tried for every pair of folders with the build's own commands.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT

folders=$(sed -n 's/^trireme_folder(\([a-z]*\).*/\1/p' CMakeLists.txt)
allowed() { # allowed FROM TO
    [ "$1" = "$2" ] || sed -n "s/^trireme_folder($1 .*DEPENDS \([a-z ]*\).*/ \1 /p" CMakeLists.txt | sed 's/LIBS.*/ /' | grep -q " $2 "
}
first() { find "$1" -name "*.$2" ! -name main.c | sort | head -1; }

for from in $folders; do
    source=$(first "$from" c)
    [ -n "$source" ] || continue
    command=$(ninja -C "$BUILD_RELEASE" -t commands "CMakeFiles/trireme_$from.dir/$source.o" 2>/dev/null | tail -1)
    [ -n "$command" ] || { not_ok "arrows.$from" "the build has no command for $source"; continue; }
    command=${command#*ccache }
    command=${command%% -MD*}
    why= tried=0
    for to in $folders; do
        header=$(first "$to" h)
        [ -n "$header" ] || continue
        # A file of that name is enough: whether the header itself compiles is not asked here.
        printf '#if !__has_include("%s")\n#error "out of sight"\n#endif\n' "$header" >"$probe/probe.c"
        if (cd "$BUILD_RELEASE" && eval "$command -fsyntax-only '$probe/probe.c'") >"$probe/out" 2>&1; then seen=1; else seen=0; fi
        if allowed "$from" "$to"; then wanted=1; else wanted=0; fi
        if [ $seen = 0 ] && ! grep -q 'out of sight' "$probe/out"; then why="$why$(head -1 "$probe/out"); "
        elif [ $seen = 1 ] && [ $wanted = 0 ]; then why="${why}an include of $header compiles; "
        elif [ $seen = 0 ] && [ $wanted = 1 ]; then why="${why}$header cannot be seen; "; fi
        tried=$((tried + 1))
    done
    if [ -z "$why" ]; then ok "arrows.$from ($tried headers tried)"; else not_ok "arrows.$from" "$why"; fi
done
printf '#include "cli/no_such_header.h"\nint main(void) { return 0; }\n' >"$probe/probe.c"
if (cd "$BUILD_RELEASE" && eval "$command -fsyntax-only '$probe/probe.c'") 2>/dev/null; then not_ok arrows.forbidden_include "it compiles"
else ok arrows.forbidden_include; fi
