{{/* What the values' schema cannot say. Each refusal names the value, and what to write. */}}

{{- define "reput.check" -}}
{{- include "reput.checkStores" . }}
{{- include "reput.checkMode" . }}
{{- include "reput.checkPod" . }}
{{- include "reput.checkVolumes" . }}
{{- include "reput.checkClaims" . }}
{{- include "reput.checkArguments" . }}
{{- include "reput.checkMetrics" . }}
{{- include "reput.checkRules" . }}
{{- include "reput.checkKafka" . }}
{{- end }}

{{- define "reput.checkStores" -}}
{{- if not .Values.stores }}
{{- fail "stores: name at least one store to dispatch, see the chart's README" }}
{{- end }}
{{- $names := dict }}
{{- range .Values.stores }}
{{- if hasKey $names .name }}
{{- fail (printf "stores: two are called %s; each needs a name of its own" .name) }}
{{- end }}
{{- $_ := set $names .name true }}
{{- if or (eq .name "dashboard") (hasSuffix "-sidecar" .name) }}
{{- fail (printf "stores: %s is the name of another of the chart's objects; call the store broker-%s" .name (trimSuffix "-sidecar" .name)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Values that have no effect in a mode, though somebody counts on them. */}}
{{- define "reput.checkMode" -}}
{{- if eq .Values.mode "sidecar" }}
{{- range $name := list "affinity" "dnsConfig" "dnsPolicy" "hostUsers" "nodeSelector" "priorityClassName" "runtimeClassName" "tolerations" "topologySpreadConstraints" }}
{{- $value := get $.Values $name }}
{{- if or $value (kindIs "bool" $value) }}
{{- fail (printf "%s: in mode sidecar the pod is the broker's; set it there, and leave it out here" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.singleJob (gt (len .Values.stores) 1) }}
{{- fail "singleJob: a sidecar dispatches the store of its own broker; leave it out" }}
{{- end }}
{{- if and .Values.sparkCheckpoint.persistent (not .Values.sparkCheckpoint.existingClaim) }}
{{- fail "sparkCheckpoint.persistent: a patch cannot add a claim to a StatefulSet; name one in sparkCheckpoint.existingClaim, or leave it out" }}
{{- end }}
{{- end }}
{{- if eq .Values.mode "sparkApplication" }}
{{- if not .Values.sparkApplication.serviceAccount }}
{{- fail "sparkApplication.serviceAccount: the driver needs a ServiceAccount that may start executors" }}
{{- end }}
{{- if and (not .Values.output.existingClaim) (not (has "ReadWriteMany" .Values.output.accessModes)) }}
{{- fail "output.accessModes: executors on several nodes write the output; set it to [ReadWriteMany], with an output.storageClass that has it, or name a claim that has it in output.existingClaim" }}
{{- end }}
{{- $limit := dig "limits" "memory" "" .Values.resources }}
{{- if not $limit }}
{{- fail "resources.limits.memory: Spark sets the driver's memory; say how much it may take" }}
{{- end }}
{{- $least := add (include "reput.heapMebibytes" .Values.spark.driverMemory | int64) 1024 }}
{{- if lt (include "reput.mebibytes" $limit | int64) $least }}
{{- fail (printf "resources.limits.memory: the driver's heap (spark.driverMemory), the rest of its JVM and Python need %dMi or more" $least) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.checkPod" -}}
{{- range $name, $probe := .Values.probes }}
{{- $handlers := list }}
{{- range $handler := list "httpGet" "tcpSocket" "exec" "grpc" }}
{{- if get (default (dict) $probe) $handler }}{{ $handlers = append $handlers $handler }}{{ end }}
{{- end }}
{{- if and $probe (ne (len $handlers) 1) }}
{{- fail (printf "probes.%s: it has %s; give it one of httpGet, tcpSocket, exec and grpc, and set the others to null" $name (default "nothing to ask" (join " and " $handlers))) }}
{{- end }}
{{- end }}
{{- if and .Values.metrics.sparkPort (eq (int .Values.metrics.sparkPort) (int .Values.metrics.port)) }}
{{- fail (printf "metrics.sparkPort: %d is metrics.port; the two need a port each" (int .Values.metrics.port)) }}
{{- end }}
{{- end }}

{{/* Every mount has a volume, and no two have one place. */}}
{{- define "reput.checkVolumes" -}}
{{- $prefix := include "reput.volumePrefix" . }}
{{- $volumes := dict "output" "" (printf "%sconfig" $prefix) "" (printf "%stmp" $prefix) "" (printf "%sspark-checkpoint" $prefix) "" }}
{{- $paths := dict "/etc/reput" "the configuration" "/tmp" "tmpSize" "/output" "the output" "/spark-checkpoint" "sparkCheckpoint" }}
{{- range .Values.stores }}
{{- $_ := set $volumes (printf "store-%s" .name) "" }}
{{- if ne $.Values.mode "sidecar" }}
{{- $path := include "reput.storeMount" . | trim }}
{{- if and (hasKey $paths $path) (or $.Values.singleJob (not (hasPrefix "stores" (get $paths $path)))) }}
{{- fail (printf "stores: %s has the mountPath %s, which is that of %s" .name $path (get $paths $path)) }}
{{- end }}
{{- $_ := set $paths $path (printf "stores: %s" .name) }}
{{- end }}
{{- end }}
{{- range $index, $_ := .Values.secretMounts }}
{{- $_ := set $volumes (printf "%ssecret-%d" $prefix $index) "" }}
{{- end }}
{{- if and .Values.sparkApplication.authSecret.name (eq .Values.mode "sparkApplication") }}
{{- $_ := set $volumes "spark-auth" "" }}
{{- end }}
{{- range .Values.extraVolumes }}
{{- if hasKey $volumes .name }}
{{- fail (printf "extraVolumes: the pod has a volume %s already; call it otherwise" .name) }}
{{- end }}
{{- $_ := set $volumes .name "" }}
{{- end }}
{{- if eq .Values.mode "sidecar" }}
{{- $_ := set $paths (trimSuffix "/" .Values.sidecar.storeMountPath) "sidecar.storeMountPath" }}
{{- end }}
{{- range $mounts := list (list "secretMounts" .Values.secretMounts) (list "extraVolumeMounts" .Values.extraVolumeMounts) }}
{{- range index $mounts 1 }}
{{- $path := trimSuffix "/" .mountPath }}
{{- if hasKey $paths $path }}
{{- fail (printf "%s: %s is mounted already, for %s; mount it elsewhere" (first $mounts) $path (get $paths $path)) }}
{{- end }}
{{- $_ := set $paths $path (first $mounts) }}
{{- if and (eq (first $mounts) "extraVolumeMounts") (ne $.Values.mode "sidecar") (not (hasKey $volumes .name)) }}
{{- fail (printf "extraVolumeMounts: no volume is called %s; add it to extraVolumes" .name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.checkClaims" -}}
{{- range $name := list "output" "sparkCheckpoint" }}
{{- $modes := (get $.Values $name).accessModes }}
{{- if and (has "ReadWriteOncePod" $modes) (gt (len $modes) 1) }}
{{- fail (printf "%s.accessModes: ReadWriteOncePod goes with no other mode; leave the others out" $name) }}
{{- end }}
{{- end }}
{{- if and (has "ReadWriteOncePod" .Values.output.accessModes) (not .Values.output.existingClaim) .Values.verify.enabled (ne .Values.mode "sidecar") }}
{{- fail "verify.enabled: a ReadWriteOncePod claim is the job's alone, so that `helm test` could not mount it; set verify.enabled to false" }}
{{- end }}
{{- end }}

{{/* Options of `reput run` that have a value of their own here are in files/own-options.json, which is generated. */}}
{{- define "reput.checkArguments" -}}
{{- $own := .Files.Get "files/own-options.json" | fromJson }}
{{- range .Values.run.extraArgs }}
{{- $name := regexFind "^--[a-z-]+" . | trimPrefix "--" }}
{{- if hasKey $own $name }}
{{- fail (printf "run.extraArgs: --%s is what %s sets; set it there" $name (get $own $name)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* A file that the job reads: below a mount, or of the image. Arguments: root, name, path. */}}
{{- define "reput.checkFile" -}}
{{- if .path }}
{{- $found := hasPrefix "/etc/ssl/" .path }}
{{- range concat .root.Values.secretMounts .root.Values.extraVolumeMounts }}
{{- if or (hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $.path) (and .subPath (eq .mountPath $.path)) }}{{ $found = true }}{{ end }}
{{- end }}
{{- if not $found }}
{{- fail (printf "%s: %s is below no mount of the pod; add its Secret to secretMounts" .name .path) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.checkMetrics" -}}
{{- $metrics := .Values.metrics }}
{{- if and $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled }}
{{- fail "metrics: serviceMonitor and podMonitor would scrape everything twice; enable one" }}
{{- end }}
{{- if and $metrics.serviceMonitor.enabled (not $metrics.service.enabled) }}
{{- fail "metrics.serviceMonitor needs metrics.service.enabled" }}
{{- end }}
{{- if ne (empty $metrics.tls.certFile) (empty $metrics.tls.keyFile) }}
{{- fail "metrics.tls: give certFile and keyFile together, as paths below a mount of secretMounts" }}
{{- end }}
{{- if and $metrics.tls.clientCaFile (not $metrics.tls.certFile) }}
{{- fail "metrics.tls.clientCaFile needs certFile and keyFile" }}
{{- end }}
{{- range $name, $path := merge (dict) $metrics.tls $metrics.auth }}
{{- include "reput.checkFile" (dict "root" $ "path" $path "name" (printf "metrics.%s.%s" (ternary "tls" "auth" (hasKey $metrics.tls $name)) $name)) }}
{{- end }}
{{- range $name := list "serviceMonitor" "podMonitor" }}
{{- $monitor := get $metrics $name }}
{{- if and $monitor.basicAuth $monitor.authorization }}
{{- fail (printf "metrics.%s: a monitor has basicAuth or authorization, not both" $name) }}
{{- end }}
{{- if $monitor.enabled }}
{{- if and (or $metrics.auth.tokenFile $metrics.auth.basicAuthFile) (not $monitor.basicAuth) (not $monitor.authorization) }}
{{- fail (printf "metrics.%s: metrics.auth is set, so every scrape would be refused; give the monitor authorization or basicAuth" $name) }}
{{- end }}
{{- if and $monitor.authorization (not $metrics.auth.tokenFile) $metrics.auth.basicAuthFile }}
{{- fail (printf "metrics.%s.authorization: the job knows a password only; use basicAuth, or set metrics.auth.tokenFile" $name) }}
{{- end }}
{{- if and $monitor.basicAuth (not $metrics.auth.basicAuthFile) $metrics.auth.tokenFile }}
{{- fail (printf "metrics.%s.basicAuth: the job knows a token only; use authorization, or set metrics.auth.basicAuthFile" $name) }}
{{- end }}
{{- if and $metrics.tls.clientCaFile (not (and $monitor.tlsConfig.cert $monitor.tlsConfig.keySecret)) (not (and $monitor.tlsConfig.certFile $monitor.tlsConfig.keyFile)) }}
{{- fail (printf "metrics.%s.tlsConfig: with metrics.tls.clientCaFile Prometheus needs a certificate; give cert and keySecret" $name) }}
{{- end }}
{{- if and $metrics.tls.certFile (eq $monitor.scheme "http") }}
{{- fail (printf "metrics.%s.scheme: the port speaks TLS by metrics.tls.certFile; leave it out, or write https" $name) }}
{{- end }}
{{- if and $monitor.interval $monitor.scrapeTimeout (gt (include "reput.milliseconds" $monitor.scrapeTimeout | int64) (include "reput.milliseconds" $monitor.interval | int64)) }}
{{- fail (printf "metrics.%s.scrapeTimeout: %s is longer than the interval, %s; the operator refuses that" $name $monitor.scrapeTimeout $monitor.interval) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "reput.checkRules" -}}
{{- $job := .Values.prometheusRule.job }}
{{- if regexMatch "[\"\\x00-\\x1f]" $job }}
{{- fail (printf "prometheusRule.job: %s has a quote or a control character; write the regular expression alone" (quote $job)) }}
{{- end }}
{{- /* With an empty alternative every regular expression matches nothing at all; others match never. */}}
{{- if not (regexMatch (printf "%s|" $job) "") }}
{{- fail (printf "prometheusRule.job: %s is not a regular expression, so Prometheus would refuse every rule" (quote $job)) }}
{{- end }}
{{- end }}

{{- define "reput.checkKafka" -}}
{{- if .Values.kafka.enabled }}
{{- $settings := .Values.kafka.settings }}
{{- if not $settings.bootstrap }}
{{- fail "kafka.settings.bootstrap: say where Kafka is, such as kafka:9092" }}
{{- end }}
{{- range splitList "," $settings.bootstrap }}
{{- if not (regexMatch "^([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\]):[0-9]{1,5}$" (trim .)) }}
{{- fail (printf "kafka.settings.bootstrap: %s has no host or no port; write host:port, such as kafka:9092, with commas between several" (trim . | quote)) }}
{{- end }}
{{- end }}
{{- range $name, $path := $settings }}
{{- if hasSuffix "_file" $name }}
{{- include "reput.checkFile" (dict "root" $ "path" $path "name" (printf "kafka.settings.%s" $name)) }}
{{- end }}
{{- if and (hasSuffix "_env" $name) $path (not $.Values.extraEnvFrom) }}
{{- $known := list }}
{{- range $.Values.extraEnv }}{{ $known = append $known .name }}{{ end }}
{{- if not (has $path $known) }}
{{- fail (printf "kafka.settings.%s: the job has no environment variable %s; take it from a Secret with extraEnv or extraEnvFrom" $name $path) }}
{{- end }}
{{- end }}
{{- end }}
{{- $isSasl := hasPrefix "SASL" (default "PLAINTEXT" $settings.protocol) }}
{{- if ne $isSasl (not (empty $settings.mechanism)) }}
{{- fail "kafka.settings.mechanism goes with the protocols SASL_SSL and SASL_PLAINTEXT: give both, or neither" }}
{{- end }}
{{- end }}
{{- end }}
