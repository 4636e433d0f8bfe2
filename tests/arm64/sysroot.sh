#!/usr/bin/env bash
# sysroot.sh FOLDER: fills FOLDER with the arm64 libraries that Trireme is built with, from Debian's registry. Nothing is installed and
# the machine's own list of packages is not touched: apt runs with a state of its own. Made once; a folder that is complete is left alone.
. "$(dirname "$0")/../lib.sh"
set -euo pipefail
root=$(realpath -m "${1:?which folder}")
# What PACKAGES_BUILD names as libraries, and the C library's headers.
wanted="libc6-dev $(printf '%s\n' $PACKAGES_BUILD | grep -E '^lib.*-dev$' | tr '\n' ' ')"
[ "$(cat "$root/.made-from" 2>/dev/null)" != "$wanted" ] || exit 0
for tool in apt-get dpkg-deb curl; do command -v $tool >/dev/null || die "the arm64 libraries need $tool"; done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs"
: >"$work/status"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
# Where this machine takes its own packages from.
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | awk -v release="$release" '$2 == release { print $1; exit }')
[ -n "$mirror" ] || die "apt-get knows no packages of $release here; apt-get update may help"
echo "deb $mirror $release main" >"$work/sources.list"
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$work/state" -o "Dir::State::status=$work/status"
    -o "Dir::Cache=$work/cache" -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o APT::Sandbox::User=
    -o Debug::NoLocking=1)
retry apt-get "${options[@]}" -q update >&2
# shellcheck disable=SC2086
apt-get "${options[@]}" -q -y --no-install-recommends --print-uris install $wanted | grep "^'" | cut -d"'" -f2 >"$work/uris"
[ -s "$work/uris" ] || die "Debian $release has no arm64 packages $wanted"
say "fetching $(wc -l <"$work/uris") arm64 packages"
(cd "$work/debs" && retry xargs -n 8 -P 4 curl -fsS --remote-name-all <"$work/uris")
rm -rf "$root" && mkdir -p "$root"
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done
# Absolute links would lead to this machine's own files.
(cd "$root" && find . -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" ".$(readlink "$link")")" "$link"
done)
echo "$wanted" >"$root/.made-from"
