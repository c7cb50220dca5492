"""The values of the Helm chart: their names, types, defaults and descriptions.

``values.yaml`` and ``values.schema.json`` are made from these classes, and their settings from those of the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from backend.settings import Setting, SharedSettings, settings_of, variable_of
from backend.telemetry.logs import FORMATS, LEVELS
from service.settings import ScoringSettings, Settings
from workers.settings import WorkerSettings

#: JSON's types of Python's; a list of texts becomes one text with commas.
_TYPES: dict[Any, Any] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": ["string", "array"], "items": {"type": "string"}},
}


class SettingsSection:
    """Settings of processes, as metadata of a field: those of a class, without those of a class above it."""

    def __init__(self, kind: type[Any], without: type[Any] | None = None, *, log: bool = False) -> None:
        """With ``log``, the options of the log too, which are flags of every command and no fields."""
        others = set() if without is None else {setting.name for setting in settings_of(without)}
        self.settings = [setting for setting in settings_of(kind) if setting.name not in others]
        self.options: dict[str, tuple[str, ...]] = (
            {"log_level": tuple(LEVELS), "log_format": tuple(FORMATS)} if log else {}
        )

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the section."""
        properties = {setting.name: _schema_of(setting) for setting in self.settings}
        properties |= {name: {"enum": list(texts)} for name, texts in self.options.items()}
        return {"type": "object", "additionalProperties": False, "properties": properties}

    def lines(self) -> Iterator[tuple[str, str, Any]]:
        """Name, description and default of each setting."""
        for setting in self.settings:
            yield setting.name, setting.meaning, setting.default
        for name, texts in self.options.items():
            yield name, f"{', '.join(texts[:-1])} or {texts[-1]}", {"log_level": "info", "log_format": "auto"}[name]


def _schema_of(setting: Setting) -> dict[str, Any]:
    schema: dict[str, Any] = {"description": f"{setting.meaning} ({variable_of(setting.name)})"}
    takes_json = (setting.example or "").startswith("{")  # values have it as an object, or as its text
    schema |= {"type": ["string", "object"]} if takes_json else _TYPES[setting.value_type]
    if setting.low is not None:
        schema |= {"minimum": setting.low, "maximum": setting.high}
    return schema


def _section(kind: type[Any], without: type[Any] | None = None, *, log: bool = False) -> Any:
    section = SettingsSection(kind, without, log=log)
    return Annotated[dict[str, Any], section, WithJsonSchema(section.schema())]


#: Parts of Kubernetes' own objects, which Kubernetes checks.
Raw = dict[str, Any]
RawList = list[dict[str, Any]]
Count = Annotated[int, Field(ge=0)]
Replicas = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=1, le=65_535)]
Texts = dict[str, str]
#: An amount of memory or storage that the chart computes with.
Quantity = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(k|M|G|T|Ki|Mi|Gi|Ti)?$")]


class Section(BaseModel):
    """A part of the values, which has no others than these."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True, use_enum_values=True)


class Scheduling(Section):
    """On which nodes pods run."""

    node_selector: Texts = {}
    tolerations: RawList = []
    affinity: Raw = {}
    priority_class_name: str = ""


class Image(Section):
    """Where the images are."""

    prefix: str = Field(
        "calibrant",
        description="registry and folder of the images, such as registry.example/calibrant",
        pattern=r"^\S*[^/\s]$",
    )
    tag: str = Field("", description="tag of the images; default: the version of the chart")
    pull_policy: Literal["", "Always", "IfNotPresent", "Never"] = Field("", description="default: that of Kubernetes")
    pull_secrets: list[str] = Field([], description="names of secrets for the registry")


class ServiceAccount(Section):
    """The identity of the pods."""

    create: bool = False
    name: str = Field("", description="default: fullname if it is created, otherwise that of the namespace")
    annotations: Texts = Field({}, description="such as the role of a cloud that may read data sources")


class RedisServer(Scheduling):
    """A Redis of the release."""

    enabled: bool = Field(False, description="a Redis with a volume, which keeps every acknowledged write")
    image: str = "redis:7.4.11-bookworm"
    password_key: str = Field("password", description="key of the secret")
    storage: Quantity = Field("20Gi", description="at least four times the data, and so three times the memory")
    storage_class_name: str = Field("", description="default: that of the cluster")
    resources: Raw = Field(
        {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
        description="three quarters of the memory are for data",
    )


class Redis(Section):
    """How pods reach Redis."""

    existing_secret: str = Field("", description="secret with the URL of Redis; default: FULLNAME-redis")
    url_key: str = Field("url", description="key of the secret, such as redis://... or rediss://...")
    tls_secret: str = Field(
        "",
        description="secret with certificates, mounted at /etc/calibrant/redis; the URL names them, such as "
        "rediss://HOST?ssl_ca_certs=/etc/calibrant/redis/ca.crt",
    )
    ports: list[Port] = Field([6379, 26379], description="ports of Redis and Sentinel that pods may connect to")
    server: RedisServer = RedisServer()


class CpuAutoscaling(Section):
    """Scaling by CPU."""

    enabled: bool = Field(True, description="a HorizontalPodAutoscaler, which needs the metrics server")
    min_replicas: Replicas = 2
    max_replicas: Replicas = 10
    target_cpu_percent: Annotated[int, Field(ge=1, le=100)] = 70


class QueueAutoscaling(Section):
    """Scaling by queued jobs."""

    enabled: bool = Field(
        False, description="a ScaledObject of KEDA 2.16 or later; replicas then apply if it cannot read the queues"
    )
    min_replicas: Replicas = Field(1, description="at least one: its supervisor recovers the jobs of lost workers")
    max_replicas: Replicas = 20
    jobs_per_replica: Replicas = Field(10, description="queued jobs for each worker")


class Workload(Scheduling):
    """What every workload has."""

    enabled: bool = True
    replicas: Count = Field(2, description="number of pods without autoscaling")
    image: str = Field(
        "", description="another image, such as REGISTRY/api@sha256:...; default: that of the section image"
    )
    resources: Raw
    tmp_size: Quantity = Field("1Gi", description="size limit of /tmp, the only writable folder")
    termination_grace_period_seconds: Count = Field(30, description="seconds between SIGTERM and SIGKILL")
    disruption_budget: Raw = Field({}, description="maxUnavailable or minAvailable; {}: none")
    env: RawList = Field([], description="more variables of these pods")
    env_from: RawList = Field([], description="secrets and config maps of variables")
    pod_labels: Texts = {}
    pod_annotations: Texts = {}
    spread_over_nodes: bool = Field(True, description="prefer different nodes for the pods")
    runtime_class_name: str = Field("", description="such as nvidia for GPUs that the default runtime does not see")
    volumes: RawList = []
    volume_mounts: RawList = []


class Ingress(Section):
    """How callers outside the cluster reach the API."""

    enabled: bool = Field(
        False, description="also set api.settings.trusted_proxies to the network of the controller's pods"
    )
    class_name: str = "nginx"
    host: str = Field("", description="required, such as calibrant.example.com")
    path: str = "/"
    tls_secret: str = Field("", description="secret with the certificate of the host")
    annotations: Texts = {
        "nginx.ingress.kubernetes.io/proxy-body-size": "256m",
        "nginx.ingress.kubernetes.io/proxy-read-timeout": "75",
    }


_RESOURCES = {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "4Gi"}}


class Api(Workload):
    """The API."""

    settings: _section(Settings, SharedSettings) = Field(  # type: ignore[valid-type]
        {
            # All client connections come from the few addresses of the ingress controller.
            "max_connections_per_address": 4096,
            # A pod whose /tmp exceeds its size is evicted, even if the node's disk has space.
            "max_spool_bytes": 1_000_000_000,
            # The process takes up to 700 MiB more, which must fit into the limit of its memory.
            "max_request_memory": Settings.max_request_memory,
            # The maps in memory, for a restart of the container while the store is unavailable.
            "held_folder": "/tmp/held",  # noqa: S108 - the folder is in the pod
        },
        description="settings of the API alone",
    )
    resources: Raw = Field(_RESOURCES, description="at least settings.max_request_memory + 700 MiB of memory")
    disruption_budget: Raw = {"maxUnavailable": 1}
    autoscaling: CpuAutoscaling = CpuAutoscaling()
    service_annotations: Texts = {}
    ingress: Ingress = Ingress()


class Worker(Workload):
    """Workers."""

    settings: _section(WorkerSettings, SharedSettings) = Field({}, description="settings of these workers alone")  # type: ignore[valid-type]
    resources: Raw = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    termination_grace_period_seconds: Count = Field(
        60, description="time for running jobs to end; a job that does not end returns to the front of its queue"
    )
    autoscaling: QueueAutoscaling = QueueAutoscaling()


class MapHost(Workload):
    """A host of maps."""

    enabled: bool = Field(False, description="calibrant host: a few maps without Redis, API keys and workers")
    maps: Texts = Field(
        {},
        description="name: map document; use --set-file host.maps.NAME=FILE; at most 1 MiB in all",
        json_schema_extra={"propertyNames": {"pattern": "^[A-Za-z0-9._-]+$"}},
    )
    maps_volume: Raw = Field(
        {},
        description="volume of map documents *.json, such as persistentVolumeClaim: {claimName: maps}; with neither "
        "maps nor a volume, the maps are in /mnt/models of the image",
    )
    settings: _section(ScoringSettings, log=True) = Field(  # type: ignore[valid-type]
        {"max_connections_per_address": 4096}, description="settings of the host"
    )
    resources: Raw = _RESOURCES
    disruption_budget: Raw = {"maxUnavailable": 1}
    autoscaling: CpuAutoscaling = CpuAutoscaling(enabled=False)
    service_annotations: Texts = {}


class ServiceMonitor(Section):
    """How Prometheus finds the metrics."""

    enabled: bool = Field(False, description="a ServiceMonitor of the Prometheus operator for the API and the host")
    interval: str = "30s"


class Rules(Section):
    """Alerts."""

    enabled: bool = Field(False, description="the alerts of deploy/prometheus as a PrometheusRule")


class Dashboards(Section):
    """Dashboards of Grafana."""

    enabled: bool = Field(False, description="the dashboard of deploy/grafana in a config map")
    labels: Texts = Field({"grafana_dashboard": "1"}, description="by which Grafana's sidecar finds it")


class ChartMetrics(Section):
    """Monitoring of the service."""

    existing_secret: str = Field(
        "",
        description="secret with an API key of scope admin, with which Prometheus and KEDA read the metrics; default: "
        "FULLNAME-metrics",
    )
    token_key: str = Field("token", description="key of the secret")
    labels: Texts = Field(
        {}, description="labels by which the operator finds the monitor and the rules, such as release: prometheus"
    )
    service_monitor: ServiceMonitor = ServiceMonitor()
    rules: Rules = Rules()
    dashboards: Dashboards = Dashboards()


class Network(Section):
    """Allowed connections."""

    enabled: bool = Field(True, description="allow only connections to the API, to Redis and to DNS, and those below")
    api_callers: RawList = Field(
        [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}},
                "podSelector": {"matchLabels": {"app.kubernetes.io/component": "controller"}},
            }
        ],
        description="who may call the API: peers of a NetworkPolicy",
    )
    host_callers: RawList = Field([], description="who may call the host")
    egress: RawList = Field(
        [], description="more rules for the API and the workers: webhooks, traces, an issuer of tokens, data sources"
    )
    keda_namespace: str = Field("keda", description="whose pods may read the metrics if workers are scaled by KEDA")
    prometheus_namespace: str = Field("monitoring", description="whose pods may read the metrics if there is a monitor")


class ChartValues(Section):
    """The values of the chart."""

    fullname_override: Annotated[str, Field(pattern="^([a-z]([a-z0-9-]*[a-z0-9])?)?$")] = Field(
        "", description="beginning of every name; default: that of the release, with calibrant if it lacks that"
    )
    image: Image = Image()
    service_account: ServiceAccount = ServiceAccount()
    settings: _section(SharedSettings, log=True) = Field({}, description="settings of the API and of all workers")  # type: ignore[valid-type]
    env: RawList = Field([], description="more variables of the API and of all workers, such as AWS_REGION")
    env_from: RawList = Field([], description="secrets of variables, such as the credentials of data sources")
    redis: Redis = Redis()
    api: Api = Api()
    worker: Worker = Worker(disruption_budget={"maxUnavailable": 1})
    worker_gpu: Worker = Field(
        Worker(
            enabled=False,
            replicas=1,
            resources={
                "requests": {"cpu": "1", "memory": "2Gi"},
                "limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1},
            },
            spread_over_nodes=False,
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            autoscaling=QueueAutoscaling(max_replicas=4),
        ),
        description="workers with a GPU each; the cluster needs NVIDIA's device plugin",
    )
    host: MapHost = MapHost()
    metrics: ChartMetrics = ChartMetrics()
    network_policy: Network = Network()
    # Helm adds these to the values of a chart that another one contains.
    globals: Raw = Field({}, alias="global", description="values of a chart that contains this one; not read")
