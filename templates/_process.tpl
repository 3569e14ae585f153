{{- /* One of the processes. Each is a dict, made in its own folder by a helper named after it:
         root      the chart's context
         name      of the process, its ServiceAccount, Deployment and Lease
         module    what python3 -m starts
         args      its flags beside those that all have
         ports     name of a port → [in its own network, on the node's]: 4200-4299, of which DCGM has 4255 and 4256
         replicas  how many
         cpu, memory, memoryLimit   requests, and where the process is ended */ -}}

{{- define "gpu-control-plane.process" -}}
{{- if .root.Values.gpuControlPlane.controllers.deploy -}}
{{ include "gpu-control-plane.deployment" . }}
{{ include "gpu-control-plane.vpa" (dict "root" .root "kind" "Deployment" "name" .name "container" .name "memory" .memory) }}
{{- end }}
---
{{ include "gpu-control-plane.disruption" . }}
---
{{ include "gpu-control-plane.reach" . }}
{{- end -}}

{{- define "gpu-control-plane.deployment" -}}
{{- $values := .root.Values.gpuControlPlane.controllers -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ include "gpu-control-plane.namespace" . }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
spec:
  replicas: {{ .replicas }}
  revisionHistoryLimit: 2
  {{- include "gpu-control-plane.strategy" . | nindent 2 }}
  selector:
    matchLabels:
      app: {{ .name }}
  template:
    metadata:
      {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 6 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .name }}
    spec:
      serviceAccountName: {{ .name }}
      automountServiceAccountToken: true
      {{- include "helm_lib_priority_class" (tuple .root "system-cluster-critical") | nindent 6 }}
      {{- include "helm_lib_node_selector" (tuple .root "system") | nindent 6 }}
      {{- include "helm_lib_tolerations" (tuple .root "any-node") | nindent 6 }}
      {{- include "gpu-control-plane.spread" . | nindent 6 }}
      {{- include "helm_lib_module_pod_security_context_run_as_user_deckhouse" .root | nindent 6 }}
        seccompProfile:
          type: RuntimeDefault
      {{- if $values.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      containers:
      - name: {{ .name }}
        image: {{ include "gpu-control-plane.image" (list .root "controlPlane" $values.image) }}
        imagePullPolicy: {{ $values.imagePullPolicy }}
        command: ["python3", "-m", {{ .module | quote }}]
        args:
        - {{ printf "--health-host=%s" $values.listen | quote }}
        - --health-port={{ include "gpu-control-plane.port" (list .root .ports.health) }}
        - --metrics-port={{ include "gpu-control-plane.port" (list .root (index .ports "https-metrics")) }}
        {{- range .args }}
        - {{ . | quote }}
        {{- end }}
        {{- include "gpu-control-plane.apiServer" $values.apiServer | nindent 8 }}
        ports:
        {{- range $name, $port := .ports }}
        - name: {{ $name }}
          containerPort: {{ include "gpu-control-plane.port" (list $.root $port) }}
          protocol: TCP
        {{- end }}
        # On a node that is busy, as when all of it starts at once, Python takes its time.
        startupProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 2
          timeoutSeconds: 5
          failureThreshold: 90
        # The event loop turns; a stall of half a minute is no process any more.
        livenessProbe:
          httpGet:
            path: /healthz
            port: health
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 3
        # It has read the cluster, and hears from the API server.
        readinessProbe:
          httpGet:
            path: /readyz
            port: health
          periodSeconds: 5
          timeoutSeconds: 3
          failureThreshold: 2
        resources:
          requests:
            cpu: {{ .cpu }}
            memory: {{ .memory }}
            {{- include "helm_lib_module_ephemeral_storage_only_logs" .root | nindent 12 }}
          limits:
            memory: {{ .memoryLimit }}
        {{- include "helm_lib_module_container_security_context_pss_restricted_flexible" dict | nindent 8 }}
{{- end -}}

{{- /* A port in the pod's own network, or on the node's. Usage: (list root pair) */ -}}
{{- define "gpu-control-plane.port" -}}
{{- index (index . 1) ((index . 0).Values.gpuControlPlane.controllers.hostNetwork | ternary 1 0) -}}
{{- end -}}

{{- /* Two replicas take turns: one of them serves all the time, and no third needs a node of its own, which a required
       anti-affinity may leave without one. A single one has its successor ready first; on the node's network that cannot
       be, since both want the same port. */ -}}
{{- define "gpu-control-plane.strategy" -}}
{{- $turns := or (gt (int .replicas) 1) .root.Values.gpuControlPlane.controllers.hostNetwork -}}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: {{ $turns | ternary 0 1 }}
    maxUnavailable: {{ $turns | ternary 1 0 }}
{{- end -}}

{{- /* Replicas on different nodes: always under high availability, elsewhere as far as there are nodes. */ -}}
{{- define "gpu-control-plane.spread" -}}
{{- if include "helm_lib_ha_enabled" .root -}}
{{- include "helm_lib_pod_anti_affinity_for_ha" (list .root (dict "app" .name)) -}}
{{- else if gt (int .replicas) 1 }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app: {{ .name }}
{{- end -}}
{{- end -}}

{{- /* Of two replicas one stays while a node is drained. With a single one a drain must not wait for ever, hence no
       minAvailable. */ -}}
{{- define "gpu-control-plane.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ include "gpu-control-plane.namespace" . }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
spec:
  maxUnavailable: 1
  # A replica that is not ready serves nobody, and must not keep a node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app: {{ .name }}
{{- end -}}

{{- /* What may reach a process. Where it goes is not limited: its peers are the API server, which often is no pod and
       has no address that a policy could name, and for gpu-bootstrap-controller the exporters on the nodes. On the node's
       network no policy applies. */ -}}
{{- define "gpu-control-plane.reach" -}}
{{- $from := .root.Values.gpuControlPlane.controllers.scrapedFrom -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ include "gpu-control-plane.namespace" . }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      app: {{ .name }}
  policyTypes: ["Ingress"]
  ingress:
  {{- if hasKey .ports "https" }}
  # Reviews, from the API server: where nobody says which addresses it has, from anywhere. It asks the container's
  # port, not the Service's.
  - ports:
    - protocol: TCP
      port: https
    {{- with .root.Values.gpuControlPlane.webhook.askedFrom }}
    from:
    {{- range . }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
    {{- end }}
  {{- end }}
  {{- if hasKey .ports "pages" }}
  # Pages, from the proxy that knows who looks; who reaches them without is nobody, and gets 401.
  - from:
    {{- with .root.Values.gpuControlPlane.console.reachedFrom }}
    - namespaceSelector:
        matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values: {{ . | toJson }}
    {{- else }}
    - namespaceSelector: {}
    {{- end }}
    ports:
    - protocol: TCP
      port: pages
  {{- end }}
  # Metrics, from pods of the cluster that may read them. Probes come from the node and are always let through.
  - from:
    {{- if $from }}
    - namespaceSelector:
        matchExpressions:
        - key: kubernetes.io/metadata.name
          operator: In
          values: {{ $from | toJson }}
    {{- else }}
    - namespaceSelector: {}
    {{- end }}
    ports:
    - protocol: TCP
      port: https-metrics
{{- end -}}

{{- /* Where the API is served. Initial: a new pod starts with what was found to suit, and none is evicted for it: each
       eviction of the webhook is a pause in giving out cards. Usage: (dict "root" . "kind" … "name" … "container" …
       "memory" …) */ -}}
{{- define "gpu-control-plane.vpa" -}}
{{- if .root.Capabilities.APIVersions.Has "autoscaling.k8s.io/v1/VerticalPodAutoscaler" }}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata:
  name: {{ .name }}
  namespace: {{ include "gpu-control-plane.namespace" . }}
  {{- include "helm_lib_module_labels" (list .root (dict "app" .name)) | nindent 2 }}
spec:
  targetRef:
    apiVersion: apps/v1
    kind: {{ .kind }}
    name: {{ .name }}
  updatePolicy:
    updateMode: Initial
  resourcePolicy:
    containerPolicies:
    - containerName: {{ .container }}
      controlledValues: RequestsOnly
      minAllowed:
        cpu: 10m
        memory: {{ .memory }}
      maxAllowed:
        cpu: "1"
        memory: 512Mi
{{- end }}
{{- end -}}
