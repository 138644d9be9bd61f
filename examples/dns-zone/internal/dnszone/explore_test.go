package dnszone_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/dnszone"
	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 5 * time.Second

// A fault at every call and every event, and the same end.
func TestItSurvivesEveryFault(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm") // an fsync of a busy disk takes longer than a run
	}
	reconciletest.Explore(t, &reconciletest.Case{
		Roles:   []string{"../../deploy/rbac.yaml"},
		Outside: func() any { return zone(t.TempDir()) },
		Run: func(env *reconciletest.Env) error {
			disk := env.Outside().(*zonefile.File)
			file := &zonefile.File{Path: disk.Path, Origin: disk.Origin} // the memory of a process ends with it
			c, err := dnszone.New(stage.Client(env.Config()), file, nil)
			if err != nil {
				return err
			}
			return c.Run(env.Context())
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(service("a", "10.0.1.1")),
			reconciletest.Create(service("b", "10.0.1.2")),
			reconciletest.Delete("services", "d/a"),
			reconciletest.Create(service("c", "10.0.1.3")),
			reconciletest.Delete("services", "d/b"),
			reconciletest.Create(service("b", "10.0.1.4")),
		},
		Goal: func(w *reconciletest.World) error {
			text, err := os.ReadFile(w.Outside().(*zonefile.File).Path)
			if err != nil {
				return err
			}
			_, ours, _ := strings.Cut(string(text), "it is not\n")
			if _, want, _ := strings.Cut(with(1, "b 10.0.1.4", "c 10.0.1.3"), "it is not\n"); ours != want {
				return fmt.Errorf("the file says %q, want %q", ours, want)
			}
			return nil
		},
	}, &reconciletest.Options{Budget: exploration})
}
