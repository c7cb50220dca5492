{{/* What the schema cannot express: values that fit together. */}}
{{- define "calibrant.checks" -}}
{{- $v := .Values -}}
{{- $defaults := include "calibrant.defaults" . | fromJson -}}
{{- if not (or $v.api.enabled $v.worker.enabled $v.workerGpu.enabled $v.host.enabled) -}}
{{- fail "nothing to install: enable api, worker, workerGpu or host" -}}
{{- end -}}
{{- range $component, $values := dict "api" $v.api "host" $v.host -}}
{{- $limit := dig "limits" "memory" "" $values.resources -}}
{{- if and $values.enabled $limit -}}
{{- $requests := dig "max_request_memory" $defaults.max_request_memory $values.settings | int64 -}}
{{- $needed := add $requests 734003200 -}}
{{- if lt (include "calibrant.bytes" $limit | int64) $needed -}}
{{- fail (printf "%s.resources.limits.memory is %s, but a process needs 700 MiB beside the %d bytes of %s.settings.max_request_memory: lower the setting, or raise the limit to at least %dMi" $component $limit $requests $component (div (add $needed 1048575) 1048576)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $spool := dig "max_spool_bytes" $defaults.max_spool_bytes $v.api.settings | int64 -}}
{{- if and $v.api.enabled (ge $spool (include "calibrant.bytes" $v.api.tmpSize | int64)) -}}
{{- fail (printf "api.settings.max_spool_bytes (%d) must be less than api.tmpSize (%s): a pod that fills the volume is evicted" $spool $v.api.tmpSize) -}}
{{- end -}}
{{- $drain := dig "drain_seconds" $defaults.drain_seconds $v.settings | float64 -}}
{{- range $section, $values := dict "api" $v.api "host" $v.host -}}
{{- $unready := dig "unready_seconds" $defaults.unready_seconds $values.settings | float64 -}}
{{- $draining := ternary $drain (float64 $defaults.drain_seconds) (eq $section "api") -}}
{{- if and $values.enabled (gt (addf 5 $unready $draining) (float64 $values.terminationGracePeriodSeconds)) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds (%v) is shorter than what a pod needs to stop: 5 s, unready_seconds (%v) and drain_seconds (%v)" $section $values.terminationGracePeriodSeconds $unready $draining) -}}
{{- end -}}
{{- end -}}
{{- range $component, $values := dict "worker" $v.worker "workerGpu" $v.workerGpu -}}
{{- if and $values.enabled (gt $drain (float64 $values.terminationGracePeriodSeconds)) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds (%v) is shorter than settings.drain_seconds (%v)" $component $values.terminationGracePeriodSeconds $drain) -}}
{{- end -}}
{{- if and $values.enabled $values.autoscaling.enabled (not $v.api.enabled) -}}
{{- fail (printf "%s.autoscaling reads the metrics of the API, which api.enabled=false leaves out" $component) -}}
{{- end -}}
{{- end -}}
{{- range $section, $values := dict "api" $v.api "worker" $v.worker "workerGpu" $v.workerGpu "host" $v.host -}}
{{- with $values.autoscaling -}}
{{- if and .enabled (gt (int64 .minReplicas) (int64 .maxReplicas)) -}}
{{- fail (printf "%s.autoscaling: minReplicas (%v) is above maxReplicas (%v)" $section .minReplicas .maxReplicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $v.redis.server.enabled -}}
{{- $memory := dig "limits" "memory" "" $v.redis.server.resources -}}
{{- if not $memory -}}
{{- fail "redis.server.resources.limits.memory: three quarters of it are for data, so it must be set" -}}
{{- end -}}
{{- if lt (include "calibrant.bytes" $v.redis.server.storage | int64) (mul 3 (include "calibrant.bytes" $memory | int64)) -}}
{{- fail (printf "redis.server.storage (%s) must be at least three times the memory (%s), because Redis ends when its volume is full" $v.redis.server.storage $memory) -}}
{{- end -}}
{{- end -}}
{{- if and $v.host.maps $v.host.mapsVolume -}}
{{- fail "host.maps and host.mapsVolume: set one of them; with neither, the maps are in the image" -}}
{{- end -}}
{{- end -}}
