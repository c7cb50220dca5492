"""Objects as helm renders the chart and as kustomize renders the manifests."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "deploy/helm/calibrant"
MANIFESTS = REPOSITORY / "deploy/kubernetes"
#: Where `make` puts the programs of the locked wheel, which run on Linux on x86-64.
FOLDER = Path(sys.prefix) / "chart"
PROGRAMS = ("helm", "kubectl")

Object = dict[str, Any]
#: Kinds of objects that have a template of pods.
WORKLOADS = ("Deployment", "StatefulSet")


class NotRendered(Exception):
    """What helm says of values that it refuses."""


def missing_programs() -> str:
    """Why the programs cannot run here; empty if they can."""
    if all(_program(name) for name in PROGRAMS):
        return ""
    return "there is no helm or kubectl: run make test-slow on Linux on x86-64, or install both"


def _program(name: str) -> str | None:
    unpacked = FOLDER / name
    runs = (sys.platform, platform.machine()) == ("linux", "x86_64") and unpacked.exists()
    return str(unpacked) if runs else shutil.which(name)


def run(name: str, *arguments: str | Path) -> str:
    """What a program prints; raises ``NotRendered`` with its errors."""
    command = [str(_program(name)), *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if process.returncode:
        raise NotRendered(process.stderr + process.stdout)
    return process.stdout


def rendered(values: Mapping[str, Any], folder: Path, *arguments: str, chart: Path = CHART) -> list[Object]:
    """The objects of a release ``calibrant`` in the namespace ``calibrant``."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)), encoding="utf-8")
    text = run("helm", "template", "calibrant", chart, "--namespace", "calibrant", "--values", file, *arguments)
    return objects(text)


def kustomized(folder: Path, *components: str) -> list[Object]:
    """The objects of the base with components."""
    parts = [f"../components/{name}" for name in components]
    tree = folder / "kubernetes"
    shutil.copytree(MANIFESTS, tree, dirs_exist_ok=True)
    overlay = tree / "overlay"
    overlay.mkdir(exist_ok=True)
    kustomization = {"namespace": "calibrant", "resources": ["../base"], "components": parts}
    (overlay / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    return objects(run("kubectl", "kustomize", overlay))


def objects(text: str) -> list[Object]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.safe_load_all(text) if document]


#: Labels that only the chart sets: Helm recommends them, and the instance lets releases share a namespace.
_OF_RELEASES = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
)


def comparable(document: Object) -> Object:
    """An object without what differs on purpose: labels of releases and of objects, and the order of variables."""
    comparable: Object = _comparable(document)
    comparable["metadata"].pop("labels", None)
    return comparable


def _comparable(part: Any) -> Any:
    if isinstance(part, list):
        parts = [_comparable(inner) for inner in part]
        named = all(isinstance(inner, dict) and set(inner) <= {"name", "value", "valueFrom"} for inner in parts)
        return sorted(parts, key=lambda inner: inner["name"]) if named else parts
    if isinstance(part, dict):
        return {name: _comparable(inner) for name, inner in part.items() if name not in _OF_RELEASES}
    return part


def of_kind(documents: list[Object], *kinds: str) -> list[Object]:
    return [document for document in documents if document["kind"] in kinds]


def templates_of(documents: list[Object]) -> dict[str, Object]:
    """The templates of pods by the name of their workload."""
    return {document["metadata"]["name"]: document["spec"]["template"] for document in of_kind(documents, *WORKLOADS)}


def selected(documents: list[Object], selector: Object) -> set[str]:
    """The workloads whose pods a selector matches."""

    def matches(labels: dict[str, str]) -> bool:
        equal = all(labels.get(name) == label for name, label in selector.get("matchLabels", {}).items())
        return equal and all(labels.get(rule["key"]) in rule["values"] for rule in selector.get("matchExpressions", []))

    return {name for name, pod in templates_of(documents).items() if matches(pod["metadata"]["labels"])}


def assert_leads_to_pods(documents: list[Object]) -> None:
    """Workloads, services, budgets, policies and scalers name pods and ports that are there."""
    containers = {name: pod["spec"]["containers"][0] for name, pod in templates_of(documents).items()}
    ports = {name: {port["name"] for port in container.get("ports", [])} for name, container in containers.items()}
    for document in of_kind(documents, *WORKLOADS, "PodDisruptionBudget"):
        assert selected(documents, document["spec"]["selector"]) == {document["metadata"]["name"]}
    for service in of_kind(documents, "Service"):
        (name,) = selected(documents, {"matchLabels": service["spec"]["selector"]})
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports[name]
    for policy in of_kind(documents, "NetworkPolicy"):
        names = selected(documents, policy["spec"]["podSelector"])
        assert names
        for rule in policy["spec"].get("ingress", []):
            assert rule["from"]  # nothing may be called from everywhere
            assert all(port["port"] in ports[name] for port in rule["ports"] for name in names)
    for scaler in of_kind(documents, "HorizontalPodAutoscaler", "ScaledObject"):
        assert scaler["spec"]["scaleTargetRef"]["name"] in containers


def assert_restricted(pod: Object) -> None:
    """A pod runs unprivileged, without a token, and with bounds."""
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() >= {"cpu", "memory"}


def named(documents: list[Object]) -> dict[str, Object]:
    """The objects by kind and name."""
    names = [f"{document['kind']} {document['metadata']['name']}" for document in documents]
    assert len(names) == len(set(names)), names
    return dict(zip(names, documents, strict=True))
