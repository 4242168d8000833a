{{/* reput.toml and a broker.conf for each store. Arguments: root, job. */}}
{{- define "reput.config" -}}
reput.toml: |
  {{- range .job.stores }}
  [[store]]
  name = {{ .name | toJson }}
  path = {{ include "reput.effectiveStorePath" (dict "root" $.root "store" .) | toJson }}
  output = {{ printf "/output/%s" .name | toJson }}
  {{- with .brokerVersion }}
  broker_version = {{ . | toJson }}
  {{- end }}
  {{- if .brokerConf }}
  broker_conf = "broker-{{ .name }}.conf"
  {{- end }}
  {{- end }}
  {{- with include "reput.kafka" .root }}
  {{- . | nindent 2 }}
  {{- end }}
{{- range .job.stores }}
{{- if .brokerConf }}
broker-{{ .name }}.conf: |
  {{- range $name, $value := .brokerConf }}
  {{ $name }}={{ if kindIs "float64" $value }}{{ $value | int64 }}{{ else }}{{ $value }}{{ end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.effectiveStorePath" -}}
{{- if eq .root.Values.mode "sidecar" -}}
{{ .root.Values.sidecar.storeMountPath }}{{ with .store.source.directory }}/{{ . }}{{ end }}
{{- else -}}
{{ include "reput.storePath" .store }}
{{- end -}}
{{- end }}

{{/* [kafka] of reput.toml: text, numbers, truth values and lists of text are the same in JSON. */}}
{{- define "reput.kafka" -}}
{{- if .Values.kafka.enabled -}}
[kafka]
{{- range $name, $value := .Values.kafka.settings }}
{{ $name }} = {{ if kindIs "float64" $value }}{{ if eq (floor $value) $value }}{{ $value | int64 }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ $value | toJson }}{{ end }}
{{- end }}
{{- end -}}
{{- end }}

{{/* What the job may reach for Kafka, as rules of a NetworkPolicy. */}}
{{- define "reput.kafkaEgress" -}}
{{- if .Values.kafka.enabled -}}
{{- if .Values.kafka.egress -}}
{{ toYaml .Values.kafka.egress }}
{{- else -}}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
    {{- $ports := list }}
    {{- range splitList "," (default "" .Values.kafka.settings.bootstrap) }}
    {{- $ports = append $ports (regexFind "[0-9]+$" (trim .)) }}
    {{- end }}
    {{- range $ports | uniq | compact }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
{{- end -}}
{{- end -}}
{{- end }}
