#!/usr/bin/env bash
# beside: yes
# House rules that a compiler does not check: one verdict a rule.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1

forbid() { # forbid NAME PATTERN WHY, in the C sources
    local found
    found=$(sources | xargs -d '\n' grep -nE -- "$2" | grep -v 'lint: allow' | head -3 | tr '\n' ' ')
    if [ -z "$found" ]; then ok "lint.$1"; else not_ok "lint.$1" "$3: $found"; fi
}

forbid no_parent_includes '#[[:space:]]*include[[:space:]]+["<]\.\./' 'includes go by folder'
forbid no_indexed_json '\bcJSON_GetArrayItem\b' 'linear for each call; cJSON_ArrayForEach'
forbid no_caseless_json '\bcJSON_(GetObjectItem|HasObjectItem)\b' 'matches "MODEL" for "model"; the CaseSensitive calls'
forbid no_alloca '\balloca[[:space:]]*\(' 'memory on the stack without a bound'
forbid no_unbounded_copies '\b(strcat|sprintf|vsprintf|gets)[[:space:]]*\(' 'copies without a bound'
forbid no_conflict_marks '^(<<<<<<<|>>>>>>>) ' 'a merge was left unfinished'
forbid no_machine_paths '"/(work|home|root)/' "a developer's own path"

# Of templates and inline functions over structs of one name the linker keeps one, silently, with one file's layout for both.
twice=$(sources | grep -E '\.(cuh?|h)$' | xargs -d '\n' grep -oE '^(template <[^>]*> )?(struct|union) [a-z0-9_]+ (:.*)?\{' |
    sed -E 's/:(template <[^>]*> )?(struct|union) ([a-z0-9_]+) .*/ \3/' | sort -k2 | awk '$2 == name && $1 != file && ($1 file) ~ /\.cu/ { printf "%s (%s, %s) ", name, file, $1 } { file = $1; name = $2 }')
if [ -z "$twice" ]; then ok lint.gpu_structs_are_unique; else not_ok lint.gpu_structs_are_unique "$twice"; fi

# Lines of code are at most 100 columns wide; a few (tables, texts that belong together) may be longer.
wide=$(sources | xargs -d '\n' cat | awk 'length > 100' | wc -l)
all=$(sources | xargs -d '\n' cat | wc -l)
if [ $((wide * 100)) -lt "$all" ]; then ok lint.columns; else not_ok lint.columns "$wide of $all lines are over 100 columns"; fi

old=$(python3 tests/tools/glossary.py | head -5 | tr '\n' ' ')
if [ -z "$old" ]; then ok lint.glossary; else not_ok lint.glossary "see docs/glossary.md: $old"; fi

bare=$(for dir in */; do [ "$dir" = build/ ] || [ -f "$dir/README.md" ] || printf '%s ' "$dir"; done)
if [ -z "$bare" ]; then ok lint.folders_have_readme; else not_ok lint.folders_have_readme "none in $bare"; fi

for flag in -Wvla -Walloca -Werror; do
    if grep -q -- "$flag" cmake/warnings.cmake; then ok "lint.compiles_with$flag"
    else not_ok "lint.compiles_with$flag" "cmake/warnings.cmake lost it"; fi
done

# Tests that run on a real GPU, too, ask the emulator only for what tests/gpu/real_device.c answers in its place (the rest of their folder's
# names the emulator alone has); without nvcc nothing else links the two.
missing=$(find tests/unit/emu -name 'test_*.c' -o -name rig.h -o -name machine.h | grep -vE '/test_(emulator|hopper|launches)\.c$' | xargs cat | grep -oE '\bemu_[a-z_]+\(' | tr -d '(' | sort -u |
    while read -r name; do grep -qE "^[a-z].*\b$name\(.*\{\}?$" tests/gpu/real_device.c || printf '%s ' "$name"; done)
if [ -z "$missing" ]; then ok lint.real_devices_answer; else not_ok lint.real_devices_answer "tests/gpu/real_device.c lacks $missing"; fi

# protobuf-c unpacks by recursion: a message that can contain itself lets a peer overflow the stack.
proto_files=$(find proto -name '*.proto' 2>/dev/null)
if [ -z "$proto_files" ]; then
    not_ok lint.no_recursive_messages "there are no .proto files"
else
    # shellcheck disable=SC2086
    cycle=$(awk '
        { sub(/\/\/.*/, "") }
        /^[[:space:]]*message[[:space:]]/ { now = $2; sub(/\{.*/, "", now); known[now] = 1 }
        now && /=[[:space:]]*[0-9]+/ {
            line = $0; sub(/^[[:space:]]*(repeated|optional|required)?[[:space:]]*/, "", line); split(line, part, /[[:space:]]/)
            type = part[1]; sub(/.*\./, "", type); uses[now " " type] = 1
        }
        END {
            do { # transitive closure, by repetition
                grew = 0
                for (a in uses) { split(a, x, " "); for (b in uses) { split(b, y, " ")
                    if (x[2] == y[1] && !((x[1] " " y[2]) in uses)) { more[x[1] " " y[2]] = 1 } } }
                for (m in more) if (!(m in uses)) { uses[m] = 1; grew = 1 }
            } while (grew)
            for (m in known) if ((m " " m) in uses) printf "%s ", m
        }' $proto_files)
    if [ -z "$cycle" ]; then ok lint.no_recursive_messages; else not_ok lint.no_recursive_messages "$cycle"; fi
    # shellcheck disable=SC2086
    text=$(grep -nE '^[[:space:]]*(repeated[[:space:]]+|optional[[:space:]]+)?string[[:space:]]' $proto_files | head -3 | tr '\n' ' ')
    if [ -z "$text" ]; then ok lint.wire_text_is_bytes; else not_ok lint.wire_text_is_bytes "string fields: $text"; fi
fi

# The folders are linked into one program: a name that two of them define would go to whichever comes first.
twice=$(for lib in "$BUILD_RELEASE"/libtrireme_*.a; do
    nm -g --defined-only "$lib" 2>/dev/null | awk -v lib="$(basename "$lib")" '$2 ~ /[TDBR]/ { print $3, lib }'
done | sort -u | awk '$1 == name && $2 != lib { printf "%s (%s, %s) ", name, lib, $2 } { name = $1; lib = $2 }')
if [ -z "$twice" ]; then ok lint.names_are_unique; else not_ok lint.names_are_unique "$twice"; fi
