package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const node = `{"features": {
	"flags": {"kernel.loadedmodule": {"elements": {"nvidia": {}, "i915": {}}}, "mixed.one": {"elements": {"f": {}}}},
	"attributes": {
		"kernel.version": {"elements": {"major": "6", "full": "6.1.0", "odd": "+"}},
		"mixed.one": {"elements": {"a": "1"}}},
	"instances": {"pci.device": {"elements": [
		{"attributes": {"vendor": "10de", "class": "0302"}},
		{"attributes": {"vendor": "8086", "class": "0380"}},
		{"attributes": {"vendor": "8086"}}]}}},
	"labels": {"plain": "1", "a.b/own": "2"}}`

// ask sends rules to a fresh server together with the node above.
func ask(t *testing.T, rules string, specs ...string) (map[string]string, []string) {
	t.Helper()
	if len(specs) == 0 {
		specs = []string{node}
	}
	line := fmt.Sprintf(`{"rules": [%s], "specs": [%s]}`, rules, strings.Join(specs, ","))
	out := lines(t, line)
	return out[0].Labels, out[0].Errors
}

func lines(t *testing.T, asked ...string) []answer {
	t.Helper()
	var in, out strings.Builder
	for _, line := range asked {
		in.WriteString(strings.NewReplacer("\n", " ", "\t", " ").Replace(line) + "\n")
	}
	if err := serve(strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	answers := []answer{}
	for text := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
		var one answer
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		answers = append(answers, one)
	}
	return answers
}

func has(t *testing.T, labels map[string]string, wanted ...string) {
	t.Helper()
	found := map[string]string{}
	for key, value := range labels {
		if strings.HasPrefix(key, "x/") {
			found[key] = value
		}
	}
	expected := map[string]string{}
	for _, pair := range wanted {
		key, value, _ := strings.Cut(pair, "=")
		expected["x/"+key] = value
	}
	if !reflect.DeepEqual(found, expected) {
		t.Errorf("labels %v, expected %v", found, expected)
	}
}

func TestOperators(t *testing.T) {
	attribute := func(name, expression string) string {
		return fmt.Sprintf(`{"name": "r", "labels": {"x/l": "1"}, "matchFeatures": [
			{"feature": "kernel.version", "matchExpressions": {"%s": %s}}]}`, name, expression)
	}
	for _, c := range []struct {
		name, expression string
		holds            bool
	}{
		{"major", `{"op": "In", "value": ["5", "6"]}`, true},
		{"major", `{"op": "In", "value": ["5"]}`, false},
		{"major", `{"op": "NotIn", "value": ["5"]}`, true},
		{"major", `{"op": "NotIn", "value": ["6"]}`, false},
		{"none", `{"op": "NotIn", "value": ["6"]}`, false},
		{"full", `{"op": "InRegexp", "value": ["^5", "^6[.]"]}`, true},
		{"full", `{"op": "InRegexp", "value": ["^6$"]}`, false},
		{"full", `{"op": "Exists"}`, true},
		{"none", `{"op": "Exists"}`, false},
		{"none", `{"op": "DoesNotExist"}`, true},
		{"full", `{"op": "DoesNotExist"}`, false},
		{"none", `{}`, true},
		{"major", `{"op": "Gt", "value": ["5"]}`, true},
		{"major", `{"op": "Gt", "value": ["6"]}`, false},
		{"major", `{"op": "Ge", "value": ["6"]}`, true},
		{"major", `{"op": "Lt", "value": ["6"]}`, false},
		{"major", `{"op": "Le", "value": ["6"]}`, true},
		{"major", `{"op": "GtLt", "value": ["6", "8"]}`, false},
		{"major", `{"op": "GeLe", "value": ["6", "8"]}`, true},
		{"major", `{"op": "IsTrue"}`, false},
		{"major", `{"op": "IsFalse"}`, false},
	} {
		labels, errors := ask(t, attribute(c.name, c.expression))
		if (labels["x/l"] == "1") != c.holds || len(errors) > 0 {
			t.Errorf("%s %s: %v, errors %v", c.name, c.expression, labels, errors)
		}
	}
}

func TestWhatIsNoExpressionIsToldAndOtherRulesGoOn(t *testing.T) {
	good := `{"name": "good", "labels": {"x/good": "1"}}`
	for _, bad := range []string{
		`{"name": "bad", "taints": [{"key": "a", "effect": "NoSchedule"}]}`,
		`{"name": "bad", "labelsTemplate": "{{ .broken", "matchFeatures": [{"feature": "kernel.version", "matchName": {}}]}`,
		`{"name": "bad", "varsTemplate": "{{ add 1 2 }}", "matchFeatures": [{"feature": "kernel.version", "matchName": {}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "Any"}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "In"}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "Exists", "value": ["x"]}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "InRegexp", "value": ["("]}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "Gt", "value": ["x"]}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchName": {"op": "GtLt", "value": ["2", "2"]}}]}`,
		`{"name": "bad", "matchFeatures": [{"feature": "a.b", "matchExpressions": {"x": {"op": "Like"}}}]}`,
		`{"name": "bad", "matchAny": [{"matchFeatures": [{"feature": "a.b", "matchName": {"op": "Like"}}]}]}`,
	} {
		labels, errors := ask(t, bad+","+good)
		has(t, labels, "good=1")
		if len(errors) != 1 || !strings.Contains(errors[0], "bad") {
			t.Errorf("%s: errors %v", bad, errors)
		}
	}
}

func TestATemplateThatIsNotRunIsNotRead(t *testing.T) {
	labels, errors := ask(t, `{"name": "r", "labels": {"x/l": "1"}, "labelsTemplate": "{{ .broken"}`)
	has(t, labels, "l=1")
	if len(errors) > 0 {
		t.Error(errors)
	}
}

func TestWithoutTemplatesTheFirstAlternativeThatHoldsIsEnough(t *testing.T) {
	alternatives := `"matchAny": [
		{"matchFeatures": [{"feature": "kernel.version", "matchName": {}}]},
		{"matchFeatures": [{"feature": "kernel.version", "matchExpressions": {"full": {"op": "Gt", "value": ["5"]}}}]}]`
	labels, errors := ask(t, `{"name": "r", "labels": {"x/l": "1"}, `+alternatives+`}`)
	has(t, labels, "l=1")
	if len(errors) > 0 {
		t.Error(errors)
	}
	if _, errors = ask(t, `{"name": "r", "labelsTemplate": "x/l=1", `+alternatives+`}`); len(errors) != 1 {
		t.Errorf("6.1.0 is no number, and is looked at: %v", errors)
	}
}

func TestWhatRulesGaveIsAFeatureAlsoWhereTheyGaveNothing(t *testing.T) {
	second := `{"name": "2", "labels": {"x/l": "1"}, "matchFeatures": [{"feature": "rule.matched", "matchExpressions": {}}]}`
	labels, _ := ask(t, second)
	has(t, labels)
	labels, _ = ask(t, `{"name": "1", "matchFeatures": [{"feature": "no.such", "matchName": {}}]},`+second)
	has(t, labels, "l=1")
}

func TestTemplatesSeeWhatTheirTermsMatched(t *testing.T) {
	labels, errors := ask(t, `{"name": "r", "matchFeatures": [
		{"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": ["8086"]}, "class": {"op": "Exists"}}},
		{"feature": "kernel.LoadedModule", "matchName": {"op": "InRegexp", "value": ["^n"]}},
		{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}],
		"labelsTemplate": "x/cards={{ len .pci.device }}\n\n  x/class={{ (index .pci.device 0).class }}\n{{ range .kernel.LoadedModule }}x/{{ .Name }}=y{{ end }}\n{{ range .kernel.version }}x/{{ .Name }}={{ .Value }}{{ end }}"}`)
	has(t, labels, "cards=1", "class=0380", "nvidia=y", "major=6")
	if len(errors) > 0 {
		t.Error(errors)
	}
}

func TestATemplateThatNamesWhatIsNotThereGivesNothing(t *testing.T) {
	for _, template := range []string{
		"x/a={{ .Match.Features }}", "x/a={{ range .pci.device }}{{ .device }}{{ end }}", "x/a",
		"x/a={{ range .kernel.version }}{{ end }}",
	} {
		rule, _ := json.Marshal(map[string]any{
			"name":           "r",
			"labelsTemplate": template,
			"matchFeatures":  []any{map[string]any{"feature": "pci.device", "matchExpressions": map[string]any{"vendor": map[string]any{"op": "Exists"}}}},
		})
		labels, errors := ask(t, string(rule))
		has(t, labels)
		if len(errors) != 1 {
			t.Errorf("%q: errors %v", template, errors)
		}
	}
}

func TestEachAlternativeRunsTheTemplateOnWhatItMatched(t *testing.T) {
	alternative := func(vendor string) string {
		return `{"matchFeatures": [{"feature": "pci.device", "matchExpressions": {"vendor": {"op": "In", "value": ["` + vendor + `"]}}}]}`
	}
	count := `"labelsTemplate": "x/count={{ len .pci.device }}\nx/{{ (index .pci.device 0).vendor }}=y"`
	labels, _ := ask(t, `{"name": "r", `+count+`, "matchAny": [`+alternative("10de")+","+alternative("1002")+","+alternative("8086")+`]}`)
	has(t, labels, "count=2", "10de=y", "8086=y")
	labels, _ = ask(t, `{"name": "r", "labels": {"x/l": "1"}, "matchAny": [`+alternative("1002")+`]}`)
	has(t, labels)
	labels, _ = ask(t, `{"name": "r", "labels": {"x/l": "1"}, "matchAny": [`+alternative("10de")+`],
		"matchFeatures": [{"feature": "kernel.version", "matchExpressions": {"none": {"op": "Exists"}}}]}`)
	has(t, labels)
}

func TestLaterRulesReplaceLabelsAndSeeThoseBefore(t *testing.T) {
	labels, _ := ask(t, `{"name": "1", "labels": {"x/l": "first"}, "vars": {"v": "5"}, "varsTemplate": "w=7",
			"matchFeatures": [{"feature": "kernel.version", "matchName": {}}]},
		{"name": "2", "labels": {"x/l": "second"}, "matchFeatures": [{"feature": "rule.matched", "matchExpressions":
			{"x/l": {"op": "In", "value": ["first"]}, "v": {"op": "Gt", "value": ["4"]}, "w": {"op": "Exists"}}}]},
		{"name": "3", "labels": {"x/l": "third"}, "matchFeatures": [{"feature": "rule.matched", "matchExpressions":
			{"none": {"op": "Exists"}}}]}`)
	has(t, labels, "l=second")
	labels, _ = ask(t, `{"name": "r", "labels": {"x/l": "1"}, "labelsTemplate": "x/t=1"}`)
	has(t, labels, "l=1") // a template without a matcher is not run
}

func TestFlagsAndAttributesOfOneFeatureCountTogether(t *testing.T) {
	rule := func(expressions string) string {
		return `{"name": "r", "labels": {"x/l": "1"}, "matchFeatures": [{"feature": "mixed.one", "matchExpressions": {` + expressions + `}}]}`
	}
	labels, _ := ask(t, rule(`"f": {"op": "Exists"}, "a": {"op": "In", "value": ["1"]}`))
	has(t, labels, "l=1")
	labels, _ = ask(t, rule(`"f": {"op": "DoesNotExist"}`))
	has(t, labels)
	labels, _ = ask(t, rule(``))
	has(t, labels, "l=1")
	labels, _ = ask(t, `{"name": "r", "labels": {"x/l": "1"}, "matchFeatures": [{"feature": "no.such", "matchExpressions": {"a": {"op": "DoesNotExist"}}}]}`)
	has(t, labels)
}

func TestNodeFeaturesAreMergedInTheirOrder(t *testing.T) {
	more := `{"features": {
		"attributes": {"kernel.version": {"elements": {"major": "7"}}},
		"instances": {"pci.device": {"elements": [{"attributes": {"vendor": "10de"}}]}}},
		"labels": {"plain": "3", "x/from": "more"}}`
	rule := `{"name": "r", "labelsTemplate": "x/cards={{ len .pci.device }}\nx/major={{ (index .kernel.version 0).Value }}",
		"matchFeatures": [
			{"feature": "pci.device", "matchExpressions": {"vendor": {"op": "Exists"}}},
			{"feature": "kernel.version", "matchExpressions": {"major": {"op": "Exists"}}}]}`
	labels, _ := ask(t, rule, node, more)
	has(t, labels, "cards=4", "major=7", "from=more")
	if labels["feature.node.kubernetes.io/plain"] != "3" || labels["a.b/own"] != "2" {
		t.Error(labels)
	}
	labels, _ = ask(t, rule, more, node)
	has(t, labels, "cards=4", "major=6", "from=more")
}

func TestLabelsThatKubernetesOrNfdRefuse(t *testing.T) {
	long := strings.Repeat("a", 63)
	labels, errors := ask(t, `{"name": "r", "labels": {
		"x/empty": "", "x/`+long+`": "`+long+`", "x/dynamic": "@kernel.version.full",
		"x/`+long+`a": "1", "x/long": "`+long+`a", "x/space": "a b", "x/end": "a-", "x/plus": "@kernel.version.odd",
		"x/none": "@kernel.version.none", "x/short": "@a.b", "X Y/a": "1", "x/": "1",
		"kubernetes.io/a": "1", "node.kubernetes.io/a": "1", "profile.node.kubernetes.io/a": "1", "s.feature.node.kubernetes.io/a": "1"}}`)
	has(t, labels, "empty=", long+"="+long, "dynamic=6.1.0")
	for _, kept := range []string{"profile.node.kubernetes.io/a", "s.feature.node.kubernetes.io/a"} {
		if labels[kept] != "1" {
			t.Errorf("%s is missing", kept)
		}
	}
	if len(errors) != 11 {
		t.Errorf("%d errors: %v", len(errors), errors)
	}
}

func TestTheServerAnswersEveryLine(t *testing.T) {
	rule := `{"name": "r", "labels": {"x/l": "%s"}}`
	request := func(value string) string {
		return fmt.Sprintf(`{"rules": [`+rule+`], "specs": []}`, value)
	}
	got := lines(t, request("1"), "nonsense", request("2"), `{"rules": [], "other": 1}`, request("2"), `{"rules": []} {}`)
	if len(got) != 6 {
		t.Fatalf("%d answers", len(got))
	}
	for i, wanted := range map[int]string{0: "1", 2: "2", 4: "2"} {
		if got[i].Labels["x/l"] != wanted || len(got[i].Errors) > 0 {
			t.Errorf("answer %d: %v", i, got[i])
		}
	}
	for _, i := range []int{1, 3, 5} {
		if got[i].Labels != nil || len(got[i].Errors) != 1 {
			t.Errorf("answer %d: %v", i, got[i])
		}
	}
}
