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
