package main

import (
	"fmt"
	"regexp"
	"sort"
	"strings"
)

const defaultNamespace = "feature.node.kubernetes.io"

var (
	nameOrValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)
	subdomain   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
)

// Process returns a node's labels and what was refused, as refreshNodeFeatures and
// processNodeFeatureRule of NFD's pkg/nfd-master/nfd-master.go do with its default settings: the
// labels of NodeFeatures, then those of the rules in their order, each rule seeing the labels
// and variables of those before it.
func Process(rules []Rule, node Spec) (map[string]string, []string) {
	found, features, errors := node.Labels, &node.Features, []string{}
	for i := range rules {
		labels, vars, err := rules[i].execute(features)
		if err != nil {
			errors = append(errors, fmt.Sprintf("rule %q: %v", rules[i].Name, err))
			continue
		}
		copyInto(found, prefixed(labels))
		features.remember(labels)
		features.remember(vars)
	}
	labels := map[string]string{}
	for key, text := range found {
		value, err := resolved(text, features)
		if err == nil {
			err = validate(key, value)
		}
		if err != nil {
			errors = append(errors, fmt.Sprintf("label %s=%s: %v", key, text, err))
			continue
		}
		labels[key] = value
	}
	sort.Strings(errors)
	return labels, errors
}

// prefixed gives names without a prefix the default one, unless the prefixed name is there too.
func prefixed(labels map[string]string) map[string]string {
	made := map[string]string{}
	for key, value := range labels {
		if strings.Contains(key, "/") {
			made[key] = value
		} else if _, both := labels[defaultNamespace+"/"+key]; !both {
			made[defaultNamespace+"/"+key] = value
		}
	}
	return made
}

// resolved replaces `@domain.feature.element` by that attribute's value.
func resolved(text string, features *Features) (string, error) {
	reference, dynamic := strings.CutPrefix(text, "@")
	if !dynamic {
		return text, nil
	}
	parts := strings.SplitN(reference, ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("%s is not @<domain>.<feature>.<element>", text)
	}
	if value, there := features.Attributes[parts[0]+"."+parts[1]].Elements[parts[2]]; there {
		return value, nil
	}
	return "", fmt.Errorf("there is no %s", reference)
}

// validate refuses what Kubernetes or NFD (pkg/apis/nfd/validate/validate.go) does.
func validate(key, value string) error {
	namespace, name, _ := strings.Cut(key, "/")
	if len(namespace) > 253 || !subdomain.MatchString(namespace) || !nameOrValue.MatchString(name) {
		return fmt.Errorf("invalid key")
	}
	if namespace == "kubernetes.io" || (strings.HasSuffix(namespace, ".kubernetes.io") && !ours(namespace)) {
		return fmt.Errorf("namespace is not allowed")
	}
	if value != "" && !nameOrValue.MatchString(value) {
		return fmt.Errorf("invalid value")
	}
	return nil
}

func ours(namespace string) bool {
	for _, allowed := range []string{defaultNamespace, "profile.node.kubernetes.io"} {
		if namespace == allowed || strings.HasSuffix(namespace, "."+allowed) {
			return true
		}
	}
	return false
}
