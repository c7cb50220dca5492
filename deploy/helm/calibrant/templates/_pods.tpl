{{/* A pod's metadata: root, component, values. A pod is replaced if the settings that it reads from a config map change. */}}
{{- define "calibrant.podMetadata" -}}
labels:
  {{- include "calibrant.selector" . | nindent 2 }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := merge (dict) .values.podAnnotations (default dict .checksums) }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a pod gets its images and on which nodes it runs: root, values. */}}
{{- define "calibrant.scheduling" -}}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The part of a pod's specification that all workloads share: root, component, values. */}}
{{- define "calibrant.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with include "calibrant.serviceAccount" .root }}
serviceAccountName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ int64 .values.terminationGracePeriodSeconds }}
{{- include "calibrant.scheduling" . }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if .values.spreadOverNodes }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "calibrant.selector" . | nindent 8 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "calibrant.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The image of a container: root, values, and the target of the Dockerfile. */}}
{{- define "calibrant.image" -}}
{{- $image := .root.Values.image -}}
image: {{ default (printf "%s/%s:%s" $image.prefix .target (default .root.Chart.AppVersion $image.tag)) .values.image }}
{{- if $image.pullPolicy }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}
{{- end -}}

{{/* Settings as variables, in the order of their names. */}}
{{- define "calibrant.variables" -}}
{{- range $name, $value := . }}
- name: CALIBRANT_{{ upper $name }}
  value: {{ include "calibrant.text" $value | quote }}
{{- end }}
{{- end -}}

{{/* The variables of a container that uses the store: root, values. */}}
{{- define "calibrant.storeVariables" -}}
env:
  - name: CALIBRANT_REDIS_URL
    valueFrom:
      secretKeyRef:
        name: {{ include "calibrant.redisSecret" .root }}
        key: {{ .root.Values.redis.urlKey }}
  # Otherwise libraries start one thread per CPU of the node.
  - name: OMP_NUM_THREADS
    valueFrom:
      resourceFieldRef:
        resource: requests.cpu
  {{- include "calibrant.variables" .values.settings | nindent 2 }}
  {{- with concat .root.Values.env .values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
envFrom:
  - configMapRef:
      name: {{ include "calibrant.fullname" .root }}-settings
      {{- if not .root.Values.settings }}
      optional: true
      {{- end }}
  {{- with concat .root.Values.envFrom .values.envFrom }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The end of a container: root, values, and whether it uses the store. */}}
{{- define "calibrant.containerEnd" -}}
resources:
  {{- toYaml .values.resources | nindent 2 }}
securityContext:
  {{- include "calibrant.containerSecurity" . | nindent 2 }}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if and .store .root.Values.redis.tlsSecret }}
  - name: redis-tls
    mountPath: /etc/calibrant/redis
    readOnly: true
  {{- end }}
  {{- with .values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* The volumes of its pod, with the same arguments. */}}
{{- define "calibrant.volumes" -}}
volumes:
  - name: tmp
    emptyDir:
      sizeLimit: {{ .values.tmpSize }}
  {{- if and .store .root.Values.redis.tlsSecret }}
  - name: redis-tls
    secret:
      secretName: {{ .root.Values.redis.tlsSecret }}
  {{- end }}
  {{- with .values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
