{{/* Names, labels, image, and the jobs: which of them writes which stores. */}}

{{- define "reput.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "reput.fullname" -}}
{{- $name := include "reput.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 30 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 30 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "reput.selectorLabels" -}}
app.kubernetes.io/name: {{ include "reput.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reput.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{ include "reput.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: dispatcher
app.kubernetes.io/part-of: rocketmq
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of an object. Arguments: root, suffix, labels, annotations. */}}
{{- define "reput.metadata" -}}
{{- $annotations := merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations -}}
name: {{ include "reput.fullname" .root }}{{ with .suffix }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "reput.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "reput.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "reput.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "reput.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ default .Chart.AppVersion .Values.image.tag }}{{ end }}
{{- end }}

{{/* {"jobs": [{"id": …, "stores": […]}]}: one for each store, or one for all. */}}
{{- define "reput.jobs" -}}
{{- $jobs := list -}}
{{- if .Values.singleJob -}}
{{- $jobs = append $jobs (dict "id" "" "stores" .Values.stores) -}}
{{- else -}}
{{- range .Values.stores -}}
{{- $jobs = append $jobs (dict "id" .name "stores" (list .)) -}}
{{- end -}}
{{- end -}}
{{- dict "jobs" $jobs | toYaml -}}
{{- end }}

{{- define "reput.jobName" -}}
{{ include "reput.fullname" .root }}{{ with .job.id }}-{{ . }}{{ end }}
{{- end }}

{{/* How many dispatchers should answer, and a regular expression of their `job` label. */}}
{{- define "reput.dispatchers" -}}
{{- if kindIs "invalid" .Values.prometheusRule.dispatchers -}}
{{- len (include "reput.jobs" . | fromYaml).jobs -}}
{{- else -}}
{{- int64 .Values.prometheusRule.dispatchers -}}
{{- end -}}
{{- end }}

{{- define "reput.scrapeJob" -}}
{{- $name := include "reput.fullname" . -}}
{{- $monitor := ternary .Values.metrics.podMonitor .Values.metrics.serviceMonitor .Values.metrics.podMonitor.enabled -}}
{{- $labels := include "reput.labels" . | fromYaml -}}
{{- if .Values.prometheusRule.job -}}
{{- .Values.prometheusRule.job -}}
{{- else if and $monitor.jobLabel (hasKey $labels $monitor.jobLabel) -}}
{{- get $labels $monitor.jobLabel -}}
{{- else -}}
{{ $name }}|{{ .Release.Namespace }}/{{ $name }}
{{- end -}}
{{- end }}

{{/* What the values' schema cannot say. */}}
{{- define "reput.check" -}}
{{- if not .Values.stores }}
{{- fail "stores: name at least one store to dispatch, see the chart's README" }}
{{- end }}
{{- $names := dict }}
{{- range .Values.stores }}
{{- if hasKey $names .name }}
{{- fail (printf "stores: two are called %s; each needs a name of its own" .name) }}
{{- end }}
{{- $_ := set $names .name true }}
{{- end }}
{{- if and .Values.kafka.enabled (not .Values.kafka.settings.bootstrap) }}
{{- fail "kafka.settings.bootstrap: say where Kafka is, such as kafka:9092" }}
{{- end }}
{{- if and (eq .Values.mode "sparkApplication") (not .Values.sparkApplication.serviceAccount) }}
{{- fail "sparkApplication.serviceAccount: the driver needs a ServiceAccount that may start executors" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- fail "metrics: serviceMonitor and podMonitor would scrape everything twice; enable one" }}
{{- end }}
{{- if ne (empty .Values.metrics.tls.certFile) (empty .Values.metrics.tls.keyFile) }}
{{- fail "metrics.tls: give certFile and keyFile together, as paths below a mount of secretMounts" }}
{{- end }}
{{- if and .Values.metrics.tls.clientCaFile (not .Values.metrics.tls.certFile) }}
{{- fail "metrics.tls.clientCaFile needs certFile and keyFile" }}
{{- end }}
{{- range list .Values.metrics.serviceMonitor .Values.metrics.podMonitor }}
{{- if and .basicAuth .authorization }}
{{- fail "metrics: a monitor has basicAuth or authorization, not both" }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) }}
{{- fail "metrics.serviceMonitor needs metrics.service.enabled" }}
{{- end }}
{{- end }}

{{- define "reput.storeMount" -}}
{{ default (printf "/stores/%s" .name) .source.mountPath }}
{{- end }}

{{- define "reput.storePath" -}}
{{ include "reput.storeMount" . }}{{ with .source.directory }}/{{ . }}{{ end }}
{{- end }}
