{{- /* A pod of one rank. leads: the others of its replica meet at this one. */ -}}
{{- define "trireme.workerPod" -}}
{{- $root := .root }}
{{- $values := .root.Values }}
{{- $ranks := mul $values.worker.tp $values.worker.pp | int -}}
{{- include "trireme.pod" (dict "root" $root "values" $values.worker) }}
# what it ran goes on at another worker, or at its successor
terminationGracePeriodSeconds: 30
containers:
  - name: worker
    {{- include "trireme.container" $root | nindent 4 }}
    args:
      - worker
      - --model={{ $values.model.path }}
      - --served-model-name={{ $values.model.name }}
      - --connect={{ include "trireme.scheduler" $root }}
      - --run-dir=/run/trireme
      - --admin-host=0.0.0.0
      - --admin-port=9100
      - --key-file={{ $values.wire.keys.mountPath }}/worker.key
      - --allow-keys={{ $values.wire.keys.mountPath }}/allow
      - --log-format=json
      {{- if gt $ranks 1 }}
      - --tp={{ $values.worker.tp }}
      - --pp={{ $values.worker.pp }}
      - --rank=$(RANK)
      - --replica={{ $root.Release.Name }}-$(GROUP)
      {{- if .leads }}
      - --comm-listen=$(POD_IP):7100
      {{- end }}
      {{- end }}
      {{- range $values.worker.args }}
      - {{ . | quote }}
      {{- end }}
    {{- if gt $ranks 1 }}
    env:
      - {name: RANK, valueFrom: {fieldRef: {fieldPath: "metadata.labels['leaderworkerset.sigs.k8s.io/worker-index']"}}}
      - {name: GROUP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['leaderworkerset.sigs.k8s.io/group-index']"}}}
      {{- if .leads }}
      - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
      {{- end }}
    {{- end }}
    ports:
      - {name: admin, containerPort: 9100}
      {{- if and .leads (gt $ranks 1) }}
      - {name: ranks, containerPort: 7100}
      {{- end }}
    {{- include "trireme.adminProbes" $values.worker.startupSeconds | nindent 4 }}
    resources: {{- toYaml $values.worker.resources | nindent 6 }}
    volumeMounts:
      - {name: run, mountPath: /run/trireme}
      - {name: shm, mountPath: /dev/shm}
      {{- if $values.model.volume }}
      - {name: models, mountPath: {{ $values.model.mountPath }}, readOnly: true}
      {{- end }}
      {{- include "trireme.keyMount" (dict "root" $root "role" "worker") | nindent 6 }}
volumes:
  - name: run
    emptyDir: {}
  - name: shm
    emptyDir: {medium: Memory}
  {{- with $values.model.volume }}
  - name: models
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- include "trireme.keyVolume" (dict "root" $root "role" "worker") | nindent 2 }}
{{- end }}
