# Shared by ./dev and tests/suites/*.sh: verdict lines, packages, builds, Python and node tools. Source it; it changes nothing by itself.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD_DEV=${BUILD_DEV:-$ROOT/build/dev}
BUILD_RELEASE=${BUILD_RELEASE:-$ROOT/build/release}
BUILD_TSAN=${BUILD_TSAN:-$ROOT/build/tsan}
VENV=${VENV:-$ROOT/build/venv}
NODE=${NODE:-$ROOT/build/node}
LONG=${LONG:-0}

# What the product is built with, in Debian's names; tests/packages.sh has the other distributions'.
PACKAGES_BUILD="cmake ninja-build gcc g++ pkg-config libzmq3-dev libevent-dev libcjson-dev libprotobuf-c-dev
    protobuf-c-compiler protobuf-compiler libyaml-dev libxxhash-dev libpcre2-dev libutf8proc-dev libedit-dev libcurl4-openssl-dev libssl-dev curl ca-certificates"
PACKAGES_TEST="clang-format-14 python3 python3-venv procps qemu-user-static"
PACKAGES_FUZZ="clang-14 libclang-rt-14-dev"

say() { printf '%s\n' "== $*" >&2; }
die() { printf '%s\n' "dev: $*" >&2; exit 1; }

# --- verdicts, one line each; what a suite's standard output is counted by ---
ok() { printf 'ok %s\n' "$1"; }
not_ok() { printf 'not ok %s: %s\n' "$1" "$2"; }
# locked NAME COMMAND...: suites run beside each other, but only one of them installs, builds or fetches at a time
locked() {
    local name=$1
    shift
    command -v flock >/dev/null || { "$@"; return; }
    mkdir -p "$ROOT/build"
    (flock 9 && "$@" 9>&-) 9>"$ROOT/build/.$name.lock"
}
required() { case ",${TRIREME_TEST_REQUIRE:-}," in *[,\ ]"$1"[,\ ]*) return 0 ;; esac; return 1; }
skip() { # skip KIND NAME WHY: a failure where the kind is required
    if required "$1"; then not_ok "$2" "needs $1, which is required here: $3"; else printf 'skip %s %s: %s\n' "$1" "$2" "$3"; fi
}

# --- what is drawn: tests too long for one run take turns, another share at each commit; TRIREME_TEST_ALL=1 runs all of them. The hash
# is that of the files: a commit that is moved onto another branch unchanged draws what it drew before ---
drawn_by() { git -C "$ROOT" rev-parse 'HEAD^{tree}' 2>/dev/null || echo none; }
drawn_number() { echo $((0x$(drawn_by | md5sum | cut -c1-6))); }
lot() { local rest; for rest in "$@"; do printf '%s %s\n' "$(printf '%s %s' "$(drawn_by)" "$rest" | md5sum | cut -c1-12)" "$rest"; done | sort | cut -d' ' -f2-; }
drawn() { # drawn SHARES NAME...: one of so many equal shares of the names
    local shares=$1 turn
    shift
    [ "${TRIREME_TEST_ALL:-0}" != 1 ] || shares=1
    turn=$(($(drawn_number) % shares))
    [ "$shares" = 1 ] || say "share $((turn + 1)) of $shares, drawn by the commit; TRIREME_TEST_ALL=1 runs all"
    printf '%s\n' "$@" | awk -v shares="$shares" -v turn=$turn 'NR % shares == turn'
}

# --- packages: need_packages NAME... ---
can_be_root() { [ "$(id -u)" = 0 ] || command -v sudo >/dev/null; }
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else die "this needs root and there is no sudo; run as root: $*"; fi
}
# shellcheck source=tests/packages.sh
. "$ROOT/tests/packages.sh"

# --- CUDA: TRIREME_CUDA=on, off, or auto: built in where the machine has a GPU ---
CUDA_ARGS=() # for cmake
NVCC_PACKAGES="nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96"
nvcc_will_do() { # nvcc_will_do NVCC: it is of CUDA 12.8 or later
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$version" ] && [ "${version% *}" -gt 12 ] || { [ "${version% *}" = 12 ] && [ "${version#* }" -ge 8 ]; }
}
find_nvcc() { # sets NVCC to the machine's; nonzero without one
    local candidate
    for candidate in "${NVCC:-}" "$(command -v nvcc)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
        if [ -n "$candidate" ] && nvcc_will_do "$candidate"; then NVCC=$candidate; return 0; fi
    done
    return 1
}
need_nvcc() { # sets NVCC: the machine's, else one from Python packages, in build/cuda
    local home=$ROOT/build/cuda root
    if find_nvcc; then return 0; fi
    NVCC=$home/toolkit/bin/nvcc
    if [ "$(cat "$home/.made-from" 2>/dev/null)" = "$NVCC_PACKAGES" ]; then return 0; fi
    need_packages python3 python3-venv || return 1
    say "fetching the CUDA compiler"
    rm -rf "$home"
    # shellcheck disable=SC2086
    python3 -m venv "$home" >&2 && retry "$home/bin/pip" install -q --no-input --disable-pip-version-check $NVCC_PACKAGES >&2 </dev/null || return 1
    root=$(echo "$home"/lib/python3*/site-packages/nvidia/cu13)
    ln -sfn lib "$root/lib64" && ln -sfn libcudart.so.13 "$root/lib/libcudart.so" || return 1 # as an installed toolkit has them
    ln -sfn "$root" "$home/toolkit" && nvcc_will_do "$NVCC" || return 1
    echo "$NVCC_PACKAGES" >"$home/.made-from"
}
CUOBJDUMP_PACKAGES="nvidia-cuda-cuobjdump==13.2.51 nvidia-cuda-nvdisasm==13.2.51"
need_cuobjdump() { # sets CUOBJDUMP: the machine's, else one from Python packages, in build/cuobjdump
    local home=$ROOT/build/cuobjdump
    CUOBJDUMP=$(command -v cuobjdump) && command -v nvdisasm >/dev/null && return 0
    if [ "$(cat "$home/.made-from" 2>/dev/null)" != "$CUOBJDUMP_PACKAGES" ]; then
        rm -rf "$home"
        # shellcheck disable=SC2086
        python3 -m venv "$home" >&2 && retry "$home/bin/pip" install -q --no-input --disable-pip-version-check $CUOBJDUMP_PACKAGES >&2 </dev/null || return 1
        echo "$CUOBJDUMP_PACKAGES" >"$home/.made-from"
    fi
    CUOBJDUMP=$(echo "$home"/lib/python3*/site-packages/nvidia/cu13/bin/cuobjdump)
    [ -x "$CUOBJDUMP" ] && PATH=$PATH:$(dirname "$CUOBJDUMP")
}
gpu_architectures() { # of this machine's GPUs, as CMAKE_CUDA_ARCHITECTURES; those before compute capability 8.0 are left out
    timeout 20 nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d ' .' | sort -un |
        awk '/^[0-9]+$/ && $1 >= 80 { printf "%s%s-real", n++ ? ";" : "", $1 == 90 ? "90a" : $1 }'
}
choose_cuda() { # sets CUDA_ARGS
    local architectures
    architectures=$(gpu_architectures || true)
    case ${TRIREME_CUDA:-auto} in
    off) CUDA_ARGS=(-DTRIREME_CUDA=OFF) && return 0 ;;
    on) ;;
    auto) [ -n "$architectures" ] || return 0 ;;
    *) die "TRIREME_CUDA is '$TRIREME_CUDA'; it may be on, off or auto" ;;
    esac
    if ! need_nvcc; then
        [ "${TRIREME_CUDA:-auto}" = auto ] || die "there is no CUDA compiler, and none could be fetched"
        say "a GPU is here, but no CUDA compiler, and none could be fetched: building for the CPU alone"
        return 0
    fi
    CUDA_ARGS=(-DTRIREME_CUDA=ON "-DCMAKE_CUDA_COMPILER=$NVCC")
    [ -z "$architectures" ] || CUDA_ARGS+=("-DTRIREME_CUDA_ARCHITECTURES=$architectures")
    say "building the CUDA device${architectures:+ for $architectures}"
}

# --- the page's libraries: those of gateway/page/libraries.txt in build/page, each checked by its hash; without them the page is plain ---
fetch_page_libraries() {
    local folder=$ROOT/build/page registry=${npm_config_registry:-https://registry.npmjs.org} name version archive hash file part
    mkdir -p "$folder"
    while read -r name version archive hash _; do
        file=$folder/$archive-$version.tgz part=$folder/$archive.$$
        echo "$hash  $file" | sha512sum --check --status 2>/dev/null && continue
        say "fetching $name $version"
        curl -fsSL --connect-timeout 10 --max-time 60 -o "$part" "${registry%/}/$name/-/$archive-$version.tgz" &&
            echo "$hash  $part" | sha512sum --check --status && mv "$part" "$file" && continue
        rm -f "$part"
        say "$name $version could not be had, or is not what its hash says: the page shows answers as plain text"
        return 0
    done < <(grep -v '^#' "$ROOT/gateway/page/libraries.txt")
}

# --- builds ---
configure() { # configure PRESET [FOLDER]
    local preset=$1 folder=${2:-$ROOT/build/$1} launcher=()
    command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    knows_compilers || launcher+=(-DTRIREME_WERROR=OFF)
    (cd "$ROOT" && cmake --preset "$preset" -B "$folder" "${launcher[@]}" "${CUDA_ARGS[@]}" >"$folder.configure.log" 2>&1) ||
        { cat "$folder.configure.log" >&2; return 1; }
}
build() { locked build build_alone "$@"; } # build PRESET [TARGET...]
must_build() { # must_build NAME PRESET [TARGET...]: else a verdict, and the end of the suite
    local name=$1
    shift
    build "$@" >&2 || { not_ok "$name" "does not compile: $*"; exit 1; }
}
build_alone() {
    local preset=$1
    shift
    fetch_page_libraries
    configure "$preset" || return 1
    say "building $preset${*:+: $*}"
    ninja -C "$ROOT/build/$preset" -j"$(nproc)" "$@" >&2 </dev/null
}

# Our C sources, one path a line, as the format check and the lint see them.
sources() {
    cd "$ROOT" && find . \( -name build -o -name 'build-*' -o -name .git -o -name node_modules \) -prune -o \
        -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print | sed 's|^\./||' | sort
}

# --- suites ---
# A suite is any executable tests/suites/NN-name.sh. "# timeout: SECONDS" in its head sets its limit (600). One with "-long" in its name
# runs with --long; one with "# long: yes" in its head runs in both, the second time with LONG=1. "# seconds: N" says what a long run takes
# on two idle cores, for --within. "# beside: yes": what it takes is computing: two such run at a time beside the others, which mostly wait.
# "# alone: yes": it measures how long something takes, and runs when all others have ended.
declared() { # declared FILE timeout|seconds OTHERWISE
    local number
    number=$(head -6 "$1" | sed -n "s/^# $2: *\([0-9][0-9]*\).*/\1/p")
    echo "${number:-$3}"
}

suite_runs() { # suite_runs FILE LONG FILTER
    local name
    name=$(basename "$1" .sh)
    case $name in *"$3"*) ;; *) return 1 ;; esac
    case $name in
    *-long*) [ "$2" = 1 ] ;;
    *) [ "$2" = 0 ] || head -5 "$1" | grep -q '^# long: yes' ;;
    esac
}
# Is there time for a suite? WITHIN: the seconds for all, empty without a limit; started: the value of SECONDS when the first began; spent,
# expected: what the suites so far took and what they declare, so that a slow machine begins fewer.
suite_fits() { # suite_fits FILE
    local seconds
    [ -n "$WITHIN" ] || return 0
    seconds=$(declared "$1" seconds 60)
    if [ "$spent" -gt "$expected" ]; then seconds=$((seconds * spent / (expected + 1))); fi
    [ $((SECONDS - started + seconds)) -le "$WITHIN" ]
}
at_a_time() { # at_a_time N COMMAND ARGUMENT...: the command with each argument, N of them running
    local most=$1 command=$2 argument running=0
    shift 2
    for argument in "$@"; do
        if [ $running -ge "$most" ]; then wait -n || true; running=$((running - 1)); fi
        "$command" "$argument" &
        running=$((running + 1))
    done
    wait
}
beside() { head -6 "$1" | grep -q '^# beside: yes'; }
alone() { head -6 "$1" | grep -q '^# alone: yes'; }
suite_order() { # the suites' files; with --within in an order drawn by the commit
    if [ -n "$WITHIN" ]; then lot tests/suites/*.sh; else printf '%s\n' tests/suites/*.sh; fi
}

# --- Python and node tools, made when first asked for; nonzero when they cannot be had ---
retry() { "$@" || { sleep 5; "$@"; } || { sleep 20; "$@"; }; }
need_venv() { locked tools make_venv "$@"; } # need_venv [LIST [FOLDER]]: then "$VENV/bin/python", or FOLDER's
make_venv() {
    local list="$ROOT/tests/${1:-requirements.txt}" venv=${2:-$VENV}
    local stamp="$venv/.made-from"
    cmp -s "$list" "$stamp" 2>/dev/null && return 0
    need_packages python3 python3-venv || return 1
    say "making $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 || /usr/bin/python3 -m venv "$venv" >&2 || return 1
    retry "$venv/bin/pip" install -q --no-input --disable-pip-version-check -r "$list" >&2 </dev/null || return 1
    cp "$list" "$stamp"
}
need_node() { locked tools make_node; } # then node_modules in "$NODE"
make_node() {
    local stamp="$NODE/.made-from"
    cmp -s "$ROOT/tests/e2e/package.json" "$stamp" 2>/dev/null && return 0
    command -v node >/dev/null && command -v npm >/dev/null || need_packages nodejs npm || return 1
    say "making $NODE"
    rm -rf "$NODE" && mkdir -p "$NODE" && cp "$ROOT/tests/e2e/package.json" "$NODE/"
    (cd "$NODE" && retry npm install --no-audit --no-fund --ignore-scripts --loglevel=error >&2 </dev/null) || return 1
    cp "$ROOT/tests/e2e/package.json" "$stamp"
}

# --- unit tests: run_units BUILD_FOLDER PREFIX [FILTER]: every tests/unit/*/test_*.c but the emulated GPU's ---
all_programs() { (cd "$ROOT/tests/unit" && ls ./*/test_*.c 2>/dev/null) | sed -E 's|^\./([^/]*)/test_(.*)\.c$|test_\1_\2|' | sort; }
unit_programs() { all_programs | grep -v '^test_emu_'; }
emulated_programs() { all_programs | grep '^test_emu_'; }
run_unit() { # run_unit BUILD_FOLDER PREFIX PROGRAM [FILTER]
    local folder=$1 prefix=$2 program=$3 filter=${4:-} out rc=0 began=$SECONDS
    out=$(mktemp)
    if [ ! -x "$folder/bin/$program" ]; then
        not_ok "$prefix$program" "was not built"
    else
        ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}" \
            UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}" \
            timeout -k 10 1200 "$folder/bin/$program" ${filter:+"$filter"} >"$out" 2>"$out.err" </dev/null || rc=$?
        sed -E "s/^(ok|not ok|skip [^ ]+) /\1 $prefix${program#test_}./" "$out"
        if [ "$rc" != 0 ] && ! grep -q '^not ok ' "$out"; then
            not_ok "$prefix${program#test_}" "exit code $rc: $(grep -E 'ERROR|WARNING|runtime error|check failed' "$out.err" | head -1)"
        elif [ -z "$filter" ] && ! grep -qE '^(ok|not ok|skip) ' "$out"; then
            not_ok "$prefix${program#test_}" "ran no test"
        fi
        if [ "$rc" != 0 ]; then tail -40 "$out.err" >&2; fi
    fi
    [ $((SECONDS - began)) -lt 5 ] || say "$program took $((SECONDS - began)) s"
    rm -f "$out" "$out.err"
}
# run_programs BUILD_FOLDER PREFIX FILTER PROGRAM...: two at a time, their verdicts in the order given. With RUN_SECONDS none begins later
# than that.
run_programs() {
    local folder=$1 prefix=$2 filter=$3 program running=0 tried=0 began=$SECONDS dir
    shift 3
    dir=$(mktemp -d)
    for program in "$@"; do
        [ -z "${RUN_SECONDS:-}" ] || [ $((SECONDS - began)) -lt "$RUN_SECONDS" ] || break
        tried=$((tried + 1))
        if [ $running -ge 2 ]; then wait -n || true; running=$((running - 1)); fi
        run_unit "$folder" "$prefix" "$program" "$filter" >"$dir/$program" &
        running=$((running + 1))
    done
    wait
    for program in "$@"; do [ ! -f "$dir/$program" ] || cat "$dir/$program"; done
    rm -rf "$dir"
    [ $tried = $# ] || say "$tried of $# programs begun in $RUN_SECONDS s"
}
# Runs one unit program under an emulator; one verdict for all of its tests.
emulated_unit() { # emulated_unit "EMULATOR ARGUMENTS" BUILD_FOLDER PREFIX PROGRAM
    local out rc=0
    # shellcheck disable=SC2086
    out=$(timeout -k 10 600 $1 "$2/bin/$4" 2>&1 </dev/null) || rc=$?
    if [ $rc = 0 ] && grep -q '^ok ' <<<"$out"; then ok "$3.${4#test_} ($(grep -c '^ok ' <<<"$out") tests)"
    else not_ok "$3.${4#test_}" "exit code $rc: $(grep -v '^ok ' <<<"$out" | grep -v 'TCG doesn' | tail -3 | tr '\n' ' ')"; fi
}
# Those of ten seconds and more of processor time under ASan, the longest first: they begin first, so that no core idles at the end, and take
# turns in 10-unit.sh and 11-unit-release.sh.
LONGEST="test_worker_executor test_model_families test_worker_constraints test_model_shard test_model_golden test_kernels_attention
test_worker_ranks test_cli_convert test_grammar_masks test_grammar_public test_model_llama_goldens test_text_parse test_gateway_forced_calls"
EMULATED_LONGEST="test_emu_attention test_emu_model test_emu_goldens test_emu_linear test_emu_sample test_emu_packed test_emu_step"
# shellcheck disable=SC2086
long_units() { printf '%s\n' $LONGEST; }
short_units() { long_units | grep -vxFf - <(unit_programs); }
# shellcheck disable=SC2046
sanitized_units() { drawn 3 $(long_units); } # the long ones that this commit runs under ASan
longest_first() { # longest_first PROGRAM...
    printf '%s\n' "$@" | awk -v longest="$LONGEST $EMULATED_LONGEST" '
        BEGIN { for (n = split(longest, name, " "); n > 0; n--) rank[name[n]] = n }
        { print $1 in rank ? rank[$1] : 999, $1 }' | sort -s -n -k1,1 | cut -d' ' -f2
}
# shellcheck disable=SC2046
run_units() { run_programs "$1" "$2" "${3:-}" $(longest_first $(unit_programs)); }
