#!/usr/bin/env bash
# chart.sh [VALUES.yaml...]: the chart's manifests, by helm. Without arguments that is deploy/kubernetes/trireme.yaml:
#     tests/tools/chart.sh > deploy/kubernetes/trireme.yaml
# Helm is the machine's, or that of the tests' Python packages (tests/requirements-kubernetes.txt; x86-64).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PATH=$PATH:$root/build/kubernetes-venv/bin
args=()
for file in "$@"; do args+=(-f "$file"); done
helm template trireme "$root/deploy/helm/trireme" "${args[@]}" | sed 's|^# Source: .*/|# Source: |; s/ *$//' | grep -v '^$'
