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

{{- /* CEL: who asks is neither gpu-driver-controller, nor a controller of the cluster that ends pods of nodes and of
       DaemonSets that are gone, nor a kubelet. */ -}}
{{- define "gpu-control-plane.notOfDrivers" -}}
!(request.userInfo.username in ['{{ include "gpu-control-plane.userPrefix" . }}gpu-driver-controller', {{ include "gpu-control-plane.cleaners" . }}, 'system:serviceaccount:kube-system:daemon-set-controller', 'system:serviceaccount:kube-system:pod-garbage-collector', 'system:serviceaccount:kube-system:node-controller', 'system:kube-controller-manager']) && !(has(request.userInfo.groups) && request.userInfo.groups.exists(g, g == 'system:nodes'))
{{- end -}}

{{- /* CEL: the pod asks for a resource of ours, or a container of it names so many resources (more than 64) that nobody
       looks whether ours is among them: the API server's time for that grows with their square. Whoever is asked because
       of it looks. It must never end in an error, since an error refuses the pod: each field is asked for with has(),
       and a pod without the (required) list of containers, which validation refuses later with a better message, has
       null there. dyn() because the type checker of policies does not know what a quantity is. */ -}}
{{- define "gpu-control-plane.podAsks" -}}
{{- include "gpu-control-plane.specAsks" "object.spec" -}}
{{- end -}}

{{- /* The same of the spec of pods that stands elsewhere, such as object.spec.template.spec; what is on the way there
       has been looked for before. */ -}}
{{- define "gpu-control-plane.specAsks" -}}
{{- include "gpu-control-plane.listsAsk" (dict "spec" . "lists" (list "containers" "initContainers") "many" "true") -}}
{{- end -}}

{{- /* The same of some lists of containers; many: what is said of one with so many resources.
       Usage: (dict "spec" "object.spec" "lists" (list "containers") "many" "true") */ -}}
{{- define "gpu-control-plane.listsAsk" -}}
{{- $spec := .spec -}}
{{- $many := .many -}}
{{- range $at, $list := .lists }}
{{ if $at }}|| {{ end }}(has({{ $spec }}.{{ $list }}) && dyn({{ $spec }}.{{ $list }}) != null
&& dyn({{ $spec }}.{{ $list }}).exists(c, has(c.resources) && (
{{- range $at, $kind := list "limits" "requests" }}{{ if $at }} || {{ end -}}
(has(c.resources.{{ $kind }}) && (size(c.resources.{{ $kind }}) > 64 ? {{ $many }}
: c.resources.{{ $kind }}.exists(k, k.startsWith('gpu.deckhouse.io/'))))
{{- end }})))
{{- end }}
{{- end -}}

{{- /* An image: in Deckhouse by its digest, with plain Helm the value. Usage: (list root name value) */ -}}
{{- define "gpu-control-plane.image" -}}
{{- $root := index . 0 -}}
{{- if ($root.Values.global | default dict).modulesImages -}}
{{- include "helm_lib_module_image" (list $root (index . 1)) | trim -}}
{{- else -}}
{{- index . 2 -}}
{{- end -}}
{{- end -}}

{{- /* Credentials of the registry, where there are any: in Deckhouse those of the module's source, else the
       platform's; base64 of a Docker configuration. */ -}}
{{- define "gpu-control-plane.dockercfg" -}}
{{- with .Values.gpuControlPlane.registry.dockercfg -}}
{{- . -}}
{{- else -}}
{{- ((($.Values.global | default dict).modulesImages | default dict).registry | default dict).dockercfg | default "" -}}
{{- end -}}
{{- end -}}

{{- /* Where a container finds the API server, if not at the cluster's own Service. Usage: with that value. */ -}}
{{- define "gpu-control-plane.apiServer" -}}
{{- if .host -}}
env:
{{- include "gpu-control-plane.apiServerVariables" . | nindent 0 }}
{{- end -}}
{{- end -}}

{{- define "gpu-control-plane.apiServerVariables" -}}
{{- if .host -}}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | default 443 | toString | quote }}
{{- end -}}
{{- end -}}

{{- /* Flags of the processes that make agents' pods: the address that the discovery agent has; a JSON list. */ -}}
{{- define "gpu-control-plane.agentApiServer" -}}
{{- $flags := list -}}
{{- with .Values.gpuControlPlane.nodeAgent.apiServer -}}
{{- if .host -}}
{{- $port := .port | default 443 | toString -}}
{{- $flags = list (printf "--agent-api-server-host=%s" .host) (printf "--agent-api-server-port=%s" $port) -}}
{{- end -}}
{{- end -}}
{{- $flags | toJson -}}
{{- end -}}

{{- /* The identity of a process, bound to its ClusterRole and, where it has one, its Role of the same name
       in our namespace. Usage: include "gpu-control-plane.identity" (dict "root" . "process" "x" "role" true);
       with "namespaced" true it has no ClusterRole. Pods of it pull images with the registry's credentials, those that
       our controllers make too. */ -}}
{{- define "gpu-control-plane.identity" -}}
{{- $ns := include "gpu-control-plane.namespace" . -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .process }}
  namespace: {{ $ns }}
  {{- include "gpu-control-plane.labels" (dict "app" .process) | nindent 2 }}
automountServiceAccountToken: false
{{- if include "gpu-control-plane.dockercfg" .root }}
imagePullSecrets:
- name: deckhouse-registry
{{- end }}
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
  resourceNames: ["gpu-control-plane"]
  verbs: ["list", "watch"]
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

{{- /* Settings as they are that leave something open, which docs/security.md tells of each; a JSON list. The webhook says
       them as a metric, and in its log. */ -}}
{{- define "gpu-control-plane.openSettings" -}}
{{- $values := .Values.gpuControlPlane -}}
{{- $open := list -}}
{{- if not $values.webhook.askedFrom }}{{ $open = append $open "webhook.askedFrom" }}{{ end -}}
{{- if $values.controllers.hostNetwork }}{{ $open = append $open "controllers.hostNetwork" }}{{ end -}}
{{- if not $values.policies.reserveRuntimeClasses }}{{ $open = append $open "policies.reserveRuntimeClasses" }}{{ end -}}
{{- if $values.policies.statusWriters }}{{ $open = append $open "policies.statusWriters" }}{{ end -}}
{{- $open | toJson -}}
{{- end -}}
