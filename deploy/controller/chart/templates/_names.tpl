{{- define "wardlet.labels" -}}
app.kubernetes.io/name: wardlet-controller
app.kubernetes.io/part-of: wardlet
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "wardlet.selector" -}}
app.kubernetes.io/name: wardlet-controller
{{- end -}}
