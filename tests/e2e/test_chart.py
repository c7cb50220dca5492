"""What the real helm renders of the chart, compared with what the real kustomize renders of the manifests."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import kubernetes_validate
import pytest
import yaml

import calibrant
from backend.settings import Setting, settings_of, variable_of
from service.settings import ScoringSettings, Settings
from tests.chart.programs import (
    CHART,
    NotRendered,
    Object,
    assert_leads_to_pods,
    assert_restricted,
    comparable,
    kustomized,
    missing_programs,
    named,
    objects,
    of_kind,
    rendered,
    run,
    selected,
    templates_of,
)
from tests.chart.value_sets import EVERYTHING, VALUE_SETS
from tests.integration.hosting import running_host
from workers.settings import WorkerSettings

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(missing_programs()), reason=missing_programs())]

#: Kinds whose schemas Kubernetes does not have: of KEDA and of the Prometheus operator.
CUSTOM = {"ScaledObject", "TriggerAuthentication", "ServiceMonitor", "PrometheusRule"}
#: The oldest version of Kubernetes that the chart allows.
OLDEST = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["kubeVersion"].removeprefix(">=").removesuffix("-0")
#: Only the manifests have it: helm creates the namespace itself, with --create-namespace.
NOT_IN_THE_CHART = {"Namespace calibrant"}


# The chart and the manifests


@pytest.mark.parametrize(
    ("values", "components"),
    [
        ({}, []),
        ({"redis": {"server": {"enabled": True}}}, ["redis"]),
        ({"workerGpu": {"enabled": True}}, ["gpu"]),
        ({"worker": {"autoscaling": {"enabled": True}}}, ["keda"]),
        (
            {
                "redis": {"server": {"enabled": True}},
                "worker": {"autoscaling": {"enabled": True}},
                "workerGpu": {"enabled": True},
            },
            ["redis", "gpu", "keda"],
        ),
    ],
    ids=["base", "redis", "gpu", "keda", "all"],
)
def test_the_chart_renders_the_objects_of_the_manifests(
    values: dict[str, Any], components: list[str], tmp_path: Path
) -> None:
    chart = named([comparable(document) for document in rendered(values, tmp_path)])
    manifests = named([comparable(document) for document in kustomized(tmp_path, *components)])
    assert chart.keys() == manifests.keys() - NOT_IN_THE_CHART
    for name, document in chart.items():
        assert document == manifests[name], name


def test_every_component_of_the_manifests_is_compared() -> None:
    components = {path.parent.name for path in CHART.parents[1].glob("kubernetes/components/*/kustomization.yaml")}
    assert components == {"redis", "gpu", "keda"}


def test_the_comparison_sees_a_change_of_any_value(tmp_path: Path) -> None:
    (before,) = (comparable(d) for d in rendered({}, tmp_path) if named([d]).keys() == {"Deployment calibrant-api"})
    changed = rendered({"api": {"tmpSize": "2Gi"}, "redis": {"urlKey": "uri"}}, tmp_path)
    after = comparable(named(changed)["Deployment calibrant-api"])
    names = [variable["name"] for variable in before["spec"]["template"]["spec"]["containers"][0]["env"]]
    assert list(_differences(before, after)) == [
        f"/spec/template/spec/containers/0/env/{names.index('CALIBRANT_REDIS_URL')}/valueFrom/secretKeyRef/key",
        "/spec/template/spec/volumes/0/emptyDir/sizeLimit",
    ]


def _differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from _differences(before.get(name), after.get(name), f"{at}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, (first, other) in enumerate(zip(before, after, strict=True)):
            yield from _differences(first, other, f"{at}/{i}")
    elif before != after:
        yield at


# What Kubernetes accepts


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_kubernetes_accepts_every_object(release: list[Object], version: str) -> None:
    for document in release:
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)


def test_every_pod_meets_the_restricted_standard_and_has_no_token(release: list[Object]) -> None:
    pods = templates_of(release)
    assert pods
    for pod in [template["spec"] for template in pods.values()]:
        assert_restricted(pod)
        assert pod["enableServiceLinks"] is False  # its variables would be refused as unknown settings
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert pod["securityContext"]["runAsUser"] > 0
        assert all("hostPath" not in volume for volume in pod.get("volumes", []))
        for container in pod["containers"]:
            assert not container["image"].endswith(":latest")
            assert ":" in container["image"]


def test_no_object_contains_a_secret(release: list[Object]) -> None:
    assert of_kind(release, "Secret") == []
    for template in templates_of(release).values():
        for variable in template["spec"]["containers"][0]["env"]:
            assert "URL" not in variable["name"] or "secretKeyRef" in variable["valueFrom"]


# Objects that refer to each other


def test_services_budgets_policies_and_scalers_lead_to_pods_and_ports(release: list[Object]) -> None:
    assert_leads_to_pods(release)
    deployments = {document["metadata"]["name"]: document for document in of_kind(release, "Deployment")}
    for scaler in of_kind(release, "HorizontalPodAutoscaler", "ScaledObject"):
        # Each upgrade would reset what the scaler set.
        assert "replicas" not in deployments[scaler["metadata"]["name"]]["spec"]


def test_every_pod_has_a_policy_for_its_connections(release: list[Object]) -> None:
    for direction in ("Ingress", "Egress"):
        policies = [p for p in of_kind(release, "NetworkPolicy") if direction in p["spec"]["policyTypes"]]
        covered = [selected(release, policy["spec"]["podSelector"]) for policy in policies]
        assert set().union(*covered) == templates_of(release).keys(), direction


def test_every_config_map_and_volume_that_a_pod_needs_is_rendered_or_named_by_the_values(
    everything: list[Object],
) -> None:
    maps = {document["metadata"]["name"] for document in of_kind(everything, "ConfigMap")}
    for name, template in templates_of(everything).items():
        pod = template["spec"]
        for container in pod["containers"]:
            sources = [source["configMapRef"] for source in container.get("envFrom", []) if "configMapRef" in source]
            assert all(source["name"] in maps and "optional" not in source for source in sources)
            mounted = {mount["name"] for mount in container["volumeMounts"]} - {"data"}
            assert mounted == {volume["name"] for volume in pod.get("volumes", [])}, name


def test_two_releases_share_a_namespace(tmp_path: Path) -> None:
    first = rendered(EVERYTHING, tmp_path)
    second = objects(
        run("helm", "template", "other", CHART, "--namespace", "calibrant", "--values", tmp_path / "values.yaml")
    )
    assert not named(first).keys() & named(second).keys()
    for documents, others in ((first, second), (second, first)):
        for document in documents:
            for selector in (
                (document["spec"].get("selector"), document["spec"].get("podSelector")) if "spec" in document else ()
            ):
                if isinstance(selector, dict) and document["kind"] != "ServiceMonitor":
                    matching = selector if "matchLabels" in selector else {"matchLabels": selector}
                    assert not selected(others, matching), document["metadata"]["name"]


# Upgrades


def _templates(values: dict[str, Any], folder: Path) -> dict[str, Object]:
    return templates_of(rendered(values, folder))


def test_a_changed_setting_replaces_the_pods_that_read_it_and_no_others(tmp_path: Path) -> None:
    def changed(section: str, values: dict[str, Any]) -> set[str]:
        after_values = copy.deepcopy(EVERYTHING)
        part = after_values
        for name in section.split("."):
            part = part.setdefault(name, {})
        part.update(values)
        before, after = _templates(EVERYTHING, tmp_path), _templates(after_values, tmp_path)
        return {name for name in before if before[name] != after[name]}

    users = {"calibrant-api", "calibrant-worker", "calibrant-worker-gpu"}
    assert changed("settings", {"quota_maps": 1001}) == users
    assert changed("api.settings", {"max_rows": 7}) == {"calibrant-api"}
    assert changed("worker.settings", {"processes": 3}) == {"calibrant-worker"}
    assert changed("metrics.rules", {"enabled": False}) == set()


def test_a_changed_map_replaces_the_pods_of_the_host(tmp_path: Path) -> None:
    host_values = copy.deepcopy(VALUE_SETS["host alone"])
    before = _templates(host_values, tmp_path)
    host_values["host"]["maps"]["spam"] = '{"format": 1, "version": 2}\n'
    assert _templates(host_values, tmp_path) != before


def test_the_package_renders_what_the_folder_renders(tmp_path: Path) -> None:
    run("helm", "package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    assert rendered(EVERYTHING, tmp_path, chart=package) == rendered(EVERYTHING, tmp_path)


def test_helm_finds_no_fault_in_the_chart(tmp_path: Path) -> None:
    for values in VALUE_SETS.values():
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        assert "0 chart(s) failed" in run("helm", "lint", "--strict", CHART, "--values", file)


# Settings


def _sample(setting: Setting) -> Any:
    """A value that is not the default."""
    if setting.value_type is bool:
        return not setting.default
    if setting.value_type is str:
        return setting.example or "any"
    # Large, so that a number written with an exponent would be seen.
    return int(min(setting.high, max(setting.low or 0, 123_456_789)))


@pytest.mark.parametrize(
    ("component", "section", "command", "kind"),
    [
        ("api", "api", ["api"], Settings),
        ("worker", "worker", ["worker"], WorkerSettings),
        ("worker-gpu", "workerGpu", ["worker"], WorkerSettings),
        ("host", "host", ["host", "maps"], ScoringSettings),
    ],
)
def test_a_program_reads_every_setting_as_the_values_have_it(
    component: str, section: str, command: list[str], kind: type[Any], tmp_path: Path
) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    shared = schema["properties"]["settings"]["properties"] if component != "host" else {}
    settings = {setting.name: _sample(setting) for setting in settings_of(kind)}
    own = {name: setting for name, setting in settings.items() if name not in shared}
    common = {name: setting for name, setting in settings.items() if name in shared}
    room = {"terminationGracePeriodSeconds": 10**9, "tmpSize": "1Ti", "resources": {"limits": {"memory": "1Ti"}}}
    values = {name: copy.deepcopy(room) for name in ("api", "worker", "workerGpu", "host")}
    values[section] |= {"enabled": True, "settings": own}
    values["settings"] = common
    documents = rendered(values, tmp_path)
    (container,) = templates_of(documents)[f"calibrant-{component}"]["spec"]["containers"]
    variables = {v["name"]: v["value"] for v in container["env"] if "value" in v}
    for source in container.get("envFrom", []):
        variables |= named(documents)[f"ConfigMap {source['configMapRef']['name']}"]["data"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("CALIBRANT_")}
    environment |= variables | {"CALIBRANT_REDIS_URL": "redis://localhost"}
    process = subprocess.run(
        [sys.executable, "-m", "calibrant", *command, "--show-settings"],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    shown = dict(line.split("=", 1) for line in process.stdout.splitlines())
    for setting in settings_of(kind):
        text = shown[variable_of(setting.name)]
        stated = settings[setting.name]
        assert text == str(stated) or float(text) == stated, setting.name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"api": {"settings": {"max_row": 1}}}, "additional properties 'max_row' not allowed"),
        ({"settings": {"max_rows": 1}}, "at '/settings': additional properties 'max_rows' not allowed"),
        ({"api": {"settings": {"max_rows": "many"}}}, "at '/api/settings/max_rows': got string, want integer"),
        ({"api": {"settings": {"max_classes": 1}}}, "at '/api/settings/max_classes': minimum: got 1, want 2"),
        ({"settings": {"log_level": "loud"}}, "at '/settings/log_level': value must be one of 'debug'"),
        ({"worker": {"replica": 3}}, "at '/worker': additional properties 'replica' not allowed"),
        ({"worker": {"replicas": -1}}, "at '/worker/replicas': minimum"),
        ({"worker": {"autoscaling": {"minReplicas": 0}}}, "at '/worker/autoscaling/minReplicas': minimum"),
        ({"image": {"pullPolicy": "always"}}, "at '/image/pullPolicy': value must be one of"),
        ({"redis": {"server": {"storage": "20 GB"}}}, "at '/redis/server/storage': '20 GB' does not match pattern"),
        ({"redis": {"password": "x"}}, "at '/redis': additional properties 'password' not allowed"),
        ({"host": {"maps": {"a/b": "{}"}}}, "invalid propertyName 'a/b'"),
        ({"api": {"resources": {"limits": {"memory": "2Gi"}}}}, "raise the limit to at least 3004Mi"),
        ({"api": {"tmpSize": "900Mi"}}, "api.settings.max_spool_bytes (1000000000) must be less than api.tmpSize"),
        ({"settings": {"drain_seconds": 21}}, "api.terminationGracePeriodSeconds (30) is shorter"),
        (
            {"host": {"enabled": True, "settings": {"unready_seconds": 60}}},
            "host.terminationGracePeriodSeconds (30) is shorter",
        ),
        ({"api": {"ingress": {"enabled": True}}}, "api.ingress.host: name the host"),
        (
            {"api": {"enabled": False}, "worker": {"autoscaling": {"enabled": True}}},
            "worker.autoscaling reads the metrics of the API",
        ),
        ({"api": {"enabled": False}, "worker": {"enabled": False}}, "nothing to install"),
        ({"worker": {"autoscaling": {"enabled": True, "minReplicas": 30}}}, "minReplicas (30) is above maxReplicas"),
        ({"redis": {"server": {"enabled": True, "storage": "10Gi"}}}, "must be at least three times the memory (4Gi)"),
        ({"image": {"prefix": "registry.example/"}}, "at '/image/prefix': 'registry.example/' does not match pattern"),
        ({"host": {"enabled": True, "maps": {"a": "{}"}, "mapsVolume": {"emptyDir": {}}}}, "set one of them"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_place(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(NotRendered) as error:
        rendered(values, tmp_path)
    assert message in str(error.value)


# Redis


@pytest.mark.parametrize(
    ("memory", "bound"), [("4Gi", "3gb"), ("6Gi", "4608mb"), ("8192Mi", "6gb"), ("1.5Gi", "1152mb")]
)
def test_redis_has_three_quarters_of_its_memory_for_data_and_the_api_knows_its_volume(
    memory: str, bound: str, tmp_path: Path
) -> None:
    server = {"enabled": True, "storage": "40Gi", "resources": {"limits": {"memory": memory}}}
    documents = rendered({"redis": {"server": server}}, tmp_path)
    (redis,) = templates_of(documents)["calibrant-redis"]["spec"]["containers"]
    assert f"--maxmemory {bound} " in redis["args"][0]
    (api,) = templates_of(documents)["calibrant-api"]["spec"]["containers"]
    assert {"name": "CALIBRANT_STORE_VOLUME", "value": str(40 << 30)} in api["env"]


def test_pods_mount_the_certificates_of_an_external_redis_and_may_connect_to_its_port(tmp_path: Path) -> None:
    documents = rendered(VALUE_SETS["external Redis"], tmp_path)
    for name in ("calibrant-api", "calibrant-worker"):
        pod = templates_of(documents)[name]["spec"]
        (container,) = pod["containers"]
        (url,) = (variable for variable in container["env"] if variable["name"] == "CALIBRANT_REDIS_URL")
        assert url["valueFrom"]["secretKeyRef"] == {"name": "redis-url", "key": "uri"}
        (mount,) = (mount for mount in container["volumeMounts"] if mount["mountPath"] == "/etc/calibrant/redis")
        (volume,) = (volume for volume in pod["volumes"] if volume["name"] == mount["name"])
        assert volume["secret"] == {"secretName": "redis-tls"}
    ports = [rule["ports"] for rule in named(documents)["NetworkPolicy calibrant-egress"]["spec"]["egress"]]
    assert [{"port": 6380}] in ports


# A host


def test_a_host_serves_the_maps_of_its_config_map(tmp_path: Path) -> None:
    predictions, labels = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 0, 0, 0, 1, 0, 1, 1]
    calibrant.fit("isotonic", predictions, labels).save(tmp_path / "spam.json")
    host_values = VALUE_SETS["host alone"] | {"host": {"enabled": True, "settings": {"log_format": "text"}}}
    documents = rendered(host_values, tmp_path, "--set-file", f"host.maps.spam={tmp_path / 'spam.json'}")
    files = named(documents)["ConfigMap calibrant-host-maps"]["data"]
    # The kubelet mounts a config map as links to files in a hidden folder, which it replaces as a whole.
    folder = tmp_path / "models"
    (folder / "..2026").mkdir(parents=True)
    (folder / "..data").symlink_to("..2026")
    for name, text in files.items():
        (folder / "..2026" / name).write_text(text, encoding="utf-8")
        (folder / name).symlink_to(f"..data/{name}")
    (container,) = templates_of(documents)["calibrant-host"]["spec"]["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    with running_host(str(folder), **variables) as host:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert httpx.get(host.url + container[probe]["httpGet"]["path"]).status_code == 200
        response = httpx.post(f"{host.url}/v1/models/spam:predict", json={"instances": [0.25, 0.75]})
    assert response.json() == {"predictions": [0.0, 0.75]}


# Notes


@pytest.mark.parametrize("name", VALUE_SETS)
def test_the_notes_name_objects_of_the_release(name: str, tmp_path: Path) -> None:
    documents = rendered(VALUE_SETS[name], tmp_path)
    arguments = ("--values", tmp_path / "values.yaml")
    text = run("helm", "install", "calibrant", CHART, "-n", "calibrant", "--dry-run=client", *arguments)
    notes = text.partition("\nNOTES:\n")[2]
    workloads = re.findall(r"\bdeploy(?:ment)?/([\w-]+)", notes)
    assert workloads
    assert set(workloads) <= templates_of(documents).keys()
    services = {service["metadata"]["name"] for service in of_kind(documents, "Service")}
    assert set(re.findall(r"\bservice/([\w-]+)", notes)) <= services


def test_the_notes_warn_of_targets_that_no_pod_can_reach_and_of_untrusted_proxies(tmp_path: Path) -> None:
    values = {
        "settings": {"otlp_endpoint": "http://collector.example.com:4318"},
        "api": {"ingress": {"enabled": True, "host": "calibrant.example.com"}},
    }
    rendered(values, tmp_path)
    install = ("install", "calibrant", CHART, "--dry-run=client", "--values", tmp_path / "values.yaml")
    assert re.findall(r"^WARNING: (\S+)", run("helm", *install), re.MULTILINE) == [
        "api.settings.trusted_proxies",
        "otlp_endpoint",
    ]


# Monitoring


def test_prometheus_finds_the_services_and_reads_them_with_an_existing_key(everything: list[Object]) -> None:
    monitors = {monitor["metadata"]["name"]: monitor for monitor in of_kind(everything, "ServiceMonitor")}
    assert monitors.keys() == {"calibrant-api", "calibrant-host"}
    for name, monitor in monitors.items():
        selector = monitor["spec"]["selector"]["matchLabels"]
        services = [s for s in of_kind(everything, "Service") if selector.items() <= s["metadata"]["labels"].items()]
        assert [service["metadata"]["name"] for service in services] == [name]
        assert monitor["spec"]["jobLabel"] in services[0]["metadata"]["labels"]
        assert {e["port"] for e in monitor["spec"]["endpoints"]} == {p["name"] for p in services[0]["spec"]["ports"]}
        assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitors["calibrant-api"]["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "calibrant-metrics", "key": "token"}}


def test_the_rules_and_the_dashboard_are_rendered_unchanged(everything: list[Object]) -> None:
    (rule,) = of_kind(everything, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/rules.yaml").read_text("utf-8"))
    dashboards = named(everything)["ConfigMap calibrant-dashboards"]
    assert dashboards["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboards["data"]["calibrant.json"]) == json.loads(
        (CHART / "files/calibrant.json").read_text("utf-8")
    )


def test_workers_are_scaled_by_the_queues_that_they_process(tmp_path: Path) -> None:
    worker = {"autoscaling": {"enabled": True}, "settings": {"queues": ["evaluations"]}}
    (scaler,) = of_kind(rendered({"worker": worker}, tmp_path), "ScaledObject")
    (trigger,) = scaler["spec"]["triggers"]
    assert trigger["metadata"]["valueLocation"] == 'calibrant_queue_jobs{queue="evaluations"}'


def test_gpu_workers_are_scaled_by_their_own_queue(everything: list[Object]) -> None:
    queues = {
        scaler["metadata"]["name"]: [t["metadata"]["valueLocation"] for t in scaler["spec"]["triggers"]]
        for scaler in of_kind(everything, "ScaledObject")
    }
    assert queues == {
        "calibrant-worker": ['calibrant_queue_jobs{queue="fits"}', 'calibrant_queue_jobs{queue="evaluations"}'],
        "calibrant-worker-gpu": ['calibrant_queue_jobs{queue="fits-gpu"}'],
    }
