package reconcile_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

func TestAFunctionThatMustNotBlockIsNamedWhileItHangs(t *testing.T) {
	for what, use := range map[string]func(w *fixture, o *reconcile.Options, hang func(name string)){
		"the function of reconcile.References for Secret": func(w *fixture, o *reconcile.Options, hang func(string)) {
			secrets := informer.Referenced(w.client.CoreV1().Secrets, nil)
			o.Triggers = []reconcile.Trigger{reconcile.References(secrets, func(m *configMap) []reconcile.Key {
				hang(m.Name)
				return nil
			})}
		},
		"reconcile.Options.Group": func(_ *fixture, o *reconcile.Options, hang func(string)) {
			o.Group = func(key reconcile.Key) string {
				hang(key.Name)
				return "g"
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				released := make(chan struct{})
				o := &reconcile.Options{}
				use(w, o, func(name string) {
					if name == "bad" {
						<-released
					}
				})
				c := w.made(o, func(_ context.Context, r request) (reconcile.Result, error) {
					w.ran(r.Key.Name)
					return nothing, nil
				})
				stop := w.startRun(c.Run)
				w.create("good", "bad", "late")
				pass(61 * time.Second)
				problems := c.Problems()
				w.Expect(problems).To(HaveLen(1))
				w.Expect(problems[0].Cause).To(Equal("stuck call"))
				w.Expect(problems[0].String()).To(HavePrefix("d/bad: " + what + " has not returned for a minute"))

				close(released)
				synctest.Wait()
				w.Expect(c.Problems()).To(BeEmpty())
				w.Expect(w.reconciled()).To(ConsistOf("good", "bad", "late"))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}
