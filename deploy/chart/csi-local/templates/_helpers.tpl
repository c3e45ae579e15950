{{- define "csi-local.labels" -}}
app.kubernetes.io/name: csi-local
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "csi-local.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "csi-local.scheduler-image" -}}
{{ .Values.scheduler.image.repository }}:{{ .Values.scheduler.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "csi-local.pull-secrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* For pods that need nothing of the machine. */}}
{{- define "csi-local.unprivileged" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65534
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end }}
