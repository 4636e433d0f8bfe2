#!/usr/bin/env bash
# timeout: 300
# seconds: 30
# The chart and the manifests: by Kubernetes' schemas, by the program's options, and in themselves.
. "$(dirname "$0")/../lib.sh"
cd "$ROOT" || exit 1
trireme=$BUILD_RELEASE/bin/trireme
version=$(sed -n 's/^project(trireme VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
venv=$ROOT/build/kubernetes-venv
dir=$(mktemp -d /tmp/trm-kubernetes-XXXXXX)
trap 'rm -rf "$dir"' EXIT
verdict() { # verdict NAME COMMAND...
    local name=$1 out
    shift
    if out=$("$@" 2>&1 </dev/null); then ok "kubernetes.$name"; else not_ok "kubernetes.$name" "$(printf '%s' "$out" | head -5 | tr '\n' ' ')"; fi
}
check() { "$venv/bin/python" tests/tools/kubernetes_check.py "$trireme" "$@"; }
refuses() { # refuses SED FILE: the same with a mistake
    sed "$1" "$2" >"$dir/wrong.yaml"
    ! cmp -s "$dir/wrong.yaml" "$2" && ! check "$dir/wrong.yaml"
}
chart_version() { [ "$(sed -n 's/^\(version\|appVersion\): //p' deploy/helm/trireme/Chart.yaml | sort -u)" = "$version" ] && grep -q "image: trireme:$version" deploy/kubernetes/*.yaml; }
verdict chart_has_the_version chart_version
if need_venv requirements-kubernetes.txt "$venv"; then
    verdict manifests check deploy/kubernetes/trireme.yaml deploy/kubernetes/inference-pool.yaml
    # the check itself: a field, a flag, a label, a port that are not there
    verdict unknown_field_is_found refuses 's/runAsNonRoot/runAsNoRoot/' deploy/kubernetes/trireme.yaml
    verdict unknown_flag_is_found refuses 's/--drain-timeout/--drain-time/' deploy/kubernetes/trireme.yaml
    verdict lost_label_is_found refuses '0,/component: worker/s//component: work/' deploy/kubernetes/trireme.yaml
    verdict service_links_are_found refuses '0,/enableServiceLinks: false/s//enableServiceLinks: true/' deploy/kubernetes/trireme.yaml
    verdict lost_port_is_found refuses 's/targetPort: wire/targetPort: wires/' deploy/kubernetes/trireme.yaml
else skip kubernetes-validate kubernetes.manifests "the Python packages could not be had"; fi

if command -v helm >/dev/null || [ -x "$venv/bin/helm" ]; then
    rendered() { tests/tools/chart.sh >"$dir/chart.yaml" && cmp "$dir/chart.yaml" deploy/kubernetes/trireme.yaml; }
    lint() { PATH=$PATH:$venv/bin helm lint --strict deploy/helm/trireme; }
    verdict chart_is_lint_free lint
    verdict manifests_are_the_chart rendered
    all() { tests/tools/chart.sh deploy/kubernetes/values-all.yaml >"$dir/all.yaml" && check "$dir/all.yaml" && grep -q nvidia.com/gpu "$dir/all.yaml" && grep -q ScaledObject "$dir/all.yaml"; }
    ranks() { tests/tools/chart.sh deploy/kubernetes/values-ranks.yaml >"$dir/ranks.yaml" && check "$dir/ranks.yaml" && grep -q 'kind: LeaderWorkerSet' "$dir/ranks.yaml"; }
    lost_rank() { refuses 's/--replica=/--replicas=/' "$dir/ranks.yaml" && refuses 's/valueFrom: {fieldRef/valuesFrom: {fieldRef/' "$dir/ranks.yaml"; }
    lost_role() { refuses '/^roleRef/s/-scheduler/-schedule/' "$dir/all.yaml"; }
    verdict chart_with_all_values all
    verdict lost_role_is_found lost_role
    verdict chart_with_ranks ranks
    verdict lost_rank_is_found lost_rank
else skip helm kubernetes.manifests_are_the_chart "there is no helm, and no Python package of it for this kind of machine"; fi
