// nfd-rule says which labels nfd-master would give a node: a co-process that answers each
// line of standard input by one line, until the input ends.
//
//	in   {"rules": [rule, ...], "specs": [{"features": {...}, "labels": {...}}, ...]}
//	out  {"labels": {...}, "errors": ["...", ...]}
//
// `rules` are the rules of all NodeFeatureRules, in the order of these objects' names; `specs`
// those of all NodeFeatures of the node, in the order in which NFD merges them. What NFD would
// log as an error and go on without is an entry of `errors`, and so is a rule with a field that
// is not evaluated here (taints, extended resources). A line that is no such request is
// answered by `labels` null and the reason.
//
// Written from the documented semantics of Node Feature Discovery v0.17 (its customization
// guide) and from how its pkg/nfd-master/nfd-master.go and pkg/apis/nfd/nodefeaturerule
// behave; without sprig's template functions, which came with a later version.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type request struct {
	Rules json.RawMessage `json:"rules"`
	Specs []Spec          `json:"specs"`
}

type answer struct {
	Labels map[string]string `json:"labels"`
	Errors []string          `json:"errors"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "nfd-rule: %v\n", err)
		os.Exit(1)
	}
}

// serve answers line by line. The rules of one line are mostly those of the line before, so
// they are read, and their templates and expressions compiled, only when they change.
func serve(in io.Reader, out io.Writer) error {
	reader, writer := bufio.NewReaderSize(in, 1<<16), bufio.NewWriter(out)
	known := &compiled{}
	for {
		line, err := reader.ReadBytes('\n')
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			text, failed := json.Marshal(reply(trimmed, known))
			if failed != nil {
				return failed
			}
			if _, failed := writer.Write(append(text, '\n')); failed != nil {
				return failed
			}
			if failed := writer.Flush(); failed != nil {
				return failed
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// compiled is what was read from a text of rules, and what of it could not be.
type compiled struct {
	text   []byte
	rules  []Rule
	errors []string
}

func (c *compiled) read(text []byte) error {
	if bytes.Equal(text, c.text) {
		return nil
	}
	var each []json.RawMessage
	if err := json.Unmarshal(text, &each); err != nil {
		return err
	}
	*c = compiled{text: bytes.Clone(text)}
	for i, one := range each {
		rule := Rule{}
		err := strict(one, &rule)
		if err == nil {
			err = rule.compile()
		}
		if err != nil {
			c.errors = append(c.errors, fmt.Sprintf("rule %d %q is not evaluated: %v", i, rule.Name, err))
			continue
		}
		c.rules = append(c.rules, rule)
	}
	return nil
}

func reply(line []byte, known *compiled) answer {
	var asked request
	err := strict(line, &asked)
	if err == nil {
		err = known.read(asked.Rules)
	}
	if err != nil {
		return answer{Errors: []string{"not a request: " + err.Error()}}
	}
	labels, errors := Process(known.rules, merged(asked.Specs))
	return answer{Labels: labels, Errors: append(errors, known.errors...)}
}

func strict(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if decoder.More() {
		return fmt.Errorf("more than one value")
	}
	return nil
}
