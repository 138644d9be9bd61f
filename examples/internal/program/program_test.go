package program_test

import (
	"bytes"
	"errors"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/internal/program"
	"github.com/homeostat/homeostat/reconcile"
)

const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func TestMainSaysWhatIsWrongAndExits(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	valid := filepath.Join(t.TempDir(), "config")
	NewWithT(t).Expect(os.WriteFile(valid, []byte(kubeconfig), 0o600)).To(Succeed())
	p := program.Program{
		Name:  "test",
		Flags: func(fs *flag.FlagSet) { fs.Int("own", 0, "a flag of its own") },
		Setup: func(env program.Env) ([]*reconcile.Controller, error) {
			if env.Config.UserAgent != "test" || env.Events == nil || env.Leader != nil {
				return nil, errors.New("the environment is wrong")
			}
			return nil, errors.New("no controllers today")
		},
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":                {[]string{"--help"}, 0, "-own"},
		"an unknown flag":     {[]string{"--unknown"}, 2, "-unknown"},
		"an argument":         {[]string{"what"}, 2, `unexpected argument "what"`},
		"an unknown format":   {[]string{"--log-format=xml"}, 2, `--log-format is "xml"`},
		"no cluster":          {nil, 1, "set --kubeconfig or KUBECONFIG"},
		"a missing file":      {[]string{"--kubeconfig=/none"}, 1, "/none"},
		"faults of the setup": {[]string{"--kubeconfig=" + valid}, 1, "no controllers today"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var said bytes.Buffer
			g.Expect(p.Main(c.args, &said)).To(Equal(c.code))
			g.Expect(said.String()).To(ContainSubstring(c.says))
		})
	}
}

func TestThePageIsForThisMachine(t *testing.T) {
	g := NewWithT(t)
	from := func(path, address string) error {
		r := httptest.NewRequest("GET", path, nil)
		r.RemoteAddr = address
		return program.FromHere(r)
	}
	g.Expect(from("/metrics", "10.0.0.1:1")).To(Succeed())
	g.Expect(from("/debug/homeostat", "10.0.0.1:1")).NotTo(Succeed())
	g.Expect(from("/debug/homeostat", "nobody")).NotTo(Succeed())
	g.Expect(from("/debug/homeostat", "127.0.0.1:1")).To(Succeed())
	g.Expect(from("/debug/homeostat", "[::1]:1")).To(Succeed())
}
