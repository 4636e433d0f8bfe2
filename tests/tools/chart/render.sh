#!/usr/bin/env bash
# render.sh [VALUES.yaml...]: the chart's manifests, by helm where it is installed, else by main.go (Debian: golang-go, sprig, yaml.v3).
# Without arguments that is deploy/kubernetes/trireme.yaml: tests/tools/chart/render.sh > deploy/kubernetes/trireme.yaml
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
chart=$root/deploy/helm/trireme
if command -v helm >/dev/null; then
    args=()
    for file in "$@"; do args+=(-f "$file"); done
    helm template trireme "$chart" "${args[@]}"
else
    program=${CHART_RENDER:-$root/build/chart-render}
    [ -x "$program" ] && [ "$program" -nt "$here/main.go" ] || (cd "$here" && GO111MODULE=off GOPATH=/usr/share/gocode go build -o "$program" main.go)
    "$program" "$chart" trireme "$@"
fi | sed 's|^# Source: .*/|# Source: |; s/ *$//' | grep -v '^$'
