package informer_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A function can end the goroutine that calls it, and the informer cannot
// prevent that. Then there is no first list, and the status says why.
func TestAFunctionThatEndsItsGoroutineIsNamed(t *testing.T) {
	exit := func(obj informer.Object) {
		if obj.GetName() == "7" {
			runtime.Goexit()
		}
	}
	for name, sim := range map[string]*apisim.Options{"pages": {NoStreamingLists: true}, "streams": nil} {
		for function, o := range map[string]*informer.Options{"Transform": {Transform: exit}, "index": nil} {
			t.Run(function+" of "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := newGateway(t, sim)
					in := informer.For(kubernetes.NewForConfigOrDie(x.sim.Config("c")).CoreV1().ConfigMaps(""), o)
					if o == nil {
						informer.NewIndex(in, func(c *corev1.ConfigMap) []string {
							exit(c)
							return nil
						})
					}
					defer running(context.WithoutCancel(t.Context()), in)()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					x.Expect(in.WaitForSync(ctx)).To(MatchError(ContainSubstring("runtime.Goexit was called")))
				})
			})
		}
	}
}
