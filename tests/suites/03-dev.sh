#!/usr/bin/env bash
# beside: yes
# What ./dev builds for the GPUs it finds, what it installs on which distribution (nvidia-smi, nvcc and the installers are
# stand-ins), and that every benchmark runs as ./dev runs it.
. "$(dirname "$0")/../lib.sh"
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$here/$1" && chmod +x "$here/$1"; }
expect() { # expect NAME WANTED [VARIABLE=VALUE...]: the CUDA_ARGS, without the compiler
    local name=$1 wanted=$2 got
    shift 2
    got=$(env PATH="$here:/usr/bin:/bin" "$@" bash -c 'set -euo pipefail; . "$0"; choose_cuda; printf "%s " "${CUDA_ARGS[@]/-DCMAKE_CUDA_COMPILER=*/compiler}"' "$ROOT/tests/lib.sh" 2>&1 | grep -v '^==')
    if [ "$(echo $got)" = "$wanted" ]; then ok "dev.$name"; else not_ok "dev.$name" "it is '$got', expected '$wanted'"; fi
}
tool nvcc 'echo "Cuda compilation tools, release 12.8, V12.8.61"'
expect cuda_without_a_gpu ''
expect cuda_when_asked '-DTRIREME_CUDA=ON compiler' TRIREME_CUDA=on
tool nvidia-smi 'printf "9.0\n8.6\n9.0\n7.5\n12.0\n"'
expect cuda_for_the_gpus_here '-DTRIREME_CUDA=ON compiler -DTRIREME_CUDA_ARCHITECTURES=86-real;90a-real;120-real'
expect cuda_refused '-DTRIREME_CUDA=OFF' TRIREME_CUDA=off
expect cuda_of_another_kind "dev: TRIREME_CUDA is 'maybe'; it may be on, off or auto" TRIREME_CUDA=maybe
tool nvidia-smi 'printf "7.5\n"'
expect cuda_for_old_gpus_alone ''
tool nvidia-smi 'echo "NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver."; exit 9'
expect cuda_without_a_driver ''
rm "$here/nvidia-smi"
for release in 11.8 12.4; do
    tool nvcc "echo 'Cuda compilation tools, release $release, V$release.1'"
    if (PATH="$here:/usr/bin:/bin" nvcc_will_do "$here/nvcc"); then not_ok dev.nvcc_$release "is taken"; else ok dev.nvcc_$release; fi
done

# Packages: a system by its os-release; what is installed is what the stand-in says; the installer's words are kept.
installs() { # installs NAME OS_RELEASE INSTALLED WANTED: what need_packages of all that a build takes would install
    local name=$1 got
    printf '%b' "$2" >"$here/os-release"
    for query in dpkg-query rpm; do
        tool $query 'for last; do :; done; case " '"$3"' " in *" $last "*) echo installed ;; *) exit 1 ;; esac'
    done
    for installer in apt-get dnf; do tool $installer "echo $installer"' "$@" >>'"$here/installed"; done
    tool sudo 'exec "$@"'
    rm -f "$here/installed"
    got=$(env PATH="$here:/usr/bin:/bin" TRIREME_OS_RELEASE="$here/os-release" \
        bash -c 'set -euo pipefail; . "$0"; need_packages $PACKAGES_BUILD' "$ROOT/tests/lib.sh" 2>&1 | grep -v '^==')
    got="$got$(grep -v ' update ' "$here/installed" 2>/dev/null)"
    if [ "$got" = "$4" ]; then ok "dev.$name"; else not_ok "dev.$name" "it is '$got', expected '$4'"; fi
}
debian_all='cmake ninja-build gcc g++ pkg-config libzmq3-dev libevent-dev libcjson-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libyaml-dev libxxhash-dev libpcre2-dev libutf8proc-dev libedit-dev libcurl4-openssl-dev libssl-dev curl ca-certificates'
fedora_all='cmake ninja-build gcc gcc-c++ pkgconf-pkg-config zeromq-devel libevent-devel cjson-devel protobuf-c-devel protobuf-c-compiler protobuf-compiler libyaml-devel xxhash-devel pcre2-devel utf8proc-devel libedit-devel libcurl-devel openssl-devel curl ca-certificates'
apt='apt-get install -q -y --no-install-recommends'
dnf='dnf install -q -y --setopt=install_weak_deps=False'
installs debian_12 'ID=debian\nVERSION_ID="12"\n' '' "$apt $debian_all"
installs debian_13 'ID=debian\nVERSION_ID="13"\n' 'cmake gcc' "$apt $(sed 's/cmake //; s/ gcc / /' <<<"$debian_all")"
installs ubuntu_24_04 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n' '' "$apt $debian_all"
installs mint_by_its_kin 'ID=linuxmint\nID_LIKE="ubuntu debian"\n' '' "$apt $debian_all"
installs fedora 'ID=fedora\nVERSION_ID=42\n' '' "$dnf $fedora_all"
installs rocky_by_its_kin 'ID="rocky"\nID_LIKE="rhel centos fedora"\n' '' "$dnf $fedora_all"
installs nothing_where_all_is_there 'ID=fedora\n' "$fedora_all" ''
printf 'ID=debian\nVERSION_ID="12"\n' >"$here/os-release"
tool dpkg-query 'exit 1'
told=$(PATH="$here:$PATH" TRIREME_OS_RELEASE="$here/os-release" bash -c '. "$0"; id() { echo 1000; }; command() { [ "$2" != sudo ] && builtin command "$@"; }
    need_packages cmake gcc' "$ROOT/tests/lib.sh" 2>&1 | grep '^dev:')
wanted="dev: this needs root and there is no sudo; run as root: env DEBIAN_FRONTEND=noninteractive $apt cmake gcc"
if [ "$told" = "$wanted" ]; then ok dev.who_cannot_be_root_is_told_what_to_install; else not_ok dev.who_cannot_be_root_is_told_what_to_install "it is '$told'"; fi
for system in 'debian 12 yes' 'debian 13 no' 'ubuntu 24.04 no' 'fedora 42 no'; do
    read -r id version wanted <<<"$system"
    printf 'ID=%s\nVERSION_ID="%s"\n' "$id" "$version" >"$here/os-release"
    got=$(TRIREME_OS_RELEASE=$here/os-release knows_compilers && echo yes || echo no)
    if [ "$got" = "$wanted" ]; then ok "dev.warnings_are_errors_on_$id"_"$version"
    else not_ok "dev.warnings_are_errors_on_$id"_"$version" "it is $got"; fi
done

# --within: a suite begins if what it declares, times how slow the machine has been, fits into what is left.
printf '#!/bin/sh\n# timeout: 900\n# seconds: 100\n' >"$here/10-slow-long.sh"
printf '#!/bin/sh\n# long: yes\n' >"$here/20-both.sh"
fits() { # fits NAME yes|no WITHIN ELAPSED SPENT EXPECTED [FILE]
    local started=$((SECONDS - $4)) WITHIN=$3 spent=$5 expected=$6 got=no
    suite_fits "${7:-$here/10-slow-long.sh}" && got=yes
    if [ $got = "$2" ]; then ok "dev.within_$1"; else not_ok "dev.within_$1" "it is $got"; fi
}
fits nothing_begun yes 150 0 0 0
fits too_late no 150 60 0 0
fits a_slow_machine no 390 200 199 99
fits a_fast_machine yes 320 200 50 100
fits no_limit yes '' 9999 99 1
fits undeclared yes 161 99 0 0 "$here/20-both.sh"
for case in 'slow 0 10-slow-long no' 'slow 1 10-slow-long yes' 'both 0 20-both yes' 'both 1 20-both yes' 'other 1 20-both no'; do
    read -r filter long file wanted <<<"$case"
    got=$(suite_runs "$here/$file.sh" "$long" "$filter" && echo yes || echo no)
    if [ "$got" = "$wanted" ]; then ok "dev.suite_${filter}_$long"; else not_ok "dev.suite_${filter}_$long" "it is $got"; fi
done
if [ "$(lot a b c d | sort | tr -d '\n')" = abcd ]; then ok dev.lot_has_all; else not_ok dev.lot_has_all "$(lot a b c d)"; fi

# Suites beside each other: as many as asked for, and of what is locked one; 20 s where a wait is in vain.
awaits() { local i; for ((i = 0; i < 200; i++)); do [ ! -e "$here/$1" ] || return 0; sleep 0.1; done; return 1; }
pair() { # a waits for b to begin, b for c, which may begin only when a has ended
    : >"$here/pair.$1"
    case $1 in
    a) awaits pair.b && [ ! -e "$here/pair.c" ] && : >"$here/pair.a.ok" ;;
    b) awaits pair.c && [ -e "$here/pair.a.ok" ] && : >"$here/pair.b.ok" ;;
    c) [ -e "$here/pair.a.ok" ] && : >"$here/pair.c.ok" ;;
    esac
}
at_a_time 2 pair a b c
if [ -e "$here/pair.a.ok" ] && [ -e "$here/pair.b.ok" ] && [ -e "$here/pair.c.ok" ]; then ok dev.at_a_time; else not_ok dev.at_a_time "$(cd "$here" && echo pair.*)"; fi
sole() { mkdir "$here/alone" && sleep 0.3 && rmdir "$here/alone" && : >"$here/alone.$1"; }
hold() { locked test sole "$1"; }
at_a_time 4 hold a b c d 2>/dev/null
if [ "$(cd "$here" && echo alone.*)" = 'alone.a alone.b alone.c alone.d' ]; then ok dev.locked; else not_ok dev.locked "$(cd "$here" && echo alone*)"; fi
if [ "$(longest_first a test_kernels_attention b | tr '\n' ' ')" = 'test_kernels_attention a b ' ]; then ok dev.longest_first; else not_ok dev.longest_first 'another order'; fi
for program in $LONGEST $EMULATED_LONGEST; do all_programs | grep -qx "$program" || not_ok dev.longest_first "there is no $program"; done

# bench NAME [ARGUMENT...]: a quick run prints figures and ends well.
bench() {
    local name=$1 rc=0
    shift
    TRIREME_BENCH_BUILT=1 BUILD_RELEASE=$BUILD_RELEASE timeout 120 "$ROOT/dev" bench "$name" --quick "$@" >"$here/bench" 2>&1 </dev/null || rc=$?
    if [ $rc = 0 ] && grep -q '[0-9]' "$here/bench"; then ok "dev.bench_$name"
    else tail -60 "$here/bench" >&2; not_ok "dev.bench_$name" "exit code $rc: $(tail -2 "$here/bench" | tr '\n' ' ')"; fi
}
must_build dev.build_bench release bench_gpu_emulated
for dir in "$ROOT"/bench/*/; do
    name=$(basename "$dir")
    case $name in
    gpu) bench gpu --emulated ;;
    flagship) ;; # 90-chaos-long.sh runs it: it needs etcd, and two at a time would share their networks' names
    text | templates | grammar)
        if [ ! -d "${TRIREME_SHARED:-$ROOT/../shared/data}" ]; then skip shared "dev.bench_$name" "the shared data is not here"
        elif [ "$name" = templates ] && ! python3 -c 'import jinja2' 2>/dev/null; then skip jinja2 "dev.bench_$name" "python3 has no jinja2"
        else bench "$name"; fi
        ;;
    *) bench "$name" ;;
    esac
done
