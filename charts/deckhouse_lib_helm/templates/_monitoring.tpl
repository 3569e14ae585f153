{{- /* Rules and dashboards from files. Deckhouse's own kinds, and where its modules would be asked for, are the real
       library's: this one makes what the Prometheus operator reads, where its kinds are served. */ -}}

{{- /* Every group of monitoring/prometheus-rules/*.yaml, one PrometheusRule for each file.
       Usage: include "helm_lib_prometheus_rules" (list . "namespace") */ -}}
{{- define "helm_lib_prometheus_rules" -}}
{{- $root := index . 0 -}}
{{- $namespace := index . 1 -}}
{{- if $root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1/PrometheusRule" }}
{{- range $path, $_ := $root.Files.Glob "monitoring/prometheus-rules/**.yaml" }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ printf "%s-%s" $root.Chart.Name ($path | base | trimSuffix ".yaml" | replace "_" "-") }}
  namespace: {{ $namespace }}
  {{- include "helm_lib_module_labels" (list $root (dict "app" "prometheus" "prometheus" "main" "component" "rules")) | nindent 2 }}
spec:
  groups:
    {{- $root.Files.Get $path | fromYamlArray | toYaml | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Dashboards are Deckhouse's own kind: elsewhere there is none.
       Usage: include "helm_lib_grafana_dashboard_definitions" . */ -}}
{{- define "helm_lib_grafana_dashboard_definitions" -}}
{{- $root := . -}}
{{- if .Capabilities.APIVersions.Has "deckhouse.io/v1/GrafanaDashboardDefinition" }}
{{- range $path, $_ := .Files.Glob "monitoring/grafana-dashboards/**.json" }}
---
apiVersion: deckhouse.io/v1
kind: GrafanaDashboardDefinition
metadata:
  name: {{ printf "d8-%s-%s" $root.Chart.Name ($path | base | trimSuffix ".json" | replace "_" "-") }}
  {{- include "helm_lib_module_labels" (list $root (dict "prometheus.deckhouse.io/grafana-dashboard" "")) | nindent 2 }}
spec:
  folder: {{ $path | dir | base | replace "-" " " | title | quote }}
  definition: |
    {{- $root.Files.Get $path | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}
