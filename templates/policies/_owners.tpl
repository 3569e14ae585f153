{{- /* Who owns which field of a status (docs/dev/design.md, Owners of status fields). A field or condition that is not
       here may be written by nobody. Made from controllers/api/ownership.py by `python -m tools.docs`. */ -}}
{{- define "gpu-control-plane.statusOwners" -}}
# status-owners:begin
gpudevices:
  gpu-inventory-controller:
    fields: [nodeName, inventoryID, managed, lostSince, nodeGoneSince, hardware]
    conditions: [ManagedDisabled, InventoryIncomplete, Ignored]
  gpu-bootstrap-controller:
    fields: [health, fault, faultEnd]
    conditions: [Faulted]
  gpupool-controller:
    fields: [poolRef, autoAttach, offer, missingPool, state, reservations, history]
    conditions: [Configured]
  gpu-admission-webhook:
    fields: [state, reservations]
  gpu-nodeagent-device-plugin:
    fields: [published, allocations, foreignAllocations, mps]
  gpu-nodeagent-mig:
    fields: [migApply]
gpunodeinventories:
  gpu-inventory-controller:
    fields: [hw]
    conditions: [ManagedDisabled, InventoryIncomplete, PrerequisiteNotMet]
  gpu-bootstrap-controller:
    fields: [driver, runtime, monitoring, bootstrap, software, managedElsewhere]
    conditions: [ReadyForPooling, DriverMissing, DriverOutdated, CudaOutdated, ToolkitMissing, MonitoringMissing, InfraDegraded, ManagedElsewhere, DegradedWorkloads]
  gpupool-controller:
    fields: [pools]
    conditions: [UnassignedDevice]
  gpu-driver-controller:
    fields: [driverWork, lastDriverWork]
gpupools:
  gpupool-controller:
    fields: [capacity, appliedAllocation, nodes, devices, candidates, truncated, passedOver, queue, phase, lastReconfigured]
    conditions: [Available, Maintenance, Misconfigured, CapacityLow]
gpudrivers:
  gpu-driver-controller:
    fields: [observedGeneration, target, current, revisions, counts, state, strata, spent, eta, versions, nodes, truncated]
    conditions: [Ready, Progressing, Overlaps, SettingsInvalid, NextKernelUnserved, Blocked, Failed, Halted]
# status-owners:end
{{- end -}}

{{- /* The same as a CEL literal: resource -> field -> owners. */ -}}
{{- define "gpu-control-plane.statusOwnersCEL" -}}
{{- $resources := list -}}
{{- range $resource, $owners := include "gpu-control-plane.statusOwners" . | fromYaml -}}
  {{- $byField := dict -}}
  {{- range $owner, $owned := $owners -}}
    {{- range $owned.fields -}}
      {{- $_ := set $byField . (append (get $byField . | default list) (squote $owner)) -}}
    {{- end -}}
    {{- range $owned.conditions -}}
      {{- $_ := set $byField (printf "conditions[%s]" .) (list (squote $owner)) -}}
    {{- end -}}
  {{- end -}}
  {{- $fields := list -}}
  {{- range $field, $names := $byField -}}
    {{- $fields = append $fields (printf "  '%s': [%s]" $field (join ", " $names)) -}}
  {{- end -}}
  {{- $resources = append $resources (printf "'%s': {\n%s\n}" $resource (join ",\n" $fields)) -}}
{{- end -}}
{
{{ join ",\n" $resources }}
}[request.resource.resource]
{{- end -}}

{{- /* The binding of a policy, of the same name: refuse. */ -}}
{{- define "gpu-control-plane.binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .policy }}
  {{- include "gpu-control-plane.labels" dict | nindent 2 }}
spec:
  policyName: {{ .policy }}
  validationActions: ["Deny"]
{{- end -}}
