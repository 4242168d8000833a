{{/* Names, labels, image, and the jobs: which of them writes which stores. */}}

{{- define "reput.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* 30 letters, so that with a store's name it is short enough for a StatefulSet's pods. What has to
be cut ends with a hash of the whole: two long names stay two. */}}
{{- define "reput.fullname" -}}
{{- $name := include "reput.name" . }}
{{- $full := printf "%s-%s" .Release.Name $name }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}
{{- $full = .Release.Name }}
{{- end }}
{{- if gt (len $full) 30 }}
{{- printf "%s-%s" ($full | trunc 21 | trimSuffix "-") ($full | sha256sum | trunc 8) }}
{{- else }}
{{- $full | trimSuffix "-" }}
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
{{- if and (kindIs "invalid" .Values.prometheusRule.dispatchers) (include "reput.alone" .) -}}
0
{{- else if kindIs "invalid" .Values.prometheusRule.dispatchers -}}
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

{{- define "reput.storeMount" -}}
{{ default (printf "/stores/%s" .name) .source.mountPath }}
{{- end }}

{{- define "reput.storePath" -}}
{{ include "reput.storeMount" . }}{{ with .source.directory }}/{{ . }}{{ end }}
{{- end }}

{{/* In a broker's pod a volume of ours must not have the name of one of its own. */}}
{{- define "reput.volumePrefix" -}}
{{ eq .Values.mode "sidecar" | ternary "reput-" "" }}
{{- end }}

{{- define "reput.metricsPort" -}}
{{ include "reput.volumePrefix" . }}metrics
{{- end }}

{{- define "reput.sparkPort" -}}
{{ eq .Values.mode "sidecar" | ternary "reput-spark" "spark-metrics" }}
{{- end }}

{{/* Whole mebibytes of a quantity of Kubernetes: 4Gi, 500M, 1073741824. */}}
{{- define "reput.mebibytes" -}}
{{- $text := kindIs "float64" . | ternary (printf "%.0f" (float64 (kindIs "float64" . | ternary . 0))) (toString .) -}}
{{- $factors := dict "m" 0.001 "k" 1e3 "Ki" 1024.0 "M" 1e6 "Mi" 1048576.0 "G" 1e9 "Gi" 1073741824.0 "T" 1e12 "Ti" 1099511627776.0 "P" 1e15 "Pi" 1125899906842624.0 -}}
{{- $factor := default 1.0 (get $factors (regexFind "[A-Za-z]+$" $text)) -}}
{{- divf (mulf (regexFind "^[0-9.]+" $text | float64) $factor) 1048576.0 | floor | int64 -}}
{{- end }}

{{/* Whole mebibytes of a heap as the JVM writes it: 512m, 2g. */}}
{{- define "reput.heapMebibytes" -}}
{{- $factors := dict "k" "Ki" "m" "Mi" "g" "Gi" "t" "Ti" -}}
{{- include "reput.mebibytes" (printf "%s%s" (regexFind "^[0-9]+" .) (get $factors (regexFind "[a-z]$" .))) -}}
{{- end }}

{{/* A duration of Prometheus: 15s, 1m30s. */}}
{{- define "reput.milliseconds" -}}
{{- $factors := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h|d)" . -1 -}}
{{- $sum = add $sum (mul (regexFind "^[0-9]+" . | int64) (get $factors (regexFind "[a-z]+$" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end }}

{{/* A number as it was written: 2.5, and whole ones without an exponent. */}}
{{- define "reput.number" -}}
{{- if kindIs "float64" . -}}
{{- if eq (floor .) . }}{{ printf "%.0f" . }}{{ else }}{{ toJson . }}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end }}

{{/* "true" where only the server runs: nothing dispatches. */}}
{{- define "reput.alone" -}}
{{- with .Values.serve }}{{ if .alone }}true{{ end }}{{ end -}}
{{- end }}
