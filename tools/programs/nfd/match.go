package main

import (
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
)

// Expression is one requirement on a value or a name, as pkg/apis/nfd/nodefeaturerule/expression.go
// of NFD evaluates it.
type Expression struct {
	Op    string   `json:"op"`
	Value []string `json:"value"`
	Type  string   `json:"type"`

	patterns []*regexp.Regexp
	numbers  []int
}

// How many values an operator takes; -1 stands for one or more. None at all is NFD's MatchAny, which always holds.
var operators = map[string]int{
	"": 0, "Exists": 0, "DoesNotExist": 0, "IsTrue": 0, "IsFalse": 0,
	"In": -1, "NotIn": -1, "InRegexp": -1,
	"Gt": 1, "Ge": 1, "Lt": 1, "Le": 1, "GtLt": 2, "GeLe": 2,
}

func (e *Expression) compile() error {
	wanted, known := operators[e.Op]
	if !known {
		return fmt.Errorf("invalid Op %q", e.Op)
	}
	if e.Type != "" {
		return fmt.Errorf("type %q: only plain values are compared here", e.Type)
	}
	if (wanted < 0 && len(e.Value) == 0) || (wanted >= 0 && len(e.Value) != wanted) {
		return fmt.Errorf("Op %q cannot have %d values", e.Op, len(e.Value))
	}
	switch {
	case e.Op == "InRegexp":
		for _, text := range e.Value {
			pattern, err := regexp.Compile(text)
			if err != nil {
				return err
			}
			e.patterns = append(e.patterns, pattern)
		}
	case wanted > 0:
		for _, text := range e.Value {
			number, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("not a number %q", text)
			}
			e.numbers = append(e.numbers, number)
		}
		if wanted == 2 && e.numbers[0] >= e.numbers[1] {
			return fmt.Errorf("Op %q: %d is not less than %d", e.Op, e.numbers[0], e.numbers[1])
		}
	}
	return nil
}

// holds tells whether the expression is true. Without a value (a flag, or something that is
// not there) only none at all, Exists and DoesNotExist can be.
func (e *Expression) holds(exists bool, value *string) (bool, error) {
	switch e.Op {
	case "":
		return true, nil
	case "Exists":
		return exists, nil
	case "DoesNotExist":
		return !exists, nil
	}
	if !exists || value == nil {
		return false, nil
	}
	switch e.Op {
	case "In":
		return slices.Contains(e.Value, *value), nil
	case "NotIn":
		return !slices.Contains(e.Value, *value), nil
	case "InRegexp":
		return slices.ContainsFunc(e.patterns, func(p *regexp.Regexp) bool { return p.MatchString(*value) }), nil
	case "IsTrue":
		return *value == "true", nil
	case "IsFalse":
		return *value == "false", nil
	}
	number, err := strconv.Atoi(*value)
	if err != nil {
		return false, fmt.Errorf("not a number %q", *value)
	}
	return e.compares(number), nil
}

func (e *Expression) compares(number int) bool {
	switch e.Op {
	case "Gt":
		return number > e.numbers[0]
	case "Ge":
		return number >= e.numbers[0]
	case "Lt":
		return number < e.numbers[0]
	case "Le":
		return number <= e.numbers[0]
	case "GtLt":
		return number > e.numbers[0] && number < e.numbers[1]
	default: // GeLe
		return number >= e.numbers[0] && number <= e.numbers[1]
	}
}

// matchExpressions evaluates requirements on values. Flags and attributes count together:
// each name has to match in either. Every instance is looked at by itself, and those that
// meet all requirements match; the feature matches by its names or by an instance.
func matchExpressions(wanted map[string]*Expression, has data) (bool, []Element, error) {
	matched, elements, err := matchNamed(wanted, has)
	if err != nil {
		return false, nil, err
	}
	for _, instance := range has.instances {
		all, err := matchInstance(wanted, instance)
		if err != nil {
			return false, nil, err
		}
		if all {
			matched, elements = true, append(elements, instance)
		}
	}
	return matched, elements, nil
}

func matchNamed(wanted map[string]*Expression, has data) (bool, []Element, error) {
	elements := []Element{}
	if has.flags == nil && has.attributes == nil {
		return false, elements, nil
	}
	for name, expression := range wanted {
		byFlag, byValue := false, false
		if has.flags != nil {
			_, exists := has.flags[name]
			matched, err := expression.holds(exists, nil)
			if err != nil {
				return false, nil, err
			}
			if byFlag = matched; matched {
				elements = append(elements, Element{"Name": name})
			} else if expression.Op == "DoesNotExist" {
				return false, []Element{}, nil
			}
		}
		if has.attributes != nil {
			value, exists := has.attributes[name]
			matched, err := expression.holds(exists, &value)
			if err != nil {
				return false, nil, err
			}
			if byValue = matched; matched {
				elements = append(elements, Element{"Name": name, "Value": value})
			} else if expression.Op == "DoesNotExist" {
				return false, []Element{}, nil
			}
		}
		if !byFlag && !byValue {
			return false, []Element{}, nil
		}
	}
	byName(elements)
	return true, elements, nil
}

func matchInstance(wanted map[string]*Expression, attributes Element) (bool, error) {
	for name, expression := range wanted {
		value, exists := attributes[name]
		if matched, err := expression.holds(exists, &value); err != nil || !matched {
			return false, err
		}
	}
	return true, nil
}

// matchName evaluates a requirement on names: of flags, of attributes, and of the attributes
// of each instance.
func matchName(wanted *Expression, has data) (bool, []Element, error) {
	elements := []Element{}
	for name := range has.flags {
		if matched, err := wanted.holds(true, &name); err != nil {
			return false, nil, err
		} else if matched {
			elements = append(elements, Element{"Name": name})
		}
	}
	for name, value := range has.attributes {
		if matched, err := wanted.holds(true, &name); err != nil {
			return false, nil, err
		} else if matched {
			elements = append(elements, Element{"Name": name, "Value": value})
		}
	}
	byName(elements)
	for _, instance := range has.instances {
		if matched, _, err := matchName(wanted, data{attributes: instance}); err != nil {
			return false, nil, err
		} else if matched {
			elements = append(elements, instance)
		}
	}
	return len(elements) > 0, elements, nil
}

func byName(elements []Element) {
	sort.SliceStable(elements, func(i, j int) bool { return elements[i]["Name"] < elements[j]["Name"] })
}
