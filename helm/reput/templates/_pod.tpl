{{/* The job's container and its pod: the same for StatefulSet, sidecar and SparkApplication. */}}

{{/* Arguments of `reput`. */}}
{{- define "reput.args" -}}
{{- with .Values.run -}}
- run
- --config=/etc/reput/reput.toml
- --metrics-port={{ $.Values.metrics.port }}
- --metrics-host=0.0.0.0
{{- with $.Values.metrics.tls.certFile }}
- --metrics-tls-cert={{ . }}
- --metrics-tls-key={{ $.Values.metrics.tls.keyFile }}
{{- end }}
{{- with $.Values.metrics.tls.clientCaFile }}
- --metrics-tls-client-ca={{ . }}
{{- end }}
{{- with $.Values.metrics.auth.tokenFile }}
- --metrics-token-file={{ . }}
{{- end }}
{{- with $.Values.metrics.auth.basicAuthFile }}
- --metrics-basic-auth-file={{ . }}
{{- end }}
{{- with $.Values.metrics.sparkPort }}
- --spark-metrics-port={{ . }}
{{- end }}
- --final-scrape-seconds={{ .finalScrapeSeconds }}
- --ready-behind={{ .readyBehind }}
- --log-format={{ .logFormat }}
{{- with .cluster }}
- --cluster={{ . }}
{{- end }}
- --tail={{ .tail }}
- --flush={{ .flush }}
{{- with .flushSeconds }}
- --flush-seconds={{ . }}
{{- end }}
- --on-corrupt={{ .onCorrupt }}
- {{ .failOnDataLoss | ternary "--fail-on-data-loss" "--no-fail-on-data-loss" }}
{{- if .deleteExpired }}
- --delete-expired
{{- end }}
- --trigger-seconds={{ .triggerSeconds }}
- --follow-seconds={{ .followSeconds }}
{{- with .maxBatchBytes }}
- --max-batch-bytes={{ . }}
{{- end }}
- --threads={{ .threads }}
- --spark-checkpoint=/spark-checkpoint
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.env" -}}
- name: PYSPARK_SUBMIT_ARGS
  value: {{ include "reput.submitArgs" . | quote }}
- name: SPARK_LOCAL_DIRS
  value: /tmp/spark
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "reput.submitArgs" -}}
--driver-memory {{ .Values.spark.driverMemory }}
{{- range $name, $value := .Values.spark.conf }} --conf {{ $name }}={{ $value }}{{ end }} pyspark-shell
{{- end }}

{{/* Mounts of a job besides its stores and output. */}}
{{- define "reput.commonMounts" -}}
{{- $prefix := include "reput.volumePrefix" . -}}
- name: {{ $prefix }}config
  mountPath: /etc/reput
  readOnly: true
- name: {{ $prefix }}tmp
  mountPath: /tmp
{{- range $index, $secret := .Values.secretMounts }}
- name: {{ $prefix }}secret-{{ $index }}
  mountPath: {{ $secret.mountPath }}
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Arguments: root, job, readOnly (of the output). */}}
{{- define "reput.dataMounts" -}}
{{- range .job.stores }}
- name: store-{{ .name }}
  mountPath: {{ include "reput.storeMount" . }}
  {{- with .source.subPath }}
  subPath: {{ . }}
  {{- end }}
  readOnly: true
{{- end }}
- name: output
  mountPath: /output
  {{- if .root.Values.output.existingClaim }}
  subPath: {{ default "all" .job.id }}
  {{- end }}
  {{- if .readOnly }}
  readOnly: true
  {{- end }}
{{- end }}

{{/* Volumes of a job besides output and Spark's checkpoint. A broker's pod has its stores itself, and
may have no fsGroup that lets the job read a Secret's files. */}}
{{- define "reput.volumes" -}}
{{- $prefix := include "reput.volumePrefix" .root -}}
{{- $isSidecar := eq .root.Values.mode "sidecar" -}}
- name: {{ $prefix }}config
  configMap:
    name: {{ include "reput.jobName" . }}
    defaultMode: 0444
- name: {{ $prefix }}tmp
  emptyDir:
    sizeLimit: {{ .root.Values.tmpSize }}
{{- range $isSidecar | ternary (list) .job.stores }}
- name: store-{{ .name }}
  {{- if .source.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .source.existingClaim }}
    readOnly: {{ dig "readOnlyAttachment" true .source }}
  {{- else if .source.hostPath }}
  hostPath:
    path: {{ .source.hostPath }}
    type: Directory
  {{- else }}
  csi:
    {{- merge (dict "readOnly" true) .source.csi | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- range $index, $secret := .root.Values.secretMounts }}
- name: {{ $prefix }}secret-{{ $index }}
  secret:
    secretName: {{ $secret.name }}
    defaultMode: {{ $isSidecar | ternary "0444" "0440" }}
    {{- with $secret.items }}
    items:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "reput.outputVolume" -}}
- name: {{ eq .root.Values.mode "sidecar" | ternary .root.Values.sidecar.outputVolume "output" }}
  persistentVolumeClaim:
    claimName: {{ default (printf "output-%s-0" (include "reput.jobName" .)) .root.Values.output.existingClaim }}
    {{- if .readOnly }}
    readOnly: true
    {{- end }}
{{- end }}

{{/* Affinity of a job: the values', and the nodes of the brokers' pods. */}}
{{- define "reput.affinity" -}}
{{- $affinity := deepCopy .root.Values.affinity -}}
{{- $required := list -}}
{{- $preferred := list -}}
{{- range .job.stores -}}
{{- with .brokerPod -}}
{{- $term := dict "labelSelector" (dict "matchLabels" .matchLabels) "topologyKey" (default "kubernetes.io/hostname" .topologyKey) -}}
{{- with .namespaces -}}{{- $_ := set $term "namespaces" . -}}{{- end -}}
{{- if dig "required" true . -}}
{{- $required = append $required $term -}}
{{- else -}}
{{- $preferred = append $preferred (dict "weight" 100 "podAffinityTerm" $term) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $pod := default (dict) $affinity.podAffinity -}}
{{- $requiredKey := "requiredDuringSchedulingIgnoredDuringExecution" -}}
{{- $preferredKey := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- with $required -}}{{- $_ := set $pod $requiredKey (concat (default (list) (get $pod $requiredKey)) .) -}}{{- end -}}
{{- with $preferred -}}{{- $_ := set $pod $preferredKey (concat (default (list) (get $pod $preferredKey)) .) -}}{{- end -}}
{{- with $pod -}}{{- $_ := set $affinity "podAffinity" . -}}{{- end -}}
{{- with $affinity -}}{{- toYaml . -}}{{- end -}}
{{- end }}

{{- define "reput.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Fields of a pod that are passed on as they are. */}}
{{- define "reput.podFields" -}}
{{- $values := .Values }}
{{- range $name := list "dnsConfig" "hostAliases" "topologySpreadConstraints" }}
{{- with get $values $name }}
{{ $name }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- range $name := list "dnsPolicy" "priorityClassName" "runtimeClassName" }}
{{- with get $values $name }}
{{ $name }}: {{ . }}
{{- end }}
{{- end }}
{{- if kindIs "bool" .Values.hostUsers }}
hostUsers: {{ .Values.hostUsers }}
{{- end }}
{{- end }}

{{/* What pods of jobs and tests have in common. */}}
{{- define "reput.podCommon" -}}
{{- with include "reput.pullSecrets" .root | trim }}
{{ . }}
{{- end }}
serviceAccountName: {{ include "reput.serviceAccountName" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with include "reput.podFields" .root | trim }}
{{ . }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Probes of the metrics port speak TLS where the port does. Arguments: root, probes. */}}
{{- define "reput.probes" -}}
{{- range $name := list "startup" "liveness" "readiness" }}
{{- with get $.probes $name }}
{{- $probe := deepCopy . }}
{{- if and $.root.Values.metrics.tls.certFile $probe.httpGet (not (dig "httpGet" "scheme" "" $probe)) }}
{{- $_ := set $probe.httpGet "scheme" "HTTPS" }}
{{- end }}
{{- range list "httpGet" "tcpSocket" }}
{{- if eq (dig . "port" "" $probe | toString) "metrics" }}
{{- $_ := set (get $probe .) "port" (include "reput.metricsPort" $.root) }}
{{- end }}
{{- end }}
{{ $name }}Probe:
  {{- toYaml $probe | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The container but for its mounts of data and its probes. */}}
{{- define "reput.container" -}}
name: reput
image: {{ include "reput.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
  {{- include "reput.args" . | nindent 2 }}
env:
  {{- include "reput.env" . | nindent 2 }}
{{- with .Values.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  {{- include "reput.ports" . | nindent 2 }}
# The last line of the log says why it stopped: `kubectl describe pod` shows it.
terminationMessagePolicy: FallbackToLogsOnError
securityContext:
  {{- include "reput.containerSecurity" . | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- end }}

{{- define "reput.ports" -}}
- name: {{ include "reput.metricsPort" . }}
  containerPort: {{ .Values.metrics.port }}
  protocol: TCP
{{- with .Values.metrics.sparkPort }}
- name: {{ include "reput.sparkPort" $ }}
  containerPort: {{ . }}
  protocol: TCP
{{- end }}
{{- end }}

{{/* A broker's pod need not be restricted: there the container says itself what our pods say. */}}
{{- define "reput.containerSecurity" -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $pod := pick .Values.podSecurityContext "runAsNonRoot" "runAsUser" "runAsGroup" "seccompProfile" "seLinuxOptions" "appArmorProfile" -}}
{{- merge (deepCopy .Values.securityContext) $pod | toYaml -}}
{{- else -}}
{{- toYaml .Values.securityContext -}}
{{- end -}}
{{- end }}

{{/* Where Spark keeps its own record of the query. Only the driver does. Arguments: root, job. */}}
{{- define "reput.checkpointVolume" -}}
- name: {{ include "reput.volumePrefix" .root }}spark-checkpoint
  {{- if .root.Values.sparkCheckpoint.existingClaim }}
  persistentVolumeClaim:
    claimName: {{ .root.Values.sparkCheckpoint.existingClaim }}
  {{- else if and .root.Values.sparkCheckpoint.persistent (eq .root.Values.mode "sparkApplication") }}
  persistentVolumeClaim:
    claimName: spark-checkpoint-{{ include "reput.jobName" . }}-0
  {{- else }}
  emptyDir:
    sizeLimit: {{ .root.Values.sparkCheckpoint.size }}
  {{- end }}
{{- end }}

{{- define "reput.checkpointMount" -}}
- name: {{ include "reput.volumePrefix" .root }}spark-checkpoint
  mountPath: /spark-checkpoint
  {{- if .root.Values.sparkCheckpoint.existingClaim }}
  subPath: {{ default "all" .job.id }}
  {{- end }}
{{- end }}

{{- define "reput.claimTemplate" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: {{ .name }}
    # No version here: claim templates of a StatefulSet cannot be changed.
    labels:
      {{- include "reput.selectorLabels" .root | nindent 6 }}
    {{- with .claim.annotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    {{- include "reput.claimSpec" .claim | nindent 4 }}
{{- end }}

{{- define "reput.claimSpec" -}}
accessModes:
  {{- toYaml .accessModes | nindent 2 }}
{{- with .storageClass }}
storageClassName: {{ . | quote }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end }}

{{/* A container that has not passed its startup probe is not ready, nor is its pod then: in a broker's
pod the first look at health is late in its place. */}}
{{- define "reput.sidecarLiveness" -}}
{{- with .Values.probes.liveness }}
{{- $probe := deepCopy . }}
{{- with $.Values.probes.startup }}
{{- $wait := mul (dig "periodSeconds" 10 . | int64) (dig "failureThreshold" 3 . | int64) }}
{{- $_ := set $probe "initialDelaySeconds" (max $wait (dig "initialDelaySeconds" 0 $probe | int64)) }}
{{- end }}
{{- toYaml $probe }}
{{- end }}
{{- end }}
