#!/usr/bin/env python3
"""kubernetes_check.py TRIREME FILE...: whether manifests are what Kubernetes and Trireme take.

Every resource of Kubernetes' own kinds against the schemas of two versions, strictly; every flag of a container against the options of the
command it starts; selectors, ports, volumes and scale targets must lead to something in the same file. One line for each fault."""
import re
import subprocess
import sys

import kubernetes_validate
import yaml

VERSIONS = ["1.25", "1.37"]
CUSTOM = {"LeaderWorkerSet", "ScaledObject", "PodMonitor", "InferencePool", "HTTPRoute"}  # their schemas are elsewhere
faults = []


def fault(where, text):
    faults.append(f"{where}: {text}")


def options_of(trireme, command, known={}):
    if command not in known:
        text = subprocess.run([trireme, command, "--help"], capture_output=True, text=True).stdout
        known[command] = set(re.findall(r"^ +(?:-., )?--([a-z0-9-]+)", text, re.M))
    return known[command]


def check_schema(resource, where):
    if resource["kind"] in CUSTOM:
        return
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(resource, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            fault(where, f"{version}: {e.message} at {'/'.join(map(str, e.path))}")


def check_container(trireme, container, volumes, where):
    command, *flags = container["args"]
    known = options_of(trireme, command)
    if not known:
        fault(where, f"there is no command '{command}'")
    for flag in flags:
        name = flag.split("=")[0]
        if not name.startswith("--") or name[2:] not in known:
            fault(where, f"trireme {command} has no {name}")
    ports = {p["name"] for p in container.get("ports", [])}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        if container[probe]["httpGet"]["port"] not in ports:
            fault(where, f"{probe} asks a port that is not there")
    mounts = {m["name"] for m in container["volumeMounts"]}
    if mounts != volumes:
        fault(where, f"mounts {sorted(mounts)}, volumes {sorted(volumes)}")
    for secret in re.findall(r"=(/etc/[^ ]+)", " ".join(flags)):
        if not any(secret.startswith(m["mountPath"] + "/") for m in container["volumeMounts"]):
            fault(where, f"{secret} is on no volume")


def check_group(trireme, resource, where):
    """As check_pods, for both kinds of pods of a LeaderWorkerSet; their templates are Kubernetes' own."""
    spec = resource["spec"]["leaderWorkerTemplate"]
    for name in ("leaderTemplate", "workerTemplate"):
        check_schema({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": spec[name]}, f"{where} {name}")
        yield check_pods(trireme, {"spec": {"template": spec[name]}}, f"{where} {name}")


def check_pods(trireme, resource, where):
    """The labels of the pods, with the names of their ports."""
    template = resource["spec"]["template"]
    labels, pod = template["metadata"]["labels"], template["spec"]
    for key, value in resource["spec"].get("selector", {"matchLabels": {}})["matchLabels"].items():
        if labels.get(key) != value:
            fault(where, f"its selector's {key} is not that of its pods")
    if pod.get("enableServiceLinks", True):
        fault(where, "a service called trireme sets TRIREME_PORT in its pods: enableServiceLinks: false")
    for container in pod["containers"]:
        check_container(trireme, container, {v["name"] for v in pod.get("volumes", [])}, where)
    return labels, {p["name"] for c in pod["containers"] for p in c["ports"]}, {p["containerPort"] for c in pod["containers"] for p in c["ports"]}


def selectors(resource):
    """(labels, ports) that a resource points at: of pods in the same file."""
    kind, spec = resource["kind"], resource.get("spec", {})
    if kind == "Service":
        yield spec["selector"], [p["targetPort"] for p in spec["ports"]]
    elif kind == "PodDisruptionBudget":
        yield spec["selector"]["matchLabels"], []
    elif kind == "NetworkPolicy":
        yield spec["podSelector"]["matchLabels"], [p["port"] for rule in spec["ingress"] for p in rule.get("ports", [])]
        for rule in spec["ingress"]:
            for peer in rule.get("from", []):
                if "podSelector" in peer:
                    yield peer["podSelector"]["matchLabels"], []
    elif kind == "PodMonitor":
        yield spec["selector"]["matchLabels"], [e["port"] for e in spec["podMetricsEndpoints"]]
    elif kind == "InferencePool":
        yield spec["selector"]["matchLabels"], [p["number"] for p in spec["targetPorts"]]


def main():
    trireme, *files = sys.argv[1:]
    for path in files:
        resources = [r for r in yaml.safe_load_all(open(path)) if r]
        pods, names = [], {(r["kind"], r["metadata"]["name"]) for r in resources}
        if len(names) != len(resources) or not resources:
            fault(path, "no resources, or two of one name")
        for r in resources:
            where = f"{path} {r['kind']}/{r['metadata']['name']}"
            check_schema(r, where)
            if r["kind"] in ("Deployment", "StatefulSet"):
                pods.append(check_pods(trireme, r, where))
            elif r["kind"] == "LeaderWorkerSet":
                pods.extend(check_group(trireme, r, where))
        for r in resources:
            where = f"{path} {r['kind']}/{r['metadata']['name']}"
            for labels, ports in selectors(r):
                found = [p for p in pods if labels.items() <= p[0].items()]
                if not found:
                    fault(where, f"selects no pod by {labels}")
                for port in ports:
                    if found and not any(port in p[1] or port in p[2] for p in found):
                        fault(where, f"port {port} is none of its pods'")
            spec = r.get("spec", {})
            target = spec.get("scaleTargetRef")
            if target and (target["kind"], target["name"]) not in names:
                fault(where, f"scales {target['name']}, which is not there")
            account = spec.get("template", {}).get("spec", {}).get("serviceAccountName")
            for wanted in [("ServiceAccount", account)] * bool(account) + [(s["kind"], s["name"]) for s in [*r.get("subjects", []), *filter(None, [r.get("roleRef")])]]:
                if wanted not in names:
                    fault(where, f"{wanted[0]} {wanted[1]} is not there")
            service = spec.get("serviceName")
            if service and ("Service", service) not in names:
                fault(where, f"its service {service} is not there")
    print("\n".join(faults) or f"{len(files)} files are good")
    return bool(faults)


sys.exit(main())
