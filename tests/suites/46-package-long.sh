#!/usr/bin/env bash
# timeout: 1200
# seconds: 135
# What is installed: cmake --install, the packages, each in an empty place, units, manual pages, completions.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
trireme=$BUILD_RELEASE/bin/trireme
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
dir=$(mktemp -d /tmp/trm-package-XXXXXX)
trap 'rm -rf "$dir"' EXIT
check() { # check NAME COMMAND...: true or what the command printed
    local name=$1 out
    shift
    if out=$("$@" 2>&1 </dev/null); then ok "package.$name"; else not_ok "package.$name" "$(printf '%s' "$out" | tail -3 | tr '\n' ' ')"; fi
}
bare() { env -i PATH=/usr/bin:/bin HOME="$dir" "$@"; } # as in an empty environment
# The program of an installation says its version, finds no library outside of it but glibc's, and answers.
works() { # works PROGRAM
    local libraries
    [ "$(bare "$1" version)" = "trireme $version" ] || { bare "$1" version; return 1; }
    bare "$1" run --temperature 0 --max-tokens 4 "$ROOT/demo/model" Hello
}
stands_alone() { # stands_alone PROGRAM PREFIX: its libraries lie below PREFIX
    local outside
    outside=$(bare ldd "$1" | sed -n 's/.* => \(.*\) (0x.*/\1/p' | grep -v "^$2/" | sed 's|.*/||' | grep -vE '^(libc|libm|libpthread|libdl|librt|libresolv)\.so')
    [ -z "$outside" ] || { echo "from elsewhere: $outside"; return 1; }
}
opens_its_own() { # opens_its_own PROGRAM PREFIX: what downloads open lies below PREFIX
    bare HF_ENDPOINT=http://127.0.0.1:9 HF_HOME="$dir/no-hub" LD_DEBUG=libs "$1" pull org/none >"$dir/opened" 2>&1
    grep 'calling init:' "$dir/opened" | grep 'libcurl\.so' | grep -q "$2/" || { grep -v 'LD_DEBUG\|^ ' "$dir/opened"; return 1; }
}

if [ "$LONG" = 1 ]; then need_packages zsh fish systemd lintian; fi
need_packages mandoc dpkg-dev patchelf binutils

# --- cmake --install ---
root=$dir/root
check install cmake --install "$BUILD_RELEASE" --prefix "$root"
check installed_program_answers works "$root/bin/trireme"
documents() {
    local page
    for page in README.md CHANGELOG.md LICENSE docs/options.md examples/serve.yaml; do [ -s "$root/share/doc/trireme/$page" ] || { echo "no $page"; return 1; }; done
}
check documents documents
pages() { # one for each command, and nothing that a reader of manual pages would stumble over
    local command missing='' found
    for command in $(sed -n 's/^  \([a-z]*\) .*/\1/p' <("$trireme" help)); do
        case $command in version | help) continue ;; esac
        [ -s "$root/share/man/man1/trireme-$command.1" ] || missing+=" $command"
    done
    found=$(mandoc -T lint -W warning "$root"/share/man/man1/*.1 2>&1 | grep -v 'missing date') # they say the version instead
    [ -z "$missing$found" ] || { echo "missing:$missing $found"; return 1; }
}
check manual_pages pages
tells_options() { # each option of the command is in its page
    local page option missing=''
    page=$(mandoc -T ascii "$root/share/man/man1/trireme-serve.1" | sed 's/.\x08//g')
    for option in $("$trireme" serve --help | grep -oE '^ +(-., )?--[a-z0-9-]+' | sed 's/.*--/--/'); do
        grep -qE -- "(^|[ ,])$option( |$)" <<<"$page" || missing+=" $option"
    done
    [ -z "$missing" ] && grep -q 'TRIREME-SERVE(1)' <<<"$page" || { echo "not in the page:$missing"; return 1; }
}
check manual_page_of_serve_has_its_options tells_options
completes() { # completes WANTED WORD...: what bash offers for the last word
    local wanted=$1
    shift
    local got
    got=$(bash --norc -c '. "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _trireme; echo ${COMPREPLY[*]}' "$root/share/bash-completion/completions/trireme" "$@")
    [ "$got" = "$wanted" ] || { echo "offers '$got'"; return 1; }
}
check bash_completes_commands completes 'scale scheduler' trireme sc
check bash_completes_flags completes '--served-model-name' trireme serve --serve
check bash_completes_words completes 'debug' trireme serve --log-level d
check bash_completes_words_behind_equals completes 'json' trireme serve --log-format = j
check bash_completes_no_number completes '' trireme serve --port ''
check completion_of_no_shell bash -c '! "$0" help --completion csh' "$trireme"
printed() { cmp <("$trireme" help --completion bash) "$root/share/bash-completion/completions/trireme"; }
check completion_is_printed printed
if command -v zsh >/dev/null; then
    zsh_completes() {
        bare TERM=dumb zsh -f -c "fpath=($root/share/zsh/site-functions \$fpath); autoload -Uz compinit && compinit -u -D && zsh -n $root/share/zsh/site-functions/_trireme && autoload -Uz +X _trireme && which _trireme >/dev/null"
    }
    check zsh_loads zsh_completes
    check zsh_completes_flags python3 tests/tools/shell_completion.py zsh "$root" 'trireme serve --served-mod' -- '--served-model-name'
else skip zsh package.zsh_completes_flags "there is no zsh; --long installs it"; fi
if command -v fish >/dev/null; then
    fish_completes() { [ "$(bare fish --no-config -c "source $root/share/fish/vendor_completions.d/trireme.fish; complete -C '$1'" | cut -f1 | tr '\n' ' ')" = "$2 " ] || return 1; }
    check fish_completes_commands fish_completes 'trireme sc' 'scale scheduler'
    check fish_completes_words fish_completes 'trireme serve --log-format ' 'json text'
else skip fish package.fish_completes "there is no fish; --long installs it"; fi
units() { # without systemd running
    local unit warned
    for unit in trireme trireme-gateway trireme-scheduler trireme-worker@; do
        warned=$(systemd-analyze verify --man=no "$root/lib/systemd/system/${unit/@/@0}.service" 2>&1 | grep -F "$root")
        [ -z "$warned" ] || { echo "$warned"; return 1; }
    done
}
if command -v systemd-analyze >/dev/null; then
    ln -s 'trireme-worker@.service' "$root/lib/systemd/system/trireme-worker@0.service"
    check systemd_units units
    rm "$root/lib/systemd/system/trireme-worker@0.service"
else skip systemd package.systemd_units "there is no systemd-analyze; --long installs it"; fi
placeholders() { ! grep -rn '{{' "$root/lib/systemd" && [ "$(grep -l '^ProtectSystem=strict' "$root"/lib/systemd/system/*.service | wc -l)" = 4 ]; }
check units_are_filled_in placeholders

# --- packages ---
export PACKAGES_OUT=$dir/out TRIREME_PACKAGE_BUILT=1 BUILD_RELEASE
check built ./dev package
tar -C "$dir" -xf "$dir"/out/trireme-*.tar.xz && mkdir "$dir/else where" && mv "$dir/trireme-$version-linux-$(uname -m)" "$dir/else where/t"
check archive_answers_where_it_was_moved works "$dir/else where/t/bin/trireme"
check archive_stands_alone stands_alone "$dir/else where/t/bin/trireme" "$dir/else where/t"
check archive_downloads_with_its_own_libraries opens_its_own "$dir/else where/t/bin/trireme" "$dir/else where/t"
licences() { # each library's package has said under what it may be passed on
    local count
    count=$(find "$dir/else where/t/share/doc/trireme/licenses" -type f -size +100c | wc -l)
    [ "$count" -ge 10 ] || { echo "$count licences"; return 1; }
}
check archive_has_licences licences

wheel=$(ls "$dir"/out/*.whl)
python3 -m venv "$dir/venv" && check wheel_installs "$dir/venv/bin/pip" install -q --no-index --no-deps --disable-pip-version-check "$wheel"
check wheel_answers works "$dir/venv/bin/trireme"
check wheel_stands_alone stands_alone "$dir/venv/bin/trireme" "$dir/venv"
as_module() { [ "$(bare "$dir/venv/bin/python" -m trireme version)" = "trireme $version" ]; }
check wheel_is_a_module as_module
tag_is_true() { # the tag names the newest glibc that any file asks for, by another reader than the one that wrote it
    local newest
    newest=$(find "$dir/venv/bin/trireme" "$dir/venv/lib/trireme" -type f -print0 | xargs -0 objdump -T 2>/dev/null | grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -1)
    [[ $wheel == *"-manylinux_${newest#GLIBC_}_"* || $wheel == *"-manylinux_$(tr . _ <<<"${newest#GLIBC_}")_"* ]] || { echo "$newest, but $wheel"; return 1; }
}
check wheel_says_which_glibc tag_is_true
extras() { "$dir/venv/bin/python" -c 'from importlib.metadata import requires; r = requires("trireme"); assert any("nvidia-cublas" in x and "cuda" in x for x in r) and any("nvidia-nccl-cu13" in x for x in r), r'; }
check wheel_has_the_extra_cuda extras
check wheel_uninstalls_all "$dir/venv/bin/pip" uninstall -q -y trireme
gone() { [ -z "$(find "$dir/venv" -name '*trireme*' ! -name '*.pyc')" ] || { find "$dir/venv" -name '*trireme*'; return 1; }; }
check wheel_leaves_nothing gone

deb=$(ls "$dir"/out/*.deb)
field() { [[ $(dpkg-deb -f "$deb" "$1") == *"$2"* ]] || { dpkg-deb -f "$deb"; return 1; }; }
check deb_has_the_version field Version "$version"
check deb_depends_on_libraries field Depends libzmq5
check deb_keeps_its_configuration bash -c 'dpkg-deb --ctrl-tarfile "$0" | tar -xO ./conffiles | grep -qx /etc/trireme/serve.yaml' "$deb"
dpkg-deb -x "$deb" "$dir/deb"
check deb_answers works "$dir/deb/usr/bin/trireme"
unit_of_deb() { grep -q '^ExecStart=/usr/bin/trireme serve' "$dir/deb/usr/lib/systemd/system/trireme.service" "$dir/deb/lib/systemd/system/trireme.service" 2>/dev/null; }
check deb_has_units unit_of_deb
if [ "$LONG" = 1 ] && command -v lintian >/dev/null; then check deb_pleases_lintian lintian --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog --fail-on error "$deb"; fi

# In containers with nothing but Debian: the .deb with what it depends on, the wheel, the archive.
in_container() { # in_container COMMANDS
    BUILD_NETWORK=${BUILD_NETWORK:-host}
    docker run --rm --network "$BUILD_NETWORK" -v "$dir/out:/packages:ro" -v "$ROOT/demo/model:/model:ro" debian:bookworm-slim \
        sh -ec "$1"' && [ "$(trireme version)" = "trireme $0" ] && trireme run --max-tokens 4 /model Hello' "$version"
}
# What README.md tells a newcomer to type, typed as it stands there, in a Debian with nothing else; prints the seconds of each line. The
# hub is one of ours, in the container, that has the bundled model under the name that is typed.
typed() { sed -n '/^<!-- newcomer -->$/,/^<!-- end -->$/s/^    //p' "$ROOT/README.md"; }
type_lines() { # type_lines FILE: in this shell, one after another; what continues with \ is one
    local typed_line rest typed_began
    while IFS= read -r typed_line <&3; do
        while [[ $typed_line == *\\ ]] && IFS= read -r rest <&3; do typed_line=${typed_line%\\}$rest; done
        typed_began=$(date +%s%N)
        eval "$typed_line" || { echo "this failed: $typed_line"; return 1; }
        printf '%5.1f s  %s\n' "$(($(date +%s%N) - typed_began))e-9" "${typed_line%%#*}" >&2
    done 3<"$1"
}
newcomer() {
    local model image=trireme-newcomer-$$ rc=0
    typed >"$dir/typed"
    declare -f type_lines >"$dir/type_lines"
    model=$(sed -n 's/^trireme pull \([^ ]*\).*/\1/p' "$dir/typed")
    grep '^apt-get ' "$dir/typed" >"$dir/typed.apt" && grep -v '^apt-get ' "$dir/typed" >"$dir/typed.rest" && [ -n "$model" ] || { cat "$dir/typed"; return 1; }
    {
        docker run --name "$image" --network host -e DEBIAN_FRONTEND=noninteractive -v "$dir:/typed:ro" debian:bookworm-slim \
            bash -ec '. /typed/type_lines && type_lines /typed/typed.apt >/dev/null' && docker commit "$image" "$image" >/dev/null &&
            docker run --rm --network none -v "$dir:/typed:ro" -v "$ROOT/tests/fakes:/fakes:ro" -v "$ROOT/demo/model:/model:ro" -w /typed/out "$image" bash -ec '
            python3 /fakes/hub_server.py /model 0 "$0" >/tmp/hub &
            until grep -q HF_ENDPOINT= /tmp/hub; do sleep 0.1; kill -0 $!; done
            export HF_ENDPOINT=$(sed -n "s/.*HF_ENDPOINT=//p" /tmp/hub)
            set +e
            . /typed/type_lines && type_lines /typed/typed.rest' "$model" >"$dir/newcomer" || rc=1
    } 2>"$dir/newcomer.seconds"
    docker rm "$image" >/dev/null && docker rmi "$image" >/dev/null
    [ $rc = 0 ] && grep -q 'demo model of Trireme' "$dir/newcomer" || { tail -n 5 "$dir/newcomer" "$dir/newcomer.seconds"; return 1; }
}
if [ "$LONG" = 1 ]; then
    if timeout 10 docker info >/dev/null 2>&1; then
        check deb_in_an_empty_debian in_container 'apt-get -qq update && apt-get -qq install -y --no-install-recommends /packages/*.deb >/dev/null && test -f /etc/trireme/serve.yaml'
        check wheel_in_an_empty_debian in_container 'apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv >/dev/null && python3 -m venv /v && /v/bin/pip install -q --no-index /packages/*.whl && PATH=/v/bin:$PATH'
        check archive_in_an_empty_debian in_container 'apt-get -qq update && apt-get -qq install -y --no-install-recommends xz-utils >/dev/null && mkdir /opt/t && tar -C /opt/t --strip-components=1 -xf /packages/*.tar.xz && PATH=/opt/t/bin:$PATH'
        check newcomer newcomer
        grep -E '^ *[0-9.]+ s  ' "$dir/newcomer.seconds" >&2
    else skip docker package.in_empty_debian "no docker engine"; fi
fi

# --- the version is told in one place ---
versions() {
    [ "$("$trireme" version)" = "trireme $version" ] && grep -q "^## $version" CHANGELOG.md || { "$trireme" version; return 1; }
}
check version_is_one versions

# A release in a copy of the tree: a newer version in each place where it is told, once.
releases() {
    local copy=$dir/release
    git -C "$ROOT" ls-files -z CMakeLists.txt CHANGELOG.md deploy | (cd "$ROOT" && tar --null -T - -cf -) | (mkdir "$copy" && tar -C "$copy" -xf -)
    (cd "$copy" && git init -q && git add -A && export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t &&
        git commit -qm tree && ! deploy/package/release.sh "$version" 2>/dev/null && deploy/package/release.sh 99.1.2 &&
        grep -q 'VERSION 99.1.2' CMakeLists.txt && grep -q '^## 99.1.2 - ' CHANGELOG.md && [ "$(git tag)" = v99.1.2 ] &&
        ! grep -rqE "(version|Version|appVersion|trireme:)[: \"]*$version" CMakeLists.txt deploy && ! deploy/package/release.sh 99.1.3)
}
check release_sets_the_version releases
