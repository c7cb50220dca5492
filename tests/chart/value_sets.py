"""Values of the chart as different installations have them."""

from __future__ import annotations

from typing import Any

_MAP = '{"format": 1}\n'

_GPU: dict[str, Any] = {"redis": {"server": {"enabled": True}}, "workerGpu": {"enabled": True}}

_EXTERNAL_REDIS: dict[str, Any] = {
    "redis": {"existingSecret": "redis-url", "urlKey": "uri", "tlsSecret": "redis-tls", "ports": [6380]},
    "api": {"settings": {"store_volume": "107374182400"}},
}

_HOST: dict[str, Any] = {
    "api": {"enabled": False},
    "worker": {"enabled": False},
    "host": {
        "enabled": True,
        "maps": {"spam": _MAP, "ham": _MAP},
        "autoscaling": {"enabled": True},
        "settings": {"max_rows": 1000, "log_format": "json"},
    },
    "networkPolicy": {"hostCallers": [{"podSelector": {"matchLabels": {"app": "scorer"}}}]},
}

_SCHEDULING: dict[str, Any] = {
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "priorityClassName": "high",
    "affinity": {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": "topology.kubernetes.io/zone",
                        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "calibrant"}},
                    },
                }
            ]
        }
    },
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
}

_POD: dict[str, Any] = {
    **_SCHEDULING,
    "podLabels": {"team": "risk"},
    "podAnnotations": {"example.com/owner": "risk"},
    "volumes": [{"name": "ca", "configMap": {"name": "company-ca"}}],
    "volumeMounts": [{"name": "ca", "mountPath": "/etc/company", "readOnly": True}],
    "env": [{"name": "SSL_CERT_FILE", "value": "/etc/company/ca.crt"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
}

EVERYTHING: dict[str, Any] = {
    "image": {"prefix": "registry.example/calibrant", "pullPolicy": "IfNotPresent", "pullSecrets": ["registry"]},
    "serviceAccount": {"create": True, "annotations": {"example.com/role": "reader"}},
    "settings": {"quota_maps": 1000, "log_level": "debug", "webhook_hosts": ["a.example.com", "b.example.com"]},
    "env": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "envFrom": [{"secretRef": {"name": "object-storage"}}],
    "redis": {"tlsSecret": "redis-tls", "server": {**_SCHEDULING, "enabled": True, "storageClassName": "fast"}},
    "api": {
        **_POD,
        "serviceAnnotations": {"example.com/exposed": "no"},
        "settings": {"trusted_proxies": "10.0.0.0/8", "max_rows": 1_000_000},
        "ingress": {"enabled": True, "host": "calibrant.example.com", "tlsSecret": "calibrant-tls"},
    },
    "worker": {**_POD, "autoscaling": {"enabled": True}, "settings": {"processes": 2, "warm": True}},
    "workerGpu": {
        **_POD,
        "enabled": True,
        "runtimeClassName": "nvidia",
        "autoscaling": {"enabled": True},
        "disruptionBudget": {"maxUnavailable": 1},
    },
    "host": {
        **_POD,
        "enabled": True,
        "mapsVolume": {"persistentVolumeClaim": {"claimName": "maps"}},
        "autoscaling": {"enabled": True},
    },
    "metrics": {
        "labels": {"release": "prometheus"},
        "serviceMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboards": {"enabled": True},
    },
    "networkPolicy": {
        "egress": [{"ports": [{"port": 443}]}],
        "hostCallers": [{"podSelector": {"matchLabels": {"app": "scorer"}}}],
    },
}

#: Name -> values.
VALUE_SETS: dict[str, dict[str, Any]] = {
    "minimal": {},
    "everything": EVERYTHING,
    "gpu": _GPU,
    "external Redis": _EXTERNAL_REDIS,
    "host alone": _HOST,
}
