package dropin_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat/homeostat/examples/interop/dropin"
	"github.com/homeostat/homeostat/internal/apisim"
)

func TestAReconcilerReadsTheOtherCache(t *testing.T) {
	for name, newManager := range map[string]func(*rest.Config, manager.Options) (manager.Manager, error){
		"the line": dropin.NewManager, "with metrics": dropin.NewObservedManager,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			address := freeAddress(g)
			mgr, err := newManager(sim.Config("manager"), options(address))
			g.Expect(err).NotTo(HaveOccurred())
			read := make(chan string, 10)
			r := reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
				var secret corev1.Secret
				if err := mgr.GetClient().Get(ctx, r.NamespacedName, &secret); err != nil {
					return ctrl.Result{}, client.IgnoreNotFound(err)
				}
				read <- string(secret.Data["text"])
				return ctrl.Result{}, nil
			})
			g.Expect(ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Named(name).Complete(r)).To(Succeed())
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- mgr.Start(ctx) }()

			secrets := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Secrets("shop")
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"text": []byte("a")}}
			made, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(read, time.Minute).Should(Receive(Equal("a")))
			made.Data["text"] = []byte("b")
			_, err = secrets.Update(t.Context(), made, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Eventually(read, time.Minute).Should(Receive(Equal("b")))
			if name == "with metrics" {
				g.Expect(get("http://" + address + "/metrics")).To(
					ContainSubstring(`homeostat_informer_objects{informer="secrets",kind="Secret"} 1`))
			}
			cancel()
			g.Expect(<-ended).To(Succeed())
		})
	}
}

// All managers of a process have one registry of metrics.
func TestTheMetricsTellTheInformersOfTwoManagersApart(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	address := freeAddress(g)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, served := range []string{address, "0"} {
		mgr, err := dropin.NewObservedManager(sim.Config("manager"), options(served))
		g.Expect(err).NotTo(HaveOccurred())
		go func() { ended <- mgr.Start(ctx) }()
		_, err = mgr.GetCache().GetInformer(ctx, &corev1.Secret{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Eventually(func() (string, error) { return get("http://" + address + "/metrics") }, time.Minute).Should(And(
		ContainSubstring(`homeostat_informer_objects{informer="secrets",kind="Secret"} 0`),
		ContainSubstring(`homeostat_informer_objects{informer="secrets-2",kind="Secret"} 0`)))
	cancel()
	g.Expect(<-ended).To(Succeed())
	g.Expect(<-ended).To(Succeed())
}

// options are the options of a manager that knows Secrets, and whose metrics
// are at an address.
func options(address string) manager.Options {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	return manager.Options{
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		Metrics:        metricsserver.Options{BindAddress: address},
	}
}

func freeAddress(g *WithT) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.Close()).To(Succeed())
	return l.Addr().String()
}

func get(url string) (string, error) {
	response, err := http.Get(url) //nolint:gosec,noctx // the test's own server
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}
