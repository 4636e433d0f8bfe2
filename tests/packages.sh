# What distributions call the packages that Trireme is built with, and how each installs them. tests/lib.sh sources it. Names elsewhere in
# the scripts are Debian's; Debian 12 and 13 and Ubuntu 24.04 share them. `./dev up` and `build` work on all of these, `./dev test` needs
# Debian 12's compilers and formatter.

# Debian's name, Fedora's. A name that is not here is the same in both.
PACKAGE_TABLE='
g++                  gcc-c++
pkg-config           pkgconf-pkg-config
libzmq3-dev          zeromq-devel
libevent-dev         libevent-devel
libcjson-dev         cjson-devel
libprotobuf-c-dev    protobuf-c-devel
protobuf-c-compiler  protobuf-c-compiler
protobuf-compiler    protobuf-compiler
libyaml-dev          libyaml-devel
libxxhash-dev        xxhash-devel
libpcre2-dev         pcre2-devel
libutf8proc-dev      utf8proc-devel
libedit-dev          libedit-devel
libcurl4-openssl-dev libcurl-devel
libssl-dev           openssl-devel
python3-venv         python3
nodejs               nodejs
npm                  nodejs-npm
procps               procps-ng
chromium-headless-shell chromium-headless
fonts-dejavu-core    dejavu-sans-fonts
gcc-aarch64-linux-gnu gcc-aarch64-linux-gnu
qemu-user-static     qemu-user-static
'

# debian, fedora or other: whose names and installer this system has.
distribution() {
    local ids
    # shellcheck disable=SC1090
    ids=$(. "${TRIREME_OS_RELEASE:-/etc/os-release}" 2>/dev/null && printf ' %s %s ' "${ID:-}" "${ID_LIKE:-}")
    case $ids in
    *' debian '* | *' ubuntu '*) echo debian ;;
    *' fedora '* | *' rhel '* | *' centos '*) echo fedora ;;
    *) echo other ;;
    esac
}
# The compilers of Debian 12 are those that warnings are kept away for; a newer one may find more to warn of.
knows_compilers() {
    # shellcheck disable=SC1090
    (. "${TRIREME_OS_RELEASE:-/etc/os-release}" 2>/dev/null && [ "${ID:-} ${VERSION_ID:-}" = 'debian 12' ])
}
package_names() { # package_names DISTRIBUTION NAME...: this distribution's names for Debian's
    local to=$1 name
    shift
    for name in "$@"; do
        [ "$to" != fedora ] || name=$(awk -v name="$name" '$1 == name { name = $2 } END { print name }' <<<"$PACKAGE_TABLE")
        printf '%s ' "$name"
    done
}
missing_packages() { # missing_packages DISTRIBUTION NAME...: in the distribution's own names
    local from=$1 name
    shift
    for name in "$@"; do
        case $from in
        debian) dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || printf '%s ' "$name" ;;
        *) rpm -q "$name" >/dev/null 2>&1 || printf '%s ' "$name" ;;
        esac
    done
}
install_packages() { # install_packages DISTRIBUTION NAME...
    case $1 in
    debian)
        # who cannot be root is told the second command, which names the packages
        ! can_be_root || as_root env DEBIAN_FRONTEND=noninteractive apt-get update -q >&2 </dev/null || true
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${@:2}" >&2 </dev/null
        ;;
    fedora) as_root dnf install -q -y --setopt=install_weak_deps=False "${@:2}" >&2 </dev/null ;;
    esac
}
# Only what is missing, and no question asked.
need_packages() { # need_packages NAME...: Debian's names
    local here missing
    here=$(distribution)
    if [ "$here" = other ]; then
        command -v cmake >/dev/null && command -v ninja >/dev/null && return 0 # whoever has these has seen to the rest
        say "this system is neither Debian's nor Fedora's kind; please install what these are here: $*"
        return 1
    fi
    # shellcheck disable=SC2046
    missing=$(missing_packages "$here" $(package_names "$here" "$@"))
    [ -n "$missing" ] || return 0
    say "installing: $missing"
    # shellcheck disable=SC2086
    locked packages install_packages "$here" $missing
}
