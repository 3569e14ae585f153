{{- /* How many replicas, on which nodes, how important. */ -}}

{{- /* Not empty where the module, the cluster's settings or else its control plane is highly available.
       Usage: if (include "helm_lib_ha_enabled" .) */ -}}
{{- define "helm_lib_ha_enabled" -}}
{{- $module := index .Values (include "helm_lib_module_camelcase_name" .) | default dict -}}
{{- $global := .Values.global | default dict -}}
{{- if hasKey $module "highAvailability" -}}
{{- if $module.highAvailability -}}true{{- end -}}
{{- else if hasKey $global "highAvailability" -}}
{{- if $global.highAvailability -}}true{{- end -}}
{{- else if ($global.discovery | default dict).clusterControlPlaneIsHighlyAvailable -}}true
{{- end -}}
{{- end -}}

{{- /* Usage: include "helm_lib_is_ha_to_value" (list . "yes" "no") */ -}}
{{- define "helm_lib_is_ha_to_value" -}}
{{- include "helm_lib_ha_enabled" (index . 0) | empty | ternary (index . 2) (index . 1) -}}
{{- end -}}

{{- /* Replicas on different nodes, under high availability.
       Usage: include "helm_lib_pod_anti_affinity_for_ha" (list . (dict "app" "x")) | nindent 6 */ -}}
{{- define "helm_lib_pod_anti_affinity_for_ha" }}
{{- if include "helm_lib_ha_enabled" (index . 0) }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - labelSelector:
        matchLabels:
          {{- range $key, $value := index . 1 }}
          {{ $key }}: {{ $value | quote }}
          {{- end }}
      topologyKey: kubernetes.io/hostname
{{- end }}
{{- end }}

{{- /* The module's value nodeSelector, else the nodes of that role where the cluster has any.
       Usage: include "helm_lib_node_selector" (tuple . "system") | nindent 6; other strategies are not used here. */ -}}
{{- define "helm_lib_node_selector" }}
{{- $root := index . 0 -}}
{{- $role := index . 1 -}}
{{- if ne $role "system" }}{{ fail (printf "unknown strategy %q" $role) }}{{ end -}}
{{- $module := index $root.Values (include "helm_lib_module_camelcase_name" $root) -}}
{{- $roles := (($root.Values.global | default dict).discovery | default dict).d8SpecificNodeCountByRole | default dict -}}
{{- if $module.nodeSelector }}
nodeSelector: {{ $module.nodeSelector | toJson }}
{{- else if gt (get $roles $role | int) 0 }}
nodeSelector:
  node-role.deckhouse.io/{{ $role }}: ""
{{- end }}
{{- end }}

{{- /* Every node that is in order, the control plane's and dedicated ones too.
       Usage: include "helm_lib_tolerations" (tuple . "any-node") | nindent 6; other strategies are not used here. */ -}}
{{- define "helm_lib_tolerations" }}
{{- if ne (index . 1) "any-node" }}{{ fail (printf "unknown strategy %q" (index . 1)) }}{{ end }}
tolerations:
- key: node-role.kubernetes.io/control-plane
- key: node-role.kubernetes.io/master
- key: dedicated.deckhouse.io
  operator: Exists
- key: dedicated
  operator: Exists
{{- end }}

{{- /* Usage: include "helm_lib_priority_class" (tuple . "system-cluster-critical") | nindent 6 */ -}}
{{- define "helm_lib_priority_class" }}
priorityClassName: {{ index . 1 }}
{{- end }}
