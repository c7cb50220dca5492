"""What a cluster requires of a release: pod security, scaling, disruption, the network, secrets, and an issuer."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.stack import stack
from tests.chart.programs import (
    WORKLOADS,
    NotRendered,
    Object,
    kustomized,
    missing_programs,
    named,
    of_kind,
    rendered,
    templates_of,
)
from tests.chart.value_sets import EVERYTHING, VALUE_SETS
from tests.integration.conftest import patient
from tests.integration.token_issuer import token_issuer
from tests.store_folder import store_folder

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing_programs()), reason=missing_programs())]

#: Types of volumes that the restricted standard allows.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def _pods(documents: list[Object]) -> dict[str, Object]:
    """The pods by the name of their workload."""
    return {name: template["spec"] for name, template in templates_of(documents).items()}


def _of_kind(documents: list[Object], kind: str) -> dict[str, Object]:
    return {d["metadata"]["name"]: d for d in documents if d["kind"] == kind}


# --- Pod Security Standards, restricted: https://kubernetes.io/docs/concepts/security/pod-security-standards/


def _violations(pod: Object) -> Iterator[str]:
    """The rules of the restricted standard that a pod breaks, by the fields that the standard names."""
    own = pod.get("securityContext", {})
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    if own.get("sysctls") or own.get("seLinuxOptions", {}).keys() & {"user", "role"}:
        yield "sysctls or seLinuxOptions"
    for volume in pod.get("volumes", []):
        if (volume.keys() - {"name"}) - VOLUMES:
            yield f"volume {volume['name']}"
    for container in [*pod["containers"], *pod.get("initContainers", []), *pod.get("ephemeralContainers", [])]:
        context = container.get("securityContext", {})
        yield from _violations_of(context, own)
        if any("hostPort" in port for port in container.get("ports", [])):
            yield "hostPort"


def _violations_of(context: Object, own: Object) -> Iterator[str]:
    """The rules that the security context of a container breaks, in a pod with another."""
    if context.get("privileged") or context.get("procMount", "Default") != "Default":
        yield "privileged"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation"
    if context.get("runAsNonRoot", own.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot"
    if context.get("runAsUser", own.get("runAsUser")) == 0:
        yield "runAsUser"
    if (context.get("seccompProfile") or own.get("seccompProfile", {})).get("type") != "RuntimeDefault":
        yield "seccompProfile"
    if context.get("capabilities", {}).get("drop") != ["ALL"] or context["capabilities"].get("add"):
        yield "capabilities"


def test_every_pod_of_the_chart_and_of_the_manifests_meets_the_restricted_standard(
    release: list[Object], tmp_path: Path
) -> None:
    for documents in (release, kustomized(tmp_path, "redis", "gpu", "keda")):
        assert {name: list(_violations(pod)) for name, pod in _pods(documents).items()} == {
            name: [] for name in _pods(documents)
        }


@pytest.mark.parametrize(
    ("place", "change"),
    [
        (("hostPID",), True),
        (("securityContext", "runAsUser"), 0),
        (("securityContext", "runAsNonRoot"), False),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}),
        (("containers", 0, "securityContext", "privileged"), True),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["ALL"], "add": ["NET_ADMIN"]}),
        (("containers", 0, "ports"), [{"containerPort": 8000, "hostPort": 8000}]),
        (("volumes",), [{"name": "root", "hostPath": {"path": "/"}}]),
    ],
)
def test_a_pod_that_breaks_the_restricted_standard_is_noticed(
    everything: list[Object], place: tuple[Any, ...], change: object
) -> None:
    pod = copy.deepcopy(_pods(everything)["calibrant-api"])
    part: Any = pod
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = change
    assert len(list(_violations(pod))) == 1


# --- Scaling, and disruptions


def test_both_kinds_of_workers_are_scaled_by_their_queues_with_the_key_of_an_existing_secret(tmp_path: Path) -> None:
    chart_values = copy.deepcopy(EVERYTHING)
    chart_values["metrics"] |= {"existingSecret": "scraper", "tokenKey": "key"}
    documents = rendered(chart_values, tmp_path)
    scalers, keys = _of_kind(documents, "ScaledObject"), _of_kind(documents, "TriggerAuthentication")
    (authentication,) = keys
    assert keys[authentication]["spec"]["secretTargetRef"] == [{"parameter": "token", "name": "scraper", "key": "key"}]
    assert scalers.keys() == {"calibrant-worker", "calibrant-worker-gpu"}
    (service,) = (name for name in _of_kind(documents, "Service") if name == "calibrant-api")
    for name, scaler in scalers.items():
        spec = scaler["spec"]
        assert spec["scaleTargetRef"] == {"name": name}
        assert 0 < spec["minReplicaCount"] <= spec["maxReplicaCount"]
        assert spec["fallback"]["replicas"] <= spec["maxReplicaCount"]
        for trigger in spec["triggers"]:
            assert trigger["authenticationRef"] == {"name": authentication}
            assert trigger["metadata"]["url"] == f"http://{service}.calibrant.svc/metrics"
            assert float(trigger["metadata"]["targetValue"]) > 0
    queues = {name: [_queue(trigger) for trigger in scaler["spec"]["triggers"]] for name, scaler in scalers.items()}
    assert queues == {"calibrant-worker": ["fits", "evaluations"], "calibrant-worker-gpu": ["fits-gpu"]}


def _queue(trigger: Object) -> str:
    return str(trigger["metadata"]["valueLocation"]).partition('queue="')[2].rstrip('"}')


def test_the_operator_that_scales_may_connect_to_the_api_and_nobody_else_may(everything: list[Object]) -> None:
    policies = _of_kind(everything, "NetworkPolicy")
    (rule,) = policies["calibrant-api-keda"]["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}]
    assert policies["calibrant-worker"]["spec"].get("ingress") is None
    assert policies["calibrant-worker"]["spec"]["policyTypes"] == ["Ingress"]
    for name, policy in policies.items():
        for rule in policy["spec"].get("ingress", []):
            assert rule["from"], name
            assert {} not in rule["from"], name


def test_a_disruption_leaves_a_pod_of_every_workload_that_has_several(release: list[Object]) -> None:
    budgets = _of_kind(release, "PodDisruptionBudget")
    workloads = {document["metadata"]["name"]: document for document in of_kind(release, *WORKLOADS)}
    scalers = {**_of_kind(release, "HorizontalPodAutoscaler"), **_of_kind(release, "ScaledObject")}
    assert budgets.keys() <= workloads.keys()
    assert {"calibrant-api", "calibrant-host"} & workloads.keys() <= budgets.keys()
    for name, budget in budgets.items():
        spec = scalers[name]["spec"] if name in scalers else workloads[name]["spec"]
        least = spec.get("minReplicas", spec.get("minReplicaCount", spec.get("replicas")))
        assert budget["spec"].get("maxUnavailable", least - budget["spec"].get("minAvailable", 0)) >= 1, name
        assert len(budget["spec"].keys() & {"maxUnavailable", "minAvailable"}) == 1


# --- Existing secrets, and an external Redis


def _secrets(documents: list[Object]) -> set[str]:
    """The names of secrets that objects refer to."""

    def names(part: Any) -> Iterator[str]:
        for name, inner in part.items() if isinstance(part, dict) else ():
            if name in ("secretKeyRef", "secretRef") or (name == "credentials" and "key" in inner):
                yield inner["name"]
            elif name == "secretName":
                yield inner
            elif name in ("secretTargetRef", "imagePullSecrets"):
                yield from (entry["name"] for entry in inner)
            yield from names(inner)
        for inner in part if isinstance(part, list) else ():
            yield from names(inner)

    return set(names(documents))


def test_a_release_refers_to_the_existing_secrets_of_its_values_and_to_no_others(tmp_path: Path) -> None:
    chart_values = copy.deepcopy(EVERYTHING)
    chart_values["redis"] = {"existingSecret": "company-redis", "tlsSecret": "company-ca", "ports": [6390]}
    chart_values["metrics"]["existingSecret"] = "scraper"
    expected = {"company-redis", "company-ca", "scraper", "registry", "calibrant-tls", "object-storage", "more"}
    documents = rendered(chart_values, tmp_path)
    assert _secrets(documents) == expected
    assert _of_kind(documents, "Secret") == {}


def test_with_an_external_redis_there_is_no_redis_and_pods_may_connect_to_its_port_alone(tmp_path: Path) -> None:
    documents = rendered(VALUE_SETS["external Redis"], tmp_path)
    assert not [name for name in named(documents) if "redis" in name]
    (egress,) = (p for p in _of_kind(documents, "NetworkPolicy").values() if "Egress" in p["spec"]["policyTypes"])
    ports = [port["port"] for rule in egress["spec"]["egress"] for port in rule["ports"]]
    assert ports == [53, 53, 6380]
    with pytest.raises(NotRendered):
        rendered({"redis": {"ports": [0]}}, tmp_path)


# --- An issuer of tokens


def test_a_release_with_an_issuer_accepts_its_tokens_and_only_the_api_has_its_settings(tmp_path: Path) -> None:
    with token_issuer() as issuer, store_folder() as folder, (folder / "log").open("ab") as log:
        settings = {
            "oidc_issuer": issuer.url,
            "oidc_audience": "calibrant",
            "oidc_tenant_claim": "team",
            "oidc_scopes": ["approvers=maps:promote", "approvers=maps:read"],
        }
        documents = rendered({"api": {"settings": settings}}, tmp_path)
        variables = {name: _variables(documents, pod) for name, pod in _pods(documents).items()}
        assert not [name for name in variables["calibrant-worker"] if "OIDC" in name]
        own = {name: setting for name, setting in variables["calibrant-api"].items() if "OIDC" in name}
        assert own.keys() == {f"CALIBRANT_{name.upper()}" for name in settings}
        inherited = {name: setting for name, setting in os.environ.items() if not name.startswith("CALIBRANT_")} | own
        running = stack(host="127.0.0.1", port=0, data=folder / "data", log=log, inherited=patient(inherited))
        with running as started, httpx.Client(base_url=started.url, timeout=600, trust_env=False) as api:
            for scope, path, status in (
                ("approvers", "/maps", 200),
                ("approvers", "/monitors", 403),
                ("others", "/maps", 403),
                ("", "/maps", 401),
            ):
                token = issuer.token(scope=scope) if scope else "none"
                assert api.get(path, headers={"Authorization": f"Bearer {token}"}).status_code == status


def _variables(documents: list[Object], pod: Object) -> dict[str, str]:
    (container,) = pod["containers"]
    maps = [source["configMapRef"]["name"] for source in container.get("envFrom", []) if "configMapRef" in source]
    texts = {name: text for source in maps for name, text in _data(documents, source).items()}
    return texts | {v["name"]: v["value"] for v in container["env"] if "value" in v}


def _data(documents: list[Object], name: str) -> dict[str, str]:
    """The texts of a config map, which is missing without settings."""
    texts: dict[str, str] = named(documents).get(f"ConfigMap {name}", {}).get("data", {})
    return texts
