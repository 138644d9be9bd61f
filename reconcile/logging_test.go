package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// Without a logger in the context everything used to be mute, even with klog
// set up.
func TestWithoutALoggerInTheContextKlogsIsUsed(t *testing.T) {
	var log []string
	klog.SetLogger(funcr.New(func(prefix, args string) { log = append(log, prefix+" "+args) }, funcr.Options{}))
	defer klog.ClearLogger()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		in := informer.For(fake.NewClientset(configMapNamed("a")).CoreV1().ConfigMaps("d"), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- reconcile.Run(ctx, "test", in, reconcile.Func[*configMap](
				func(ctx context.Context, _ request) (reconcile.Result, error) {
					reconcileLogger(ctx).Info("hello")
					return nothing, reconcile.Terminal(errBoom)
				}))
		}()
		synctest.Wait()
		g.Expect(strings.Join(log, "\n")).To(And(
			MatchRegexp(`hello.*"logger"="test".*"name"="a"`), ContainSubstring("boom")))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// A panic of a function that is called for every event is logged when their
// number has doubled.
func TestPanicsOfGroupAreLoggedAndNotAll(t *testing.T) {
	var log []string
	klog.SetLogger(funcr.New(func(_, args string) { log = append(log, args) }, funcr.Options{}))
	defer klog.ClearLogger()
	inFixture(t, func(w *fixture) {
		w.panics = true
		w.create("a", "b", "c", "d", "e")
		stop := w.start(&reconcile.Options{Workers: 1, Group: func(reconcile.Key) string { panic("boom") }}, w.recorder())
		w.Expect(w.reconciled()).To(HaveLen(5))
		w.Expect(stop()).To(Succeed())
		w.Expect(log).To(HaveLen(3), "of the first, the second and the fourth")
		w.Expect(log[0]).To(And(ContainSubstring("boom"), ContainSubstring("Group panicked"), ContainSubstring(`"key"="d/`)))
	})
}
