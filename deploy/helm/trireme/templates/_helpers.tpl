{{- define "trireme.labels" -}}
app.kubernetes.io/name: trireme
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "trireme.selector" -}}
app.kubernetes.io/name: trireme
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end }}
{{- define "trireme.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- /* where gateways and workers find the scheduler: with one that stands by, the addresses of both */ -}}
{{- define "trireme.scheduler" -}}
{{- $name := printf "%s-scheduler" .Release.Name -}}
{{- if .Values.scheduler.standby -}}
tcp://{{ $name }}-0.{{ $name }}-pods:7000,tcp://{{ $name }}-1.{{ $name }}-pods:7000
{{- else -}}
tcp://{{ $name }}:7000
{{- end -}}
{{- end }}
{{- define "trireme.pod" -}}
automountServiceAccountToken: {{ .token | default false }}
# A service called "trireme" would set TRIREME_PORT.
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- define "trireme.container" -}}
image: {{ include "trireme.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
{{- define "trireme.adminProbes" -}}
startupProbe:
  httpGet: {path: /health/live, port: admin}
  periodSeconds: 2
  failureThreshold: {{ div . 2 }}
livenessProbe:
  httpGet: {path: /health/live, port: admin}
  periodSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /health/ready, port: admin}
  periodSeconds: 2
{{- end }}
{{- define "trireme.keyMount" -}}
- {name: keys, mountPath: {{ .root.Values.wire.keys.mountPath }}, readOnly: true}
{{- end }}
{{- define "trireme.keyVolume" -}}
- name: keys
  secret: {secretName: {{ index .root.Values.wire.keys.secretNames .role }}, defaultMode: 0440}
{{- end }}
