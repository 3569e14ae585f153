package main

// Spec is a NodeFeature's (NFD's api/nfd/v1alpha1/types.go).
type Spec struct {
	Features Features          `json:"features"`
	Labels   map[string]string `json:"labels"`
}

// Features is what is said of a node, in NFD's three forms: names; names with values; lists of maps.
type Features struct {
	Flags      map[string]Flags      `json:"flags"`
	Attributes map[string]Attributes `json:"attributes"`
	Instances  map[string]Instances  `json:"instances"`
}

// Flags are the names of one flag feature.
type Flags struct {
	Elements map[string]struct{} `json:"elements"`
}

// Attributes are the values of one attribute feature.
type Attributes struct {
	Elements map[string]string `json:"elements"`
}

// Instances are the elements of one instance feature.
type Instances struct {
	Elements []struct {
		Attributes map[string]string `json:"attributes"`
	} `json:"elements"`
}

// merged puts the specs of a node's NodeFeatures together, as MergeInto of NFD's
// api/nfd/v1alpha1/feature.go does: names and values of a later one replace those of an earlier
// one, instances add up. Labels get their prefix before that.
func merged(specs []Spec) Spec {
	whole := Spec{
		Features: Features{map[string]Flags{}, map[string]Attributes{}, map[string]Instances{}},
		Labels:   map[string]string{},
	}
	for _, spec := range specs {
		for name, feature := range spec.Features.Flags {
			known := whole.Features.Flags[name]
			known.Elements = united(known.Elements, feature.Elements)
			whole.Features.Flags[name] = known
		}
		for name, feature := range spec.Features.Attributes {
			known := whole.Features.Attributes[name]
			known.Elements = united(known.Elements, feature.Elements)
			whole.Features.Attributes[name] = known
		}
		for name, feature := range spec.Features.Instances {
			known := whole.Features.Instances[name]
			known.Elements = append(known.Elements, feature.Elements...)
			whole.Features.Instances[name] = known
		}
		copyInto(whole.Labels, prefixed(spec.Labels))
	}
	return whole
}

// united overlays one map by another; nil, which matches otherwise than empty, stays nil.
func united[V any](known, more map[string]V) map[string]V {
	if known == nil && more != nil {
		known = make(map[string]V, len(more))
	}
	for key, value := range more {
		known[key] = value
	}
	return known
}

// Element is what a template sees of one match: Name, and Value where there is one, or the
// attributes of an instance.
type Element map[string]string

// data is one feature in all forms that it has.
type data struct {
	flags      map[string]struct{}
	attributes map[string]string
	instances  []Element
}

// get returns a feature; false where the node has none of that name.
func (f *Features) get(name string) (data, bool) {
	flags, isFlags := f.Flags[name]
	attributes, isAttributes := f.Attributes[name]
	instances, isInstances := f.Instances[name]
	found := data{flags: flags.Elements, attributes: attributes.Elements}
	for _, instance := range instances.Elements {
		found.instances = append(found.instances, instance.Attributes)
	}
	return found, isFlags || isAttributes || isInstances
}

// backReference makes the output of a rule a feature of the rules after it.
const backReference = "rule.matched"

func (f *Features) remember(values map[string]string) {
	known := f.Attributes[backReference]
	if known.Elements == nil {
		known.Elements = map[string]string{} // there also after rules that gave nothing
	}
	known.Elements = united(known.Elements, values)
	f.Attributes[backReference] = known
}
