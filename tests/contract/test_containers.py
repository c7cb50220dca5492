"""Dockerfile, docker-compose.yml and the manifests agree with the service and with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from backend.store.jobs.queues import QUEUES
from service.route_table import RouteTable
from tests.chart.programs import assert_leads_to_pods, assert_restricted, of_kind, selected, templates_of
from tests.images.stores import compose_command, kubernetes_command

REPOSITORY = Path(__file__).parents[2]
DOCKERFILE = (REPOSITORY / "docker/Dockerfile").read_text("utf-8")
COMPOSE_TEXT = (REPOSITORY / "docker-compose.yml").read_text("utf-8")
COMPOSE = yaml.safe_load(COMPOSE_TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
MANIFESTS = REPOSITORY / "deploy/kubernetes"


def _documents(pattern: str) -> list[dict[str, Any]]:
    texts = (path.read_text("utf-8") for path in sorted(MANIFESTS.glob(pattern)))
    return [document for text in texts for document in yaml.safe_load_all(text)]


EVERY = _documents("**/*.yaml")
PODS = templates_of(EVERY)
CONTAINERS = {name: pod["spec"]["containers"][0] for name, pod in PODS.items()}


# The page is made from the commands; test_pages.py sees to it.
SETTINGS = set(re.findall(r"`(CALIBRANT_\w+)`", (REPOSITORY / "docs/reference/settings.md").read_text("utf-8")))


# The Dockerfile


def test_the_image_holds_every_package_of_the_wheel_and_no_other_folder() -> None:
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    assert set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE)) == packages | {"library"}
    shown = re.findall(r"^!(.+)$", (REPOSITORY / ".dockerignore").read_text("utf-8"), re.MULTILINE)
    assert packages <= set(shown)
    assert all((REPOSITORY / path).exists() for path in shown)


def test_every_target_runs_unprivileged_and_has_a_health_check() -> None:
    parts = re.split(r"^FROM \S+ AS (\S+)$", DOCKERFILE, flags=re.MULTILINE)[1:]
    built = dict(zip(parts[::2], parts[1::2], strict=True))
    assert "USER 10001:10001" in built["unprivileged"]
    assert "USER" not in built["runtime"]
    for target in ("api", "worker-cpu", "worker-gpu", "host"):
        base = "unprivileged" if target == "host" else "runtime"
        assert f"FROM {base} AS {target}\n" in DOCKERFILE
        assert "HEALTHCHECK" in built[target]
        assert "USER" not in built[target]
    assert [target for target in ("api", "worker-cpu", "worker-gpu") if "--from=torch" in built[target]] == [
        "worker-gpu"
    ]


def test_the_default_base_has_a_full_version() -> None:
    assert re.search(r"^ARG BASE=\S+(:\d+\.\d+\.\d+-\S+|@sha256:[0-9a-f]{64})$", DOCKERFILE, re.MULTILINE)


def _store_image() -> str:
    """The Redis image that compose runs by default."""
    match = re.fullmatch(r"\$\{CALIBRANT_REDIS_IMAGE:-(.+)\}", SERVICES["redis"]["image"])
    assert match
    return match[1]


def test_three_quarters_of_the_memory_of_redis_are_for_data_wherever_it_is_stated() -> None:
    manifest = (MANIFESTS / "components/redis/redis.yaml").read_text("utf-8")
    texts = {
        ".env.example": (REPOSITORY / ".env.example").read_text("utf-8"),
        "docker-compose.yml": COMPOSE_TEXT,
        "redis.yaml": manifest,
        "deploy.md": (REPOSITORY / "docs/how-to/deploy.md").read_text("utf-8"),
    }
    for name, text in texts.items():
        whole = re.search(r"REDIS_MEMORY.*?\b(\d+)g\b|limits:\s.*?memory: (\d+)Gi", text, re.DOTALL)
        gigabytes = re.search(r"maxmemory.*?\b(\d+)gb\b", text, re.DOTALL | re.IGNORECASE)
        assert whole, name
        assert gigabytes, name
        assert int(gigabytes[1]) == 0.75 * int(whole[1] or whole[2]), name
        assert "three quarters" in text.lower(), name


# Names that stand in several places


def test_every_variable_that_is_set_is_a_setting() -> None:
    inside = set(re.findall(r"^(?:ENV|   ) (CALIBRANT_\w+)=", DOCKERFILE, re.MULTILINE))
    composed = {name for service in SERVICES.values() for name in service.get("environment", {})} - {"REDISCLI_AUTH"}
    manifested = {variable["name"] for container in CONTAINERS.values() for variable in container["env"]}
    assert inside == {"CALIBRANT_HOST", "CALIBRANT_PORT", "CALIBRANT_DEVICE"}
    assert composed - {"OMP_NUM_THREADS"} == {"CALIBRANT_REDIS_URL"}
    assert (inside | composed | manifested) - {"REDISCLI_AUTH", "OMP_NUM_THREADS"} <= SETTINGS


def test_every_variable_that_compose_reads_is_in_the_example() -> None:
    text = (REPOSITORY / ".env.example").read_text("utf-8")
    for name in set(re.findall(r"(?<!\$)\$\{(\w+)", COMPOSE_TEXT)):
        assert re.search(rf"^#?{name}=", text, re.MULTILINE), name


def test_images_have_the_version_of_the_project() -> None:
    version = PROJECT["project"]["version"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert set(re.findall(r"CALIBRANT_VERSION:-([^}]+)}", COMPOSE_TEXT)) == {version}
    tags = {image["newTag"] for document in EVERY for image in document.get("images", [])}
    assert tags == {version}


def test_every_image_that_is_deployed_is_a_target() -> None:
    targets = set(re.findall(r"^FROM runtime AS (\S+)$", DOCKERFILE, re.MULTILINE))
    assert {service["build"]["target"] for service in SERVICES.values() if "build" in service} == targets
    named = {image["name"] for document in EVERY for image in document.get("images", [])}
    assert named == {f"calibrant/{target}" for target in targets}
    assert {container["image"] for container in CONTAINERS.values()} - named == {_store_image()}


def test_every_file_names_the_same_redis_and_none_older_than_its_security_fixes() -> None:
    example = (REPOSITORY / ".env.example").read_text("utf-8")
    named = {*re.findall(r"\bredis:\d+\.[\w.:@-]+", COMPOSE_TEXT + example), CONTAINERS["calibrant-redis"]["image"]}
    assert named == {_store_image()}
    version = re.fullmatch(r"redis:7\.4\.(\d+)-bookworm(?:@sha256:[0-9a-f]{64})?", _store_image())
    assert version
    assert int(version[1]) >= 11


# The store


@pytest.mark.parametrize("command", [compose_command(), kubernetes_command()], ids=["compose", "kubernetes"])
def test_the_store_keeps_every_write_evicts_nothing_and_shows_no_password(command: list[str]) -> None:
    text = " ".join(command)
    for flag in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction", "--dir /data"):
        assert flag in text
    started, _, standard_input = command[-1].partition("<<END")
    assert "$" not in started
    assert standard_input.split() == ["requirepass", "$REDISCLI_AUTH", "END"]


def test_the_store_refuses_writes_well_before_its_container_ends_for_want_of_memory() -> None:
    limits = {
        "compose": (compose_command(), _default(SERVICES["redis"]["mem_limit"])),
        "kubernetes": (kubernetes_command(), CONTAINERS["calibrant-redis"]["resources"]["limits"]["memory"]),
    }
    for command, limit in limits.values():
        limit_of_store = re.search(r"--maxmemory (\w+)", command[-1])
        assert limit_of_store
        assert 0.5 * _bytes(limit) <= _bytes(limit_of_store[1]) <= 0.75 * _bytes(limit)


def _default(text: Any) -> str:
    """What compose takes where a variable is not set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", str(text))


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d+)(?:g|gb|Gi)", size)
    assert match
    return int(match[1]) << 30


# Compose


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_bounds_of_memory_processors_and_processes(name: str) -> None:
    service = SERVICES[name]
    assert _bytes(_default(service["mem_limit"])) > 0
    assert float(_default(service["cpus"])) > 0
    assert 0 < service["pids_limit"] <= 512


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hardened_and_can_be_scaled(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert "container_name" not in service
    assert "ports" not in service or name == "api"
    assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", []))
    assert "PASSWORD" not in str([service.get("command"), service.get("healthcheck")])


def test_nothing_starts_before_the_store_answers_and_nobody_else_reaches_it() -> None:
    for name in ("api", "worker-cpu", "worker-gpu"):
        assert SERVICES[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert SERVICES["redis"]["networks"] == ["store"]
    assert COMPOSE["networks"]["store"] == {"internal": True}
    assert [name for name, service in SERVICES.items() if "profiles" in service] == ["worker-gpu"]


# Kubernetes


def test_every_file_is_named_by_the_kustomization_beside_it_and_every_name_is_a_file() -> None:
    for path in MANIFESTS.glob("**/kustomization.yaml"):
        kustomization = yaml.safe_load(path.read_text("utf-8"))
        named = {*kustomization.get("resources", []), *kustomization.get("components", [])}
        assert {file.name for file in path.parent.glob("*.yaml")} - {"kustomization.yaml"} == {
            name for name in named if name.endswith(".yaml")
        }
        assert all((path.parent / name).exists() for name in named)


@pytest.mark.parametrize("name", PODS)
def test_a_pod_meets_the_restricted_standard(name: str) -> None:
    pod = PODS[name]["spec"]
    assert_restricted(pod)
    assert pod["securityContext"]["runAsUser"] == (999 if name == "calibrant-redis" else 10001)
    assert "readinessProbe" in CONTAINERS[name]


def test_the_api_leaves_room_in_the_volume_that_a_pod_is_evicted_for() -> None:
    (most,) = (int(e["value"]) for e in CONTAINERS["calibrant-api"]["env"] if e["name"] == "CALIBRANT_MAX_SPOOL_BYTES")
    (temporary,) = (volume for volume in PODS["calibrant-api"]["spec"]["volumes"] if volume["name"] == "tmp")
    assert most < _bytes(temporary["emptyDir"]["sizeLimit"])


def test_workloads_services_budgets_and_rules_lead_to_pods_and_ports_that_are_there() -> None:
    assert_leads_to_pods(EVERY)
    for policy in of_kind(EVERY, "NetworkPolicy"):
        for peer in [peer for rule in policy["spec"].get("ingress", []) for peer in rule["from"]]:
            if "namespaceSelector" in peer:  # pods of others, which call the API
                assert selected(EVERY, policy["spec"]["podSelector"]) == {"calibrant-api"}
            else:
                assert selected(EVERY, peer["podSelector"]) == set(PODS) - {"calibrant-redis"}


def test_probes_ask_open_paths_on_a_named_port_and_a_store_that_is_away_restarts_nothing() -> None:
    api = CONTAINERS["calibrant-api"]
    probes = {kind: api[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {probe["port"] for probe in probes.values()} == {"http"}
    assert all(RouteTable([]).is_open(probe["path"]) for probe in probes.values())
    assert probes["livenessProbe"]["path"] == probes["startupProbe"]["path"] == "/health/live"
    assert probes["readinessProbe"]["path"] == "/health/ready"
    for name in ("calibrant-worker", "calibrant-worker-gpu"):
        assert "livenessProbe" not in CONTAINERS[name]
        assert CONTAINERS[name]["readinessProbe"]["exec"]["command"] == ["python", "-m", "workers.alive"]


def test_the_example_of_the_secret_holds_what_pods_ask_for_and_no_value() -> None:
    (secret,) = of_kind(EVERY, "Secret")
    assert set(secret["stringData"].values()) == {""}
    references = [variable.get("valueFrom", {}) for container in CONTAINERS.values() for variable in container["env"]]
    asked = {
        (reference["name"], reference["key"])
        for reference in (reference_field.get("secretKeyRef") for reference_field in references)
        if reference
    }
    assert asked == {(secret["metadata"]["name"], key) for key in secret["stringData"]}


def test_workers_are_scaled_by_a_metric_that_exists() -> None:
    page = (REPOSITORY / "docs/reference/metrics.md").read_text("utf-8")
    (scaler,) = of_kind(EVERY, "ScaledObject")
    for trigger in scaler["spec"]["triggers"]:
        metric, queue = re.fullmatch(r'(\w+)\{queue="(\w+)"\}', trigger["metadata"]["valueLocation"]).groups()  # type: ignore[union-attr]
        assert f"| `{metric}` | gauge | `queue` |" in page
        assert queue in QUEUES
        assert trigger["metadata"]["url"].endswith("/metrics")
    (authentication,) = of_kind(EVERY, "TriggerAuthentication")
    assert {trigger["authenticationRef"]["name"] for trigger in scaler["spec"]["triggers"]} == {
        authentication["metadata"]["name"]
    }
