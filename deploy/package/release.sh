#!/usr/bin/env bash
# release.sh VERSION: makes the tree that of a release, in one commit with the tag vVERSION: the version where it is told, the changelog's
# "Unreleased" under that version and today's date. Nothing is pushed; `./dev test` and `./dev package` come next.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=${1:-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "release.sh: give a version as 1.2.3" >&2; exit 2; }
[ -z "$(git status --porcelain)" ] || { echo "release.sh: the tree has changes that are not committed" >&2; exit 1; }
old=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
newest=$(printf '%s\n%s\n' "$old" "$version" | sort -V | tail -1)
[ "$old" != "$version" ] && [ "$newest" = "$version" ] || { echo "release.sh: $version is not newer than $old" >&2; exit 1; }
awk '/^## Unreleased/ { on = 1; next } /^## / { on = 0 } on && NF { found = 1 } END { exit !found }' CHANGELOG.md ||
    { echo "release.sh: CHANGELOG.md has nothing under Unreleased" >&2; exit 1; }

sed -i "s/^project(trireme VERSION $old/project(trireme VERSION $version/" CMakeLists.txt
sed -i "s/^\(version\|appVersion\): $old\$/\1: $version/" deploy/helm/trireme/Chart.yaml
sed -i "s/image: trireme:$old\$/image: trireme:$version/; s/app.kubernetes.io\/version: \"$old\"/app.kubernetes.io\/version: \"$version\"/" deploy/kubernetes/*.yaml
sed -i "s/^## Unreleased\$/## Unreleased\n\n## $version - $(date -u +%F)/" CHANGELOG.md
git commit -qam "release: Trireme $version"
git tag -a "v$version" -m "Trireme $version"
git show --stat --oneline
