{{- /* Names and fragments that several templates must spell alike. */ -}}

{{- define "gpu-control-plane.namespace" -}}d8-gpu-operator{{- end -}}

{{- /* Labels of every object. Usage: include "gpu-control-plane.labels" (dict "app" "x"); app is optional. */ -}}
{{- define "gpu-control-plane.labels" -}}
labels:
  heritage: deckhouse
  module: gpu-control-plane
  {{- with .app }}
  app: {{ . }}
  {{- end }}
{{- end -}}

{{- /* User name of a process of ours, less the process. */ -}}
{{- define "gpu-control-plane.userPrefix" -}}
system:serviceaccount:{{ include "gpu-control-plane.namespace" . }}:
{{- end -}}

{{- /* Users of the cluster's own clean-up, which no policy of ours stands in the way of. */ -}}
{{- define "gpu-control-plane.cleaners" -}}
'system:serviceaccount:kube-system:generic-garbage-collector', 'system:serviceaccount:kube-system:namespace-controller'
{{- end -}}

{{- /* CEL: the pod asks for a resource of ours. It must never end in an error, since an error refuses the
       pod: each field is asked for with has(), and a pod without the (required) list of containers, which
       validation refuses later with a better message, has null there. dyn() because the type checker of
       policies does not know what a quantity is. */ -}}
{{- define "gpu-control-plane.podAsks" -}}
{{- include "gpu-control-plane.specAsks" "object.spec" -}}
{{- end -}}

{{- /* The same of the spec of pods that stands elsewhere, such as object.spec.template.spec; what is on the way there
       has been looked for before. */ -}}
{{- define "gpu-control-plane.specAsks" -}}
{{- $spec := . -}}
{{- range $at, $list := list "containers" "initContainers" }}
{{ if $at }}|| {{ end }}(has({{ $spec }}.{{ $list }}) && dyn({{ $spec }}.{{ $list }}) != null
&& dyn({{ $spec }}.{{ $list }}).exists(c, has(c.resources) && (
{{- range $at, $kind := list "limits" "requests" }}{{ if $at }} || {{ end -}}
(has(c.resources.{{ $kind }}) && c.resources.{{ $kind }}.exists(k, k.startsWith('gpu.deckhouse.io/')))
{{- end }})))
{{- end }}
{{- end -}}

{{- /* The identity of a process, bound to its ClusterRole and, where it has one, its Role of the same name
       in our namespace. Usage: include "gpu-control-plane.identity" (dict "process" "x" "role" true);
       with "namespaced" true it has no ClusterRole. */ -}}
{{- define "gpu-control-plane.identity" -}}
{{- $ns := include "gpu-control-plane.namespace" . -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .process }}
  namespace: {{ $ns }}
  {{- include "gpu-control-plane.labels" (dict "app" .process) | nindent 2 }}
automountServiceAccountToken: false
{{- if not .namespaced }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: d8:gpu-control-plane:{{ .process }}
  {{- include "gpu-control-plane.labels" (dict "app" .process) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: d8:gpu-control-plane:{{ .process }}
subjects:
- kind: ServiceAccount
  name: {{ .process }}
  namespace: {{ $ns }}
{{- end }}
{{- if .role }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .process }}
  namespace: {{ $ns }}
  {{- include "gpu-control-plane.labels" (dict "app" .process) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .process }}
subjects:
- kind: ServiceAccount
  name: {{ .process }}
  namespace: {{ $ns }}
{{- end }}
{{- end -}}

{{- /* What each of the four processes may do cluster-wide: follow its settings and tell events. Events of
       cluster-scoped objects live in namespace default, those of pods beside their pod. */ -}}
{{- define "gpu-control-plane.processRules" -}}
- apiGroups: ["deckhouse.io"]
  resources: ["moduleconfigs"]
  verbs: ["get", "list", "watch"]
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "get", "patch"]
{{- end -}}

{{- /* A Lease of its own. Creation cannot be limited to a name. */ -}}
{{- define "gpu-control-plane.leaseRules" -}}
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  verbs: ["create"]
- apiGroups: ["coordination.k8s.io"]
  resources: ["leases"]
  resourceNames: ["{{ .process }}"]
  verbs: ["get", "update"]
{{- end -}}
