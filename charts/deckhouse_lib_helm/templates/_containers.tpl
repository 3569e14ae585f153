{{- /* What every container says. */ -}}

{{- /* Room for a container's logs. Usage: include "helm_lib_module_ephemeral_storage_only_logs" . | nindent 14 */ -}}
{{- define "helm_lib_module_ephemeral_storage_only_logs" -}}
ephemeral-storage: 50Mi
{{- end }}

{{- /* Usage: include "helm_lib_module_pod_security_context_run_as_user_deckhouse" . | nindent 6 */ -}}
{{- define "helm_lib_module_pod_security_context_run_as_user_deckhouse" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 64535
  runAsGroup: 64535
{{- end }}

{{- /* Pod Security Standard "restricted", and a root file system that nobody writes.
       Usage: include "helm_lib_module_container_security_context_pss_restricted_flexible" dict | nindent 8; the real
       one's options (ro, caps, uid, seccompProfile) are not used here. */ -}}
{{- define "helm_lib_module_container_security_context_pss_restricted_flexible" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  privileged: false
  capabilities:
    drop: ["ALL"]
  runAsUser: 64535
  runAsGroup: 64535
  runAsNonRoot: true
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- /* What the platform's kube-rbac-proxy containers trust. Deckhouse alone has that authority.
       Usage: include "helm_lib_kube_rbac_proxy_ca_certificate" (list . "namespace") */ -}}
{{- define "helm_lib_kube_rbac_proxy_ca_certificate" -}}
{{- $root := index . 0 }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: kube-rbac-proxy-ca.crt
  namespace: {{ index . 1 }}
  {{- include "helm_lib_module_labels" (list $root) | nindent 2 }}
data:
  ca.crt: {{ $root.Values.global.internal.modules.kubeRBACProxyCA.cert | quote }}
{{- end }}
