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

// Without a logger in the context everything used to be mute, even with klog set up.
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
