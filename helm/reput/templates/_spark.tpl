{{/* Pods of the Spark operator, and what they may reach. */}}

{{/* Driver and executors of the release. */}}
{{- define "reput.sparkPeers" -}}
- podSelector:
    matchLabels:
      {{- include "reput.selectorLabels" . | nindent 6 }}
- podSelector:
    matchLabels:
      app.kubernetes.io/name: {{ include "reput.name" . }}-executor
      app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* One another, and names: executors look for their driver by its Service. */}}
{{- define "reput.sparkEgress" -}}
- to:
    {{- include "reput.sparkPeers" . | nindent 4 }}
- ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end }}

{{/* The driver asks the API server for executors; a policy cannot name that one. */}}
{{- define "reput.driverEgress" -}}
{{ include "reput.sparkEgress" . }}
- ports:
    {{- range .Values.sparkApplication.apiServerPorts }}
    - port: {{ . }}
      protocol: TCP
    {{- end }}
{{- end }}

{{- define "reput.authMount" -}}
{{- if .Values.sparkApplication.authSecret.name -}}
- name: spark-auth
  mountPath: /etc/reput-auth
  readOnly: true
{{- end }}
{{- end }}

{{/* Fields of a pod that SparkApplication has none for. */}}
{{- define "reput.templateFields" -}}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $name := list "dnsPolicy" "runtimeClassName" }}
{{- with get $.Values $name }}
{{ $name }}: {{ . }}
{{- end }}
{{- end }}
{{- if kindIs "bool" .Values.hostUsers }}
hostUsers: {{ .Values.hostUsers }}
{{- end }}
{{- end }}

{{/* Memory and processors are Spark's. */}}
{{- define "reput.templateResources" -}}
resources:
  {{- range $name := list "requests" "limits" }}
  {{- with omit (default (dict) (get $.Values.resources $name)) "cpu" "memory" }}
  {{ $name }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
{{- end }}

{{- define "reput.sparkPod" -}}
podSecurityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
securityContext:
  {{- toYaml .root.Values.securityContext | nindent 2 }}
env:
  - name: SPARK_LOCAL_DIRS
    value: /tmp/spark
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "reput.affinity" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- range $name := list "dnsConfig" "hostAliases" "nodeSelector" "tolerations" }}
{{- with get $.root.Values $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}
