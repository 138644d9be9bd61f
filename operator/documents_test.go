package operator_test

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/operator"
)

// The table of flags in docs/operating.md has the flags of a program, with
// their defaults.
func TestTheFlagsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("POD_NAMESPACE", "of-the-pod")
	t.Setenv("POD_NAME", "of-this-pod")
	var help bytes.Buffer
	program := operator.Program{
		Name: "test", Clusters: []operator.Cluster{{Name: "west"}}, Setup: begins, Flags: func(*flag.FlagSet) {},
		FencingPolicy: operator.FencingPolicy,
	}
	g.Expect(program.Main([]string{"--help"}, &help)).To(BeZero())
	flags := map[string]string{} // name and default, as --help has them
	entry := regexp.MustCompile(`(?m)^  -([a-z-]+).*\n((?:    .*\n?)*)`)
	for _, match := range entry.FindAllStringSubmatch(help.String(), -1) {
		flags[match[1]] = ""
		if set := regexp.MustCompile(`\(default "?([^")]*)"?\)`).FindStringSubmatch(match[2]); set != nil {
			flags[match[1]] = set[1]
		}
	}
	g.Expect(len(flags)).To(BeNumerically(">=", 9), help.String())

	page, err := os.ReadFile("../docs/operating.md")
	g.Expect(err).NotTo(HaveOccurred())
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z<>-]+)` \\| (.*?) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	names := func(all map[string]string) (names []string) {
		for name := range all {
			if name == "west-kubeconfig" {
				name = "<name>-kubeconfig"
			}
			names = append(names, name)
		}
		return names
	}
	g.Expect(names(documented)).To(ConsistOf(names(flags)), "the table of flags in docs/operating.md: add or remove the row")
	for name, value := range flags {
		switch {
		case value == "of-the-pod", value == "of-this-pod":
		case value != "" && documented[name] != "":
			g.Expect(documented[name]).To(Equal("`"+value+"`"), "the default of --%s in docs/operating.md", name)
		}
	}
}
