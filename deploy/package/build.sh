#!/usr/bin/env bash
# build.sh [deb] [tar] [wheel]: packages of build/release into build/packages; without a name, all three. ./dev package builds first.
# The archive and the wheel bring every library but glibc's, found beside the program (DT_RPATH), so they run wherever glibc is as new.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=../../tests/lib.sh
. tests/lib.sh

OUT=${PACKAGES_OUT:-$ROOT/build/packages}
WORK=$ROOT/build/package-work
VERSION=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
SUMMARY="A server for large language models"
MAINTAINER=${DEB_MAINTAINER:-the authors of Trireme <trireme@localhost>} # whoever hands the package out
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
# What every Linux with glibc has, and must have of its own.
GLIBC='^(linux-vdso|ld-linux[^.]*|libc|libm|libpthread|libdl|librt|libresolv|libutil|libnsl)\.so'

stage() { # stage FOLDER PREFIX: installs there, stripped
    rm -rf "$1"
    DESTDIR=$1 cmake --install "$BUILD_RELEASE" --prefix "$2" --strip >/dev/null
}

make_deb() {
    local root=$WORK/deb architecture name depends
    architecture=$(dpkg --print-architecture)
    name=trireme_$VERSION-1_$architecture.deb
    stage "$root" /usr
    install -D -m 644 deploy/systemd/serve.yaml "$root/etc/trireme/serve.yaml"
    gzip -9n "$root"/usr/share/man/man1/*.1
    rm "$root/usr/share/doc/trireme/LICENSE"
    printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' 'Files: *' "Copyright: 2026 the authors of Trireme" \
        'License: Apache-2.0' ' On Debian systems the whole text is in /usr/share/common-licenses/Apache-2.0.' >"$root/usr/share/doc/trireme/copyright"
    gzip -9nc CHANGELOG.md >"$root/usr/share/doc/trireme/changelog.gz"
    printf 'trireme (%s-1) unstable; urgency=medium\n\n  * changelog.gz says what changed.\n\n -- %s  %s\n' "$VERSION" "$MAINTAINER" \
        "$(date -Rud "@$SOURCE_DATE_EPOCH")" | gzip -9nc >"$root/usr/share/doc/trireme/changelog.Debian.gz"
    rm "$root/usr/share/doc/trireme/CHANGELOG.md"
    mkdir -p "$WORK/deb-depends/debian" "$root/DEBIAN"
    printf 'Source: trireme\n\nPackage: trireme\nArchitecture: any\n' >"$WORK/deb-depends/debian/control"
    depends=$(cd "$WORK/deb-depends" && dpkg-shlibdeps -O "$root/usr/bin/trireme" | sed -n 's/^shlibs:Depends=//p')
    printf '%s\n' 'Package: trireme' "Version: $VERSION-1" "Architecture: $architecture" \
        "Maintainer: $MAINTAINER" "Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)" \
        "Depends: $depends, libcurl4, libssl3, libevent-openssl-2.1-7" 'Section: net' 'Priority: optional' "Description: server for large language models" \
        ' Answers the HTTP APIs of OpenAI, Anthropic, Ollama and llama.cpp for many' ' clients at once, from model folders and GGUF files, on processors and GPUs.' \
        ' Streams survive the death of any process but the one that writes them.' >"$root/DEBIAN/control"
    echo /etc/trireme/serve.yaml >"$root/DEBIAN/conffiles"
    printf '#!/bin/sh\nset -e\n[ ! -d /run/systemd/system ] || systemctl daemon-reload\n' | tee "$root/DEBIAN/postinst" >"$root/DEBIAN/postrm"
    chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
    (cd "$root" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
    dpkg-deb --build --root-owner-group -Zxz "$root" "$OUT/$name" >/dev/null
    say "$OUT/$name"
}

# The program in PREFIX/bin with its libraries in PREFIX/lib/trireme and their licences.
bundle() { # bundle PREFIX
    local prefix=$1 library package
    mkdir -p "$prefix/lib/trireme"
    { ldd "$prefix/bin/trireme" $(opened) | awk '$2 == "=>" { print $3 }' && opened; } | sort -u | while read -r library; do
        [[ ! $(basename "$library") =~ $GLIBC ]] || continue
        install -m 755 "$library" "$prefix/lib/trireme/"
        package=$(package_of "$library") || exit 1
        install -D -m 644 "/usr/share/doc/$package/copyright" "$prefix/share/doc/trireme/licenses/$package"
    done
    patchelf --force-rpath --set-rpath "\$ORIGIN/../lib/trireme" "$prefix/bin/trireme"
    # nothing may be found elsewhere, or by a path of its own
    if ldd "$prefix/bin/trireme" | awk '$2 == "=>" { print $3 }' | grep -v "^$prefix/" | sed 's|.*/||' | grep -vE "$GLIBC"; then
        die "these libraries are not in the bundle"
    fi
}
opened() { # what downloads and TLS open when they begin
    ldconfig -p | awk '$1 ~ /^lib(curl\.so\.4|(crypto|ssl)\.so\.3|event_openssl-2\.1\.so\.7)$/ { print $NF }'
}
package_of() { # package_of LIBRARY: Debian's package that it is of
    local real package
    real=$(readlink -f "$1")
    package=$(dpkg -S "$real" 2>/dev/null || dpkg -S "${real#/usr}" 2>/dev/null) || { say "no package has $real"; return 1; }
    echo "${package%%:*}"
}
glibc_needed() { # glibc_needed PREFIX: "2.34", the newest version that a file asks for
    readelf -V "$1/bin/trireme" "$1"/lib/trireme/* | grep -oE 'GLIBC_[0-9]+\.[0-9]+' | sed 's/GLIBC_//' | sort -uV | tail -1
}

make_tar() {
    local name root=$WORK/tar
    name=trireme-$VERSION-linux-$(uname -m)
    stage "$root" /opt/trireme
    mv "$root/opt/trireme" "$root/$name"
    bundle "$root/$name"
    tar -C "$root" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cJf "$OUT/$name.tar.xz" "$name"
    say "$OUT/$name.tar.xz (glibc $(glibc_needed "$root/$name") or newer)"
}

make_wheel() {
    local root=$WORK/wheel tag info data glibc
    rm -rf "$root"
    stage "$root/staged" /opt/trireme
    local prefix=$root/staged/opt/trireme
    bundle "$prefix"
    glibc=$(glibc_needed "$prefix")
    tag=py3-none-manylinux_${glibc/./_}_$(uname -m)
    info=$root/pack/trireme-$VERSION.dist-info data=$root/pack/trireme-$VERSION.data
    mkdir -p "$info/licenses" "$data/scripts" "$data/data/lib" "$data/data/share" "$root/pack/trireme"
    mv "$prefix/bin/trireme" "$data/scripts/"
    mv "$prefix/lib/trireme" "$data/data/lib/"
    mv "$prefix/share/man" "$prefix/share/bash-completion" "$prefix/share/zsh" "$prefix/share/fish" "$data/data/share/"
    mv "$prefix/share/doc/trireme/licenses" "$info/licenses/libraries"
    cp LICENSE "$info/licenses/"
    cp deploy/package/python/*.py "$root/pack/trireme/"
    printf '__version__ = "%s"\n' "$VERSION" >>"$root/pack/trireme/__init__.py"
    printf '%s\n' 'Metadata-Version: 2.4' 'Name: trireme' "Version: $VERSION" "Summary: $SUMMARY" 'License-Expression: Apache-2.0' \
        'License-File: LICENSE' 'Requires-Python: >=3.8' 'Provides-Extra: cuda' "Requires-Dist: nvidia-cublas<14,>=13; extra == 'cuda'" \
        "Requires-Dist: nvidia-nccl-cu13; extra == 'cuda'" 'Description-Content-Type: text/markdown' '' >"$info/METADATA"
    cat deploy/package/python/README.md >>"$info/METADATA"
    printf '%s\n' 'Wheel-Version: 1.0' 'Generator: trireme' 'Root-Is-Purelib: false' "Tag: $tag" >"$info/WHEEL"
    need_venv ../deploy/package/requirements.txt "$ROOT/build/package-venv"
    "$ROOT/build/package-venv/bin/wheel" pack -d "$OUT" "$root/pack" >/dev/null
    say "$OUT/trireme-$VERSION-$tag.whl"
}

need_packages dpkg-dev patchelf binutils
mkdir -p "$OUT"
rm -rf "$WORK"
[ $# != 0 ] || set -- deb tar wheel
for kind in "$@"; do
    case $kind in deb | tar | wheel) "make_$kind" ;; *) die "package makes deb, tar or wheel, not '$kind'" ;; esac
done
