{{- /* What is the module's own: names, labels, images. A value that only Deckhouse injects may be absent everywhere
       here: with plain Helm there is no .Values.global. */ -}}

{{- /* The root of the module's values. Usage: include "helm_lib_module_camelcase_name" . (or with a name) */ -}}
{{- define "helm_lib_module_camelcase_name" -}}
{{- $name := . -}}
{{- if not (kindIs "string" .) }}{{ $name = .Chart.Name }}{{ end -}}
{{- $name | replace "-" "_" | camelcase | untitle -}}
{{- end -}}

{{- /* Usage: include "helm_lib_module_labels" (list . (dict "app" "x")) | nindent 2; the dict is optional. */ -}}
{{- define "helm_lib_module_labels" }}
labels:
  heritage: deckhouse
  module: {{ (index . 0).Chart.Name }}
  {{- if gt (len .) 1 }}
  {{- range $key, $value := index . 1 }}
  {{ $key }}: {{ $value | quote }}
  {{- end }}
  {{- end }}
{{- end }}

{{- /* An image of the module, by the digest that Deckhouse injects.
       Usage: include "helm_lib_module_image" (list . "nodeAgent") */ -}}
{{- define "helm_lib_module_image" }}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $module := include "helm_lib_module_camelcase_name" $root -}}
{{- $images := $root.Values.global.modulesImages -}}
{{- $digest := dig $module $name "" $images.digests -}}
{{- if not $digest }}{{ fail (printf "Image %s.%s has no digest" $module $name) }}{{ end -}}
{{- $base := dig $module "registry" "base" $images.registry.base $root.Values.AsMap -}}
{{- printf "%s/%s@%s" (trimSuffix "/" $base) $root.Chart.Name $digest -}}
{{- end }}

{{- /* The address of a page of documentation: in the cluster where it has a domain for its modules, else Deckhouse's own
       site. Usage: include "helm_lib_module_documentation_uri" (list . "/modules/x/faq.html") */ -}}
{{- define "helm_lib_module_documentation_uri" }}
{{- $root := index . 0 -}}
{{- $modules := ($root.Values.global | default dict).modules | default dict -}}
{{- with $modules.publicDomainTemplate -}}
{{- $scheme := eq (dig "https" "mode" "CertManager" $modules) "Disabled" | ternary "http" "https" -}}
{{- printf "%s://%s%s" $scheme (printf . "documentation") (index $ 1) -}}
{{- else -}}
{{- printf "https://deckhouse.io%s" (index . 1) -}}
{{- end -}}
{{- end }}
