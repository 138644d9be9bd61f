package operator_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/leader/fence"
	"github.com/homeostat/homeostat/operator"
)

// printed returns what a program prints on standard output, what it says, and
// its exit code.
func printed(t *testing.T, p operator.Program, args ...string) (out, said string, code int) {
	t.Helper()
	g, before := NewWithT(t), os.Stdout
	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	g.Expect(err).NotTo(HaveOccurred())
	os.Stdout = file
	defer func() { os.Stdout = before }()
	var stderr bytes.Buffer
	code = p.Main(args, &stderr)
	_, err = file.Seek(0, io.SeekStart)
	g.Expect(err).NotTo(HaveOccurred())
	text, err := io.ReadAll(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(file.Close()).To(Succeed())
	return string(text), stderr.String(), code
}

func TestThePolicyIsAboutWhatTheLeaderWrites(t *testing.T) {
	for name, c := range map[string]struct {
		needs     []string
		replicas  operator.Replicas
		resources []string
		comments  []string
	}{
		"reads, Events and reviews are not": {
			needs: []string{
				"get,list,watch secrets", "patch widgets.example.com/status", "create,delete configmaps in shop",
				"patch configmaps settings", "create events.events.k8s.io", "create,patch events",
				"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
			},
			resources: []string{"configmaps", "widgets.example.com/status"},
		},
		"a subresource of what is written is": {
			needs:     []string{"patch widgets.example.com/status", "deletecollection widgets.example.com", "create pods/eviction"},
			resources: []string{"pods/eviction", "widgets.example.com"},
		},
		"another cluster's objects are not": {
			needs:     []string{"update services", "get pods on west", "create jobs.batch in ci on west"},
			resources: []string{"services"},
			comments:  []string{"# Not fenced, as the Lease is in another cluster: create jobs.batch in namespace ci on west"},
		},
		"members of shards": {
			needs: []string{"* ingresses.networking.k8s.io"}, replicas: operator.Sharded,
			resources: []string{"ingresses.networking.k8s.io"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := operator.Program{
				Name: "website", Needs: c.needs, Replicas: c.replicas, Clusters: []operator.Cluster{{Name: "west"}}, Setup: begins,
				FencingPolicy: operator.FencingPolicy,
			}
			out, said, code := printed(t, p, "--print-fencing-policy=shop/website-operator", "--leader-elect")
			g.Expect(said).To(BeEmpty())
			g.Expect(code).To(BeZero())
			manifest, err := fence.YAML(fence.Options{
				Namespace: "shop", Lease: "website", ServiceAccount: "website-operator", Resources: c.resources,
				Shards: c.replicas == operator.Sharded,
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(out).To(HaveSuffix("\n" + manifest))
			comments := strings.Split(strings.TrimSpace(strings.TrimSuffix(out, manifest)), "\n")
			g.Expect(comments[0]).To(HavePrefix("# The API server refuses what a replica of website writes with the account shop/website-operator"))
			g.Expect(comments[1:]).To(HaveExactElements(c.comments))
		})
	}
}

func TestAPolicyThatCannotBePrintedIsExplained(t *testing.T) {
	p := operator.Program{Name: "test", Needs: []string{"patch nodes"}, Setup: begins, FencingPolicy: operator.FencingPolicy}
	with := func(change func(*operator.Program)) operator.Program {
		changed := p
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		program operator.Program
		args    []string
		code    int
		says    string
	}{
		"without a namespace": {p, []string{"--print-fencing-policy=a"}, 2, `--print-fencing-policy is "a": must be the namespace and the name`},
		"without a name":      {p, []string{"--print-fencing-policy=a/"}, 2, `is "a/": must be`},
		"no name at all":      {p, []string{"--print-fencing-policy=a/B"}, 2, `is "a/B": must be`},
		"nothing written": {
			with(func(p *operator.Program) { p.Needs = []string{"get nodes"} }),
			[]string{"--print-fencing-policy=a/b"},
			1,
			"must include a write in the cluster of the Lease",
		},
		"all of a group": {
			with(func(p *operator.Program) { p.Needs = []string{"patch *.apps"} }),
			[]string{"--print-fencing-policy=a/b"},
			1,
			`fence.Options.Resources[0] is "*.apps"`,
		},
		"no fence": {
			with(func(p *operator.Program) { p.FencingPolicy = nil }),
			[]string{"--print-fencing-policy=a/b"},
			2,
			"flag provided but not defined",
		},
		"no Lease": {
			with(func(p *operator.Program) { p.Replicas = operator.Independent }),
			[]string{"--print-fencing-policy=a/b"},
			2,
			"flag provided but not defined",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, said, code := printed(t, c.program, c.args...)
			g.Expect(out).To(BeEmpty())
			g.Expect(said).To(ContainSubstring(c.says))
			g.Expect(code).To(Equal(c.code))
		})
	}
}

// A program whose output is a pipe to kubectl must report that the policy was
// not written.
func TestAPolicyThatIsNotWrittenIsAnError(t *testing.T) {
	g, before := NewWithT(t), os.Stdout
	file, err := os.Open(os.DevNull) // for reading
	g.Expect(err).NotTo(HaveOccurred())
	os.Stdout = file
	defer func() { os.Stdout = before }()
	var said bytes.Buffer
	p := operator.Program{Name: "test", Needs: []string{"patch nodes"}, Setup: begins, FencingPolicy: operator.FencingPolicy}
	g.Expect(p.Main([]string{"--print-fencing-policy=a/b"}, &said)).To(Equal(1))
	g.Expect(said.String()).To(ContainSubstring("test: write "))
	g.Expect(file.Close()).To(Succeed())
}
