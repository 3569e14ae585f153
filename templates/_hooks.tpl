{{- /* Programs that Helm runs at a moment of the release's life. All that they need is a hook as well: before an
       install nothing of the chart is there, and afterwards nothing of them shall be left.
         root       the chart's context
         name       of the Job and its ServiceAccount
         namespace  of both
         events     of Helm
         args       of controllers.install */ -}}

{{- define "gpu-control-plane.hook" -}}
annotations:
  helm.sh/hook: {{ .events }}
  helm.sh/hook-weight: {{ .weight | quote }}
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* Its identity, bound to its ClusterRole; credentials for its image, as the chart's own are not there yet. */ -}}
{{- define "gpu-control-plane.hookIdentity" -}}
{{- $early := merge (dict "weight" "-10") . -}}
{{- $cfg := include "gpu-control-plane.dockercfg" .root -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
  {{- include "gpu-control-plane.hook" $early | nindent 2 }}
automountServiceAccountToken: false
{{- if $cfg }}
imagePullSecrets:
- name: {{ .name }}-registry
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: d8:gpu-control-plane:{{ .name }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
  {{- include "gpu-control-plane.hook" $early | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: d8:gpu-control-plane:{{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .namespace }}
{{- with $cfg }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ $.name }}-registry
  namespace: {{ $.namespace }}
  {{- include "helm_lib_module_labels" (list $.root (dict "app" "registry")) | nindent 2 }}
  {{- include "gpu-control-plane.hook" $early | nindent 2 }}
type: kubernetes.io/dockerconfigjson
data:
  .dockerconfigjson: {{ . }}
{{- end }}
{{- end -}}

{{- define "gpu-control-plane.hookJob" -}}
{{- $values := .root.Values.gpuControlPlane.controllers -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
  {{- include "gpu-control-plane.hook" (merge (dict "weight" "0") .) | nindent 2 }}
    # Helm (3.18 and newer) prints why.
    helm.sh/hook-output-log-policy: hook-failed
spec:
  # What the program can wait for, it waits for itself; a second pod is for a node that fails.
  backoffLimit: 1
  # Helm waits for five minutes, unless it is told otherwise. The time runs while the pod is scheduled and its image is
  # pulled, too; a pod that is ended by it has no log any more, so a program gives up well before (--timeout).
  activeDeadlineSeconds: 290
  template:
    metadata:
      {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 6 }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      restartPolicy: Never
      {{- include "helm_lib_priority_class" (tuple .root "system-cluster-critical") | nindent 6 }}
      {{- include "helm_lib_node_selector" (tuple .root "system") | nindent 6 }}
      {{- include "helm_lib_tolerations" (tuple .root "any-node") | nindent 6 }}
      {{- include "helm_lib_module_pod_security_context_run_as_user_deckhouse" .root | nindent 6 }}
        seccompProfile:
          type: RuntimeDefault
      {{- if $values.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      containers:
      - name: {{ first .args }}
        image: {{ include "gpu-control-plane.image" (list .root "controlPlane" $values.image) }}
        imagePullPolicy: {{ $values.imagePullPolicy }}
        command: ["python3", "-m", "controllers.install"]
        args: {{ .args | toJson }}
        {{- include "gpu-control-plane.apiServer" $values.apiServer | nindent 8 }}
        resources:
          requests:
            cpu: 50m
            memory: 96Mi
            {{- include "helm_lib_module_ephemeral_storage_only_logs" .root | nindent 12 }}
          limits:
            memory: 512Mi
        {{- include "helm_lib_module_container_security_context_pss_restricted_flexible" dict | nindent 8 }}
{{- end -}}

{{- /* Not in Deckhouse, which brings CRDs up to date by itself. */ -}}
{{- define "gpu-control-plane.writesCRDs" -}}
{{- and .Values.gpuControlPlane.hooks.crds (not (.Values.global | default dict).modulesImages) | ternary "true" "" -}}
{{- end -}}
