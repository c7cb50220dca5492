{{/* The beginning of every name: that of the release, which other charts may share the namespace with. */}}
{{- define "calibrant.fullname" -}}
{{- $name := .Release.Name -}}
{{- if not (contains .Chart.Name $name) -}}{{- $name = printf "%s-%s" $name .Chart.Name -}}{{- end -}}
{{- default $name .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* The labels by which a component is selected: root, component. */}}
{{- define "calibrant.selector" -}}
app.kubernetes.io/name: calibrant
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The name and the labels of an object: root, component, and a name if it is not that of the component. */}}
{{- define "calibrant.metadata" -}}
name: {{ include "calibrant.fullname" .root }}-{{ default .component .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "calibrant.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "calibrant.redisSecret" -}}
{{- default (printf "%s-redis" (include "calibrant.fullname" .)) .Values.redis.existingSecret -}}
{{- end -}}

{{- define "calibrant.metricsSecret" -}}
{{- default (printf "%s-metrics" (include "calibrant.fullname" .)) .Values.metrics.existingSecret -}}
{{- end -}}

{{- define "calibrant.serviceAccount" -}}
{{- with .Values.serviceAccount -}}
{{- if or .create .name -}}{{- default (include "calibrant.fullname" $) .name -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* A value as the text of a variable: texts of a list with commas, an object as JSON. toJson writes no exponents. */}}
{{- define "calibrant.text" -}}
{{- if kindIs "slice" . -}}{{- join "," . -}}{{- else if kindIs "string" . -}}{{- . -}}{{- else -}}{{- toJson . -}}{{- end -}}
{{- end -}}

{{/* A Kubernetes quantity of memory or storage in bytes. */}}
{{- define "calibrant.bytes" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $factors := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if not (hasKey $factors $unit) -}}{{- fail (printf "%s: the unit must be Ki, Mi, Gi, Ti, k, M, G or T" $text) -}}{{- end -}}
{{- mulf (trimSuffix $unit $text | float64) (get $factors $unit) | int64 -}}
{{- end -}}
