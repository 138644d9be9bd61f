package clientgo_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/apisim"
)

// client-go does not say whether the watch of a shared informer works. The
// activity of a wrapped informer shows it, also while no object changes.
func TestTheActivityOfAWrappedInformerIncludesBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		admin := kubernetes.NewForConfigOrDie(sim.Admin())
		ctx, cancel := context.WithCancel(t.Context())
		factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(sim.Config("operator")), 0)
		shared := factory.Core().V1().Pods().Informer()
		// The default handler sleeps since the last error of the process, which
		// is of another time.
		g.Expect(shared.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})).To(Succeed())
		pods := clientgo.Wrap[*corev1.Pod](shared, nil)
		factory.Start(ctx.Done())
		defer factory.Shutdown()
		defer cancel()
		run(t, g, pods)
		names := 0
		pass := func(minutes int) {
			for range minutes {
				<-time.After(time.Minute)
				names++
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: fmt.Sprint("s", names)}}
				_, err := admin.CoreV1().Secrets("d").Create(ctx, secret, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				sim.Bookmark()
			}
		}
		pass(30)
		g.Expect(time.Since(pods.Status().LastActivity)).To(BeNumerically("<", 2*time.Minute), "a quiet kind")

		sim.Deny(func(apisim.Call) error { return apierrors.NewUnauthorized("the token has expired") })
		sim.DropWatches("", "")
		pass(30)
		g.Expect(time.Since(pods.Status().LastActivity)).To(BeNumerically(">", 28*time.Minute), "HomeostatWatchSilent")
	})
}
