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
  {{- if .anyVersion }}
  any_version = true
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
  {{ $name }}={{ include "reput.property" $value }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.effectiveStorePath" -}}
{{- if eq .root.Values.mode "sidecar" -}}
{{ include "reput.sidecarStoreMount" . }}{{ with .store.source.directory }}/{{ . }}{{ end }}
{{- else -}}
{{ include "reput.storePath" .store }}
{{- end -}}
{{- end }}

{{- define "reput.sidecarStoreMount" -}}
{{ default .root.Values.sidecar.storeMountPath .store.source.mountPath }}
{{- end }}

{{/* A value as java.util.Properties reads it back: escapes for \, line breaks and what is not ASCII.
The schema lets in no character that Go and Java would escape in different ways. */}}
{{- define "reput.property" -}}
{{- if kindIs "string" . -}}
{{- $text := printf "%+q" . | trimPrefix "\"" | trimSuffix "\"" -}}
{{- regexReplaceAll "^ " $text "\\ " -}}
{{- else -}}
{{- include "reput.number" . -}}
{{- end -}}
{{- end }}

{{/* [kafka] of reput.toml: text, numbers, truth values and lists of text are the same in JSON. */}}
{{- define "reput.kafka" -}}
{{- if .Values.kafka.enabled -}}
[kafka]
{{- range $name, $value := omit .Values.kafka.settings "client" }}
{{ $name }} = {{ include "reput.toml" $value }}
{{- end }}
{{- with .Values.kafka.settings.client }}
[kafka.client]
{{- range $name, $value := . }}
{{ $name }} = {{ include "reput.toml" $value }}
{{- end }}
{{- end }}
{{- end -}}
{{- end }}

{{- define "reput.toml" -}}
{{- if kindIs "float64" . }}{{ include "reput.number" . }}{{ else }}{{ toJson . }}{{ end -}}
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
