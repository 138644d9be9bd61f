package informer_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// address is the address of one server, and later of a second server.
type address struct {
	*WithT
	servers [2]*apisim.Server
	second  atomic.Bool
}

func newAddress(t *testing.T) *address {
	x := &address{WithT: NewWithT(t)}
	for n := range x.servers {
		var err error
		x.servers[n], err = apisim.New(&apisim.Options{Seed: uint64(n + 1)})
		x.Expect(err).NotTo(HaveOccurred())
	}
	return x
}

// config returns a configuration for clients of the server that currently has
// the address.
func (x *address) config() *rest.Config {
	var servers [2]http.RoundTripper
	for n, s := range x.servers {
		transport, err := rest.TransportFor(s.Config("c"))
		x.Expect(err).NotTo(HaveOccurred())
		servers[n] = transport
	}
	config := rest.CopyConfig(x.servers[0].Config("c"))
	config.Wrap(func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if x.second.Load() {
				return servers[1].RoundTrip(r)
			}
			return servers[0].RoundTrip(r)
		})
	})
	return config
}

// replace puts the second server in the place of the first one.
func (x *address) replace() {
	x.second.Store(true)
	x.servers[0].DropWatches("", "")
}

func (x *address) maps(server int) v1.ConfigMapInterface {
	return kubernetes.NewForConfigOrDie(x.servers[server].Admin()).CoreV1().ConfigMaps("d")
}

func (x *address) create(t *testing.T, server int, names ...string) {
	for _, name := range names {
		_, err := x.maps(server).Create(t.Context(), configMap("d", name), metav1.CreateOptions{})
		x.Expect(err).NotTo(HaveOccurred())
	}
}

// The second server has counted further, so its resourceVersions do not show
// that it is a different server.
func TestAnotherServerBehindTheSameAddressIsListedAgain(t *testing.T) {
	for name, others := range map[string]int{"few": 0, "many": 200} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newAddress(t)
				fillers := make([]string, others)
				for n := range fillers {
					fillers[n] = fmt.Sprintf("filler-%03d", n)
				}
				x.create(t, 1, "a", "only-there")
				x.create(t, 1, fillers...)
				x.create(t, 0, fillers...)
				x.create(t, 0, "a", "only-here", "x", "y", "z")
				for n := range 400 {
					x.create(t, 1, fmt.Sprintf("later-%03d", n))
				}
				for n := range 400 {
					later := fmt.Sprintf("later-%03d", n)
					x.Expect(x.maps(1).Delete(t.Context(), later, metav1.DeleteOptions{})).To(Succeed())
				}
				in := informer.For(kubernetes.NewForConfigOrDie(x.config()).CoreV1().ConfigMaps(""), nil)
				defer running(t.Context(), in)()
				x.Expect(in.WaitForSync(t.Context())).To(Succeed())
				pass(time.Minute)
				x.replace()
				pass(2 * time.Minute)
				key := types.NamespacedName{Namespace: "d", Name: "only-there"}
				for range 50 {
					x.Expect(in.IsDeleted(t.Context(), key)).To(BeFalse(), "it lives")
				}
				there, err := x.maps(1).Get(t.Context(), "a", metav1.GetOptions{})
				x.Expect(err).NotTo(HaveOccurred())
				cached, _ := in.Get(types.NamespacedName{Namespace: "d", Name: "a"})
				x.Expect(cached.UID).To(Equal(there.UID))
				x.Expect(in.Snapshot().Len()).To(Equal(others + 2))
			})
		})
	}
}

// The server was restored, and has stored as many writes since then.
func TestARestoredServerThatHasCaughtUpIsListedAgain(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		backup := x.sim.Version()
		x.write("a", "lost")
		x.write("new", "lost")
		<-time.After(time.Minute)
		x.asking.Lock()
		x.Expect(x.sim.Restore(backup)).To(Succeed())
		for n := range 5 {
			x.write("c", fmt.Sprint(n))
		}
		x.asking.Unlock()
		<-time.After(10 * time.Second)
		x.Expect(x.cached()).To(Equal([]string{"a=1", "b=1", "c=4"}))
	})
}

// The objects have the same UID, resourceVersion and generation, but different
// specs.
func TestARestoredSpecIsDecodedAgain(t *testing.T) {
	for name, answer := range map[string]error{"listed again": errors.New("off"), "resumed": nil} {
		t.Run(name, func(t *testing.T) { restoredSpec(t, answer) })
	}
}

// restoredSpec restores the server while clients get the error off or, if it is
// nil, no answer.
func restoredSpec(t *testing.T, off error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{Incomplete: true})
		g.Expect(err).NotTo(HaveOccurred())
		services := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Services("d")
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}}
		g.Expect(sim.Load(service)).To(Succeed())
		config := sim.Config("c")
		var on sync.Mutex // held while the server is off
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if off != nil && !on.TryLock() {
					return nil, off
				} else if off == nil {
					on.Lock()
				}
				on.Unlock()
				return next.RoundTrip(r)
			})
		})
		in := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().Services(""), nil)
		defer running(t.Context(), in)()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		write := func(host string) *corev1.Service {
			s, err := services.Get(t.Context(), "a", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			s.Spec.ExternalName = host
			s, err = services.Update(t.Context(), s, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			return s
		}
		backup := sim.Version()
		before := write("lost.example.com")
		pass(time.Minute)
		on.Lock()
		g.Expect(sim.Restore(backup)).To(Succeed())
		after := write("kept.example.com")
		g.Expect(after.ResourceVersion).To(Equal(before.ResourceVersion))
		g.Expect(after.UID).To(Equal(before.UID))
		on.Unlock()
		pass(2 * time.Minute)
		cached, _ := in.Get(types.NamespacedName{Namespace: "d", Name: "a"})
		g.Expect(cached.Spec.ExternalName).To(Equal("kept.example.com"))
	})
}
