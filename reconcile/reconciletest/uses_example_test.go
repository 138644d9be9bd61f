package reconciletest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// oneChild is a case with rules of its own: they hold after every write, and at
// the end.
func oneChild(breed breeding.Breed) *reconciletest.Case {
	atMost := func(most int) func(*reconciletest.World) error {
		return func(w *reconciletest.World) error {
			children, err := reconciletest.List[corev1.Secret](w, "secrets")
			if err == nil && len(children) > most {
				err = fmt.Errorf("%d children", len(children))
			}
			return err
		}
	}
	return &reconciletest.Case{
		Objects:  []runtime.Object{breeding.Parent("a")},
		Run:      breeding.Run(breed), // func(env *reconciletest.Env) error
		Workload: []reconciletest.Step{reconciletest.Patch("configmaps", "d/a", `{"data":{"colour":"red"}}`)},
		Always:   atMost(2),
		Goal:     atMost(1),
	}
}

// Search does not fail the test: it shows that the rule would be broken, and so
// that the test can fail.
func TestARuleCanFail(t *testing.T) {
	report := reconciletest.Search(t, oneChild(breeding.Premature), &reconciletest.Options{Budget: breeding.Budget})
	if report.Failure == "" {
		t.Errorf("a program that reports before it acts survives %v", report)
	}
}

// The manifest with the program's Role is compared with its calls: missing and
// superfluous permissions are findings.
func TestTheRoleIsEnough(t *testing.T) {
	c := oneChild(breeding.Right)
	c.Roles = []string{"testdata/role.yaml"}
	reconciletest.Explore(t, c, &reconciletest.Options{Budget: 2 * time.Second})
}

// Replay plays one run again, with the token that a failed Explore printed,
// while you look for the bug.
func TestTheTokenOfAFailedRun(t *testing.T) {
	token := os.Getenv("REPLAY")
	if token == "" {
		t.Skip("set REPLAY to the token of a failed run (rt1:…)")
	}
	reconciletest.Replay(t, oneChild(breeding.Right), nil, token)
}

// FuzzChild lets Go's fuzzer choose schedules: go test -fuzz FuzzChild. Without
// -fuzz it plays a few.
func FuzzChild(f *testing.F) {
	reconciletest.Fuzz(f, oneChild(breeding.Right), &reconciletest.Options{Budget: time.Second, Seeds: 5})
}
