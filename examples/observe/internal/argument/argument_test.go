package argument_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
)

func object() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "web", "annotations": map[string]any{"empty": nil}},
		"spec": map[string]any{
			"clusterIP": "10.0.0.1",
			"ports":     []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(443)}},
			"odd":       "<no value>",
		},
	}
}

func TestArgumentsOfAnObject(t *testing.T) {
	for name, c := range map[string]struct {
		format, text string
		strict       bool
		want, fails  string
	}{
		"a field":                          {"jsonpath", "{.spec.clusterIP}", false, "10.0.0.1", ""},
		"blanks, as in kubectl's examples": {"jsonpath", "{ .spec.clusterIP }", false, "10.0.0.1", ""},
		"several values":                   {"jsonpath", "{.spec.ports[*].port}", false, "80 443", ""},
		"text around it":                   {"jsonpath", "ip={.spec.clusterIP}!", false, "ip=10.0.0.1!", ""},
		"no field":                         {"jsonpath", "bad{.metadata.labels.unset}key", false, "badkey", ""},
		"no field, strictly":               {"jsonpath", "{.metadata.labels.unset}", true, "", "labels is not found"},
		"no index":                         {"jsonpath", "{.spec.ports[7].port}", false, "", "out of bounds"},
		"all values, as JSON":              {"jsonpath-as-json", "{.spec.ports[*].port}", false, "[\n    80,\n    443\n]\n", ""},
		"no field, as JSON":                {"jsonpath-as-json", "{.metadata.labels.unset}", false, "[]\n", ""},
		"text alone":                       {"jsonpath", "plain", false, "plain", ""},
		"go: a field":                      {"go-template", "{{ .spec.clusterIP }}", false, "10.0.0.1", ""},
		"go: the older name":               {"gotemplate", "{{ .spec.clusterIP }}", false, "10.0.0.1", ""},
		"go: the oldest name":              {"template", "{{ .spec.clusterIP }}", false, "10.0.0.1", ""},
		"go: no field":                     {"go-template", "{{ .unknown }}", false, "", ""},
		"go: no field in text":             {"go-template", "bad{{ .unknown }}key", false, "badkey", ""},
		"go: no field of no field":         {"go-template", "{{ .unknown.of.that }}", false, "", ""},
		"go: null":                         {"go-template", "{{ .metadata.annotations.empty }}", false, "", ""},
		"go: no field, strictly":           {"go-template", "{{ .unknown }}", true, "", "no entry for key"},
		"go: a value that looks like none": {"go-template", "{{ .spec.odd }}", false, "<no value>", ""},
		"go: inside blocks": {
			"go-template",
			`{{range .spec.ports}}{{.port}}{{.name}},{{else}}{{.x}}{{end}}{{if .no}}{{.no}}{{else}}{{.no}}{{end}}` +
				`{{with .no}}{{.}}{{else}}{{.no}}{{end}}{{define "t"}}{{.no}}{{end}}{{template "t" .}}`,
			false, "80,443,", "",
		},
		"go: a variable":     {"go-template", `{{$x := .no}}{{$x}}{{$y := 1}}{{$y = 2}}{{$y}}`, false, "2", ""},
		"go: without an end": {"go-template", `{{range 1000000}}0123456789{{end}}`, false, "", "longer than 131072 bytes: give the object to the command with --stdin"},
		"a NUL":              {"go-template", `{{printf "\x00"}}`, false, "", "NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			list, err := argument.Parse(c.format, []string{c.text}, c.strict)
			g.Expect(err).NotTo(HaveOccurred())
			got, err := list.Of(object())
			if c.fails != "" {
				g.Expect(err).To(MatchError(And(ContainSubstring(c.fails), ContainSubstring("template 1 of 1"))))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal([]string{c.want}))
		})
	}
}

func TestOneArgumentForEachTemplate(t *testing.T) {
	g := NewWithT(t)
	list, err := argument.Parse("jsonpath", []string{"{.metadata.name}", "", "{.spec.clusterIP}"}, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Of(object())).To(Equal([]string{"web", "", "10.0.0.1"}))
	list, err = argument.Parse("jsonpath", nil, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list.Of(object())).To(BeEmpty(), "no phantom empty argument")
}

func TestTemplatesInFiles(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "t")
	for format, text := range map[string]string{
		"jsonpath-file": "{.metadata.name}\n", "go-template-file": "{{.metadata.name}}\n", "templatefile": "{{.metadata.name}}",
	} {
		g.Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		list, err := argument.Parse(format, []string{file}, false)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list.Of(object())).To(Equal([]string{"web"}))
	}
	_, err := argument.Parse("jsonpath-file", []string{file + ".none"}, false)
	g.Expect(err).To(MatchError(os.ErrNotExist))
}

func TestWrongTemplatesAreNamed(t *testing.T) {
	g := NewWithT(t)
	for format, text := range map[string]string{"jsonpath": "{.spec", "go-template": "{{ .spec"} {
		_, err := argument.Parse(format, []string{text}, false)
		g.Expect(err).To(MatchError(ContainSubstring(text)))
	}
	_, err := argument.Parse("yaml", nil, false)
	g.Expect(err).To(MatchError(And(ContainSubstring(`"yaml"`), ContainSubstring(strings.Join(argument.Formats(), ", ")))))
}

func TestOneListServesManyGoroutines(t *testing.T) {
	g := NewWithT(t)
	list, err := argument.Parse("jsonpath", []string{`{range .spec.ports[*]}{.port},{end}`}, false)
	g.Expect(err).NotTo(HaveOccurred())
	results := make(chan []string, 8)
	for range 8 {
		go func() {
			var got []string
			for range 50 {
				got, _ = list.Of(object())
			}
			results <- got
		}()
	}
	for range 8 {
		g.Expect(<-results).To(Equal([]string{"80,443,"}))
	}
}
