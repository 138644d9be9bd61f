package status_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// outvoted is an elector that never leads. Its warning may be nil.
type outvoted struct{ warning error }

func (o outvoted) Run(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return nil
}
func (o outvoted) String() string { return "who leads" }
func (o outvoted) Ready() error   { return nil }
func (o outvoted) Healthy() error { return nil }
func (o outvoted) Warning() error { return o.warning }

// The reader of a green "ready" takes it for "all is well". So the badge says
// what is known to be well, and what is not.
func TestTheBadgeSaysWhatIsWellAndWhatIsNot(t *testing.T) {
	foreign := errors.New(`"stranger" holds lease "d/one"; stop it`)
	for name, row := range map[string]struct {
		leader    reconcile.Leader
		failing   bool
		readiness error
		badge     string
	}{
		"well":          {leader: leading{}, badge: "ready: no problem is known, and no key fails"},
		"on standby":    {leader: outvoted{}, badge: "ready, on standby: no problem is known"},
		"a failing key": {leader: leading{}, failing: true, badge: "ready, but 1 key fails"},
		"no leader":     {leader: outvoted{foreign}, badge: "ready, but not well: 1 problem"},
		"not ready": {
			leader: leading{}, failing: true, readiness: errors.New("full"), badge: "not ready: 1 check fails, 1 key fails",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				maps := informer.For(fake.NewClientset(&corev1.ConfigMap{ObjectMeta: object("a")}).CoreV1().ConfigMaps("d"), nil)
				one, err := reconcile.New("one", maps, reconcile.Func[*corev1.ConfigMap](
					func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
						if row.failing {
							return reconcile.Result{}, reconcile.Terminal(errors.New("odd"))
						}
						return reconcile.Result{}, nil
					}), &reconcile.Options{Leader: row.leader})
				g.Expect(err).NotTo(HaveOccurred())
				handler, err := status.New(&status.Options{
					Controllers: []*reconcile.Controller{one},
					Readiness:   map[string]func() error{"disk": func() error { return row.readiness }},
				})
				g.Expect(err).NotTo(HaveOccurred())
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- one.Run(ctx) }()
				<-time.After(2 * electionTime)
				synctest.Wait()
				_, page := client{g, handler}.get("/debug/homeostat")
				g.Expect(text(page)).To(HavePrefix("Homeostat " + row.badge + " "))
				code, ready := client{g, handler}.get("/readyz?verbose")
				if row.readiness == nil {
					g.Expect(code).To(Equal(http.StatusOK))
				} else {
					g.Expect(code).NotTo(Equal(http.StatusOK))
				}
				line := "[+] leader/one: ok, " + row.leader.(interface{ String() string }).String()
				if row.leader == (outvoted{foreign}) {
					line = "[!] leader/one: " + foreign.Error()
					_, metrics := client{g, handler}.get("/metrics")
					g.Expect(metrics).To(ContainSubstring(`homeostat_problems{cause="no leader",check="leader/one"} 1`))
					g.Expect(text(page)).To(ContainSubstring("leader/one " + foreign.Error()))
				}
				var leaders []string
				for l := range strings.Lines(ready) {
					if strings.Contains(l, "leader/") {
						leaders = append(leaders, strings.TrimSpace(l))
					}
				}
				g.Expect(leaders).To(Equal([]string{line}), "one line, which does not say that all is well")
				cancel()
				g.Expect(<-ended).To(Succeed())
			})
		})
	}
}
