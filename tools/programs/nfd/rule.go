package main

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"
)

// Rule is one entry of a NodeFeatureRule's spec.rules.
type Rule struct {
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels"`
	LabelsTemplate string            `json:"labelsTemplate"`
	Vars           map[string]string `json:"vars"`
	VarsTemplate   string            `json:"varsTemplate"`
	MatchFeatures  []*Term           `json:"matchFeatures"`
	MatchAny       []struct {
		MatchFeatures []*Term `json:"matchFeatures"`
	} `json:"matchAny"`

	labels, vars script
}

// script is a template; what is wrong with it matters to NFD when it is run, and not before.
type script struct {
	made   *template.Template
	broken error
}

// Term is a requirement on one feature.
type Term struct {
	Feature          string                 `json:"feature"`
	MatchExpressions map[string]*Expression `json:"matchExpressions"`
	MatchName        *Expression            `json:"matchName"`
}

func (r *Rule) compile() error {
	for _, terms := range append([][]*Term{r.MatchFeatures}, r.alternatives()...) {
		for _, term := range terms {
			for name, expression := range term.MatchExpressions {
				if expression == nil {
					return fmt.Errorf("%s %s: no expression", term.Feature, name)
				}
				if err := expression.compile(); err != nil {
					return fmt.Errorf("%s %s: %w", term.Feature, name, err)
				}
			}
			if term.MatchName != nil {
				if err := term.MatchName.compile(); err != nil {
					return fmt.Errorf("%s: %w", term.Feature, err)
				}
			}
		}
	}
	r.labels, r.vars = parse(r.LabelsTemplate), parse(r.VarsTemplate)
	return nil
}

func (r *Rule) alternatives() [][]*Term {
	made := [][]*Term{}
	for _, alternative := range r.MatchAny {
		made = append(made, alternative.MatchFeatures)
	}
	return made
}

func parse(text string) script {
	if text == "" {
		return script{}
	}
	// The option is NFD's: a name that is not there is an error and not "<no value>".
	made, err := template.New("").Option("missingkey=error").Parse(text)
	return script{made, err}
}

// matches holds what was matched, as templates see it: by domain and feature.
type matches map[string]map[string][]Element

// execute returns the labels and variables of a rule, as pkg/apis/nfd/nodefeaturerule/rule.go of
// NFD does: every alternative of matchAny that holds runs the templates on what it matched
// itself, then matchFeatures does; later lines replace earlier ones, fixed labels all. Without
// templates the first that holds is enough, and the others are not looked at.
func (r *Rule) execute(features *Features) (labels, vars map[string]string, err error) {
	labels, vars = map[string]string{}, map[string]string{}
	any := len(r.MatchAny) == 0
	for _, terms := range r.alternatives() {
		holds, matched, err := evaluate(terms, features)
		if err != nil {
			return nil, nil, err
		}
		if holds {
			any = true
			if r.LabelsTemplate == "" && r.VarsTemplate == "" {
				break
			}
			if err := r.expand(matched, labels, vars); err != nil {
				return nil, nil, err
			}
		}
	}
	if !any {
		return nil, nil, nil
	}
	if len(r.MatchFeatures) > 0 {
		holds, matched, err := evaluate(r.MatchFeatures, features)
		if err != nil || !holds {
			return nil, nil, err
		}
		if err := r.expand(matched, labels, vars); err != nil {
			return nil, nil, err
		}
	}
	copyInto(labels, r.Labels)
	copyInto(vars, r.Vars)
	return labels, vars, nil
}

// evaluate tells whether all terms hold. Terms on the same feature add their matches up.
func evaluate(terms []*Term, features *Features) (bool, matches, error) {
	found := matches{}
	for _, term := range terms {
		domain, name, _ := strings.Cut(term.Feature, ".")
		has, there := features.get(strings.ToLower(term.Feature))
		if !there {
			return false, nil, nil
		}
		holds, elements := true, []Element{}
		var err error
		if term.MatchExpressions != nil {
			if holds, elements, err = matchExpressions(term.MatchExpressions, has); err != nil {
				return false, nil, err
			}
		}
		if holds && term.MatchName != nil {
			var named []Element
			if holds, named, err = matchName(term.MatchName, has); err != nil {
				return false, nil, err
			}
			elements = append(elements, named...)
		}
		if !holds {
			return false, nil, nil
		}
		if found[domain] == nil {
			found[domain] = map[string][]Element{}
		}
		found[domain][name] = append(found[domain][name], elements...)
	}
	return true, found, nil
}

func (r *Rule) expand(matched matches, labels, vars map[string]string) error {
	if err := expand(r.labels, matched, labels); err != nil {
		return err
	}
	return expand(r.vars, matched, vars)
}

// expand runs a template; each of its lines that is not blank is `key=value`.
func expand(run script, matched matches, into map[string]string) error {
	if run.made == nil || run.broken != nil {
		return run.broken
	}
	var text bytes.Buffer
	if err := run.made.Execute(&text, matched); err != nil {
		return err
	}
	for line := range strings.SplitSeq(text.String(), "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return fmt.Errorf("the template's line %q is not <key>=<value>", line)
		}
		into[key] = value
	}
	return nil
}

func copyInto(target, source map[string]string) {
	for key, value := range source {
		target[key] = value
	}
}
