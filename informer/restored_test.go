package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// restoredFixture is a server whose storage can be restored, and an informer of
// ConfigMaps "a" to "c".
type restoredFixture struct {
	*WithT
	t     *testing.T
	sim   *apisim.Server
	admin *kubernetes.Clientset
	in    *informer.Informer[*corev1.ConfigMap]

	asking sync.Mutex // held while the informer may not ask
	mu     sync.Mutex // guards log
	log    []string
}

// wrap returns a transport that waits until the informer may ask.
func (x *restoredFixture) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		x.asking.Lock()
		x.asking.Unlock() //nolint:staticcheck // it waits
		return next.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func inRestoredFixture(t *testing.T, o *apisim.Options, f func(x *restoredFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &restoredFixture{WithT: NewWithT(t), t: t}
		var err error
		x.sim, err = apisim.New(o)
		x.Expect(err).NotTo(HaveOccurred())
		x.admin = kubernetes.NewForConfigOrDie(x.sim.Admin())
		config := x.sim.Config("c")
		config.Wrap(x.wrap)
		x.in = informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		x.write("a", "1")
		x.write("b", "1")
		x.write("c", "1")
		ctx := logr.NewContext(t.Context(), funcr.New(func(_, args string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.log = append(x.log, args)
		}, funcr.Options{}))
		stop := running(ctx, x.in)
		x.Expect(x.in.WaitForSync(t.Context())).To(Succeed())
		f(x)
		stop()
	})
}

// write creates a ConfigMap with a value, or gives it that value, and returns
// it.
func (x *restoredFixture) write(name, value string) *corev1.ConfigMap {
	x.t.Helper()
	maps := x.admin.CoreV1().ConfigMaps("d")
	object := configMap("d", name)
	object.Data = map[string]string{"v": value}
	written, err := maps.Update(x.t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		written, err = maps.Create(x.t.Context(), object, metav1.CreateOptions{})
	}
	x.Expect(err).NotTo(HaveOccurred())
	return written
}

// cached returns what the cache has, as name=value.
func (x *restoredFixture) cached() (all []string) {
	for object := range x.in.Snapshot().All() {
		all = append(all, object.Name+"="+object.Data["v"])
	}
	return all
}

func (x *restoredFixture) said() (times int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, line := range x.log {
		if strings.Contains(line, "restored to an earlier state") {
			times++
		}
	}
	return times
}

func TestACacheThatIsAheadOfItsRestoredServerIsListedAgain(t *testing.T) {
	for name, o := range map[string]*apisim.Options{"streaming": nil, "plain": {NoStreamingLists: true}} {
		t.Run(name, func(t *testing.T) {
			inRestoredFixture(t, o, func(x *restoredFixture) {
				backup := x.sim.Version()
				x.write("a", "lost")
				for n := range 20 {
					x.write("new", fmt.Sprint(n))
				}
				<-time.After(time.Minute)
				x.Expect(x.cached()).To(Equal([]string{"a=lost", "b=1", "c=1", "new=19"}))
				lists := x.in.Status().Lists

				x.Expect(x.sim.Restore(backup)).To(Succeed())
				<-time.After(10 * time.Second)
				x.Expect(x.cached()).To(Equal([]string{"a=1", "b=1", "c=1"}))
				x.Expect(x.in.LastResourceVersion()).To(Equal(fmt.Sprint(backup)))
				x.Expect(x.said()).To(Equal(1))
				x.Expect(x.in.Status().Restores).To(Equal(int64(1)))
				x.Expect(x.in.Status().Lists).To(Equal(lists + 1))
				x.write("a", "2")
				synctest.Wait()
				x.Expect(x.cached()).To(Equal([]string{"a=2", "b=1", "c=1"}))
			})
		})
	}
}

// After a broken connection, a client may reach another API server, which may
// be late. Such a server has not lost any state.
func TestAServerThatIsLateIsNotARestoredOne(t *testing.T) {
	for name, o := range map[string]*apisim.Options{"streaming": nil, "plain": {NoStreamingLists: true}} {
		t.Run(name, func(t *testing.T) {
			inRestoredFixture(t, o, func(x *restoredFixture) {
				late := x.sim.Version()
				x.write("new", "1")
				<-time.After(time.Second)
				var deleted atomic.Int64
				count(x.in, &deleted)
				x.sim.Freeze("c", late)
				x.sim.DropWatches("", "")
				<-time.After(3 * time.Minute)
				x.sim.Thaw("c")
				<-time.After(time.Minute)
				x.Expect(deleted.Load()).To(BeZero())
				x.Expect(x.in.Status().Restores).To(BeZero())
				x.Expect(x.cached()).To(Equal([]string{"a=1", "b=1", "c=1", "new=1"}))
			})
		})
	}
}

// Such a number is too long for an integer, and greater than every
// resourceVersion that the cache has seen.
func TestAResourceVersionBeyond64BitsIsNotSeenYet(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		for _, rv := range []string{"9223372036854775808", "18446744073709551617", "99999999999999999999999"} {
			seen := false
			cancel := x.in.Parts().OnSeen("d", rv, func() { seen = true })
			<-time.After(10 * time.Second)
			x.Expect(seen).To(BeFalse(), rv)
			cancel()
		}
	})
}

// By chance, the new object has the same resourceVersion as the old one.
func TestAnotherObjectOfTheSameResourceVersionIsSeenAfterARestore(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		backup := x.sim.Version()
		x.write("a", "lost")
		x.write("b", "lost")
		<-time.After(time.Minute)
		x.asking.Lock()
		x.Expect(x.sim.Restore(backup)).To(Succeed())
		x.write("a", "2")
		x.asking.Unlock()
		<-time.After(10 * time.Second)
		x.Expect(x.cached()).To(Equal([]string{"a=2", "b=1", "c=1"}))
	})
}

// If a watch ends at its timeout, or is ended by the program, the server works
// and need not be checked.
func TestOnlyAWatchThatBreaksOffIsChecked(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		var lists atomic.Int32
		x.sim.Deny(func(c apisim.Call) error {
			if c.Verb == "list" {
				lists.Add(1)
			}
			return nil
		})
		<-time.After(time.Hour)
		x.Expect(x.in.Status().Watches).To(BeNumerically(">", 5))
		x.Expect(lists.Load()).To(BeZero())
		x.sim.DropWatches("", "")
		<-time.After(time.Minute)
		x.Expect(lists.Load()).To(BeEquivalentTo(1))
		x.Expect(x.in.Status().Restores).To(BeZero())
	})
}

// The restored server has reached the cache's resourceVersion before the watch
// is open again.
func TestARestoreIsSeenByAnObjectThatTheServerHasLost(t *testing.T) {
	for name, wait := range map[string]func(x *restoredFixture) error{
		"WaitForLatest": func(x *restoredFixture) error { return x.in.WaitForLatest(x.t.Context()) },
		"WaitForObject": func(x *restoredFixture) error {
			return x.in.WaitForObject(x.t.Context(), types.NamespacedName{Namespace: "d", Name: "a"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRestoredFixture(t, nil, func(x *restoredFixture) {
				for n := range 100 { // more than are compared when the watch is open again
					x.write(fmt.Sprint(n), "1")
				}
				backup := x.sim.Version()
				x.write("a", "lost")
				x.write("b", "lost")
				<-time.After(time.Minute)
				x.asking.Lock()
				x.Expect(x.sim.Restore(backup)).To(Succeed())
				for range 5 {
					x.write("b", "2") // changed last
					x.write("b", "3")
				}
				x.asking.Unlock()
				<-time.After(10 * time.Second)
				x.Expect(x.in.Status().Restores).To(BeZero(), "nothing that is compared shows it")
				x.Expect(wait(x)).To(Succeed())
				x.Expect(x.cached()).To(ContainElements("a=1", "b=3", "c=1"))
			})
		})
	}
}

func TestACacheIsNotTheLatestWhileItIsAheadOfItsServer(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		backup := x.sim.Version()
		for range 5 {
			x.write("a", "lost")
			x.write("a", "too")
		}
		<-time.After(time.Minute)
		x.Expect(x.sim.Restore(backup)).To(Succeed())
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
		defer cancel()
		x.Expect(x.in.WaitForLatest(ctx)).To(Succeed())
		x.Expect(x.cached()).To(Equal([]string{"a=1", "b=1", "c=1"}))
	})
}

func TestEveryObjectIsDeliveredAfterARestore(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		var told []string
		defer x.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
			object := e.New
			if object == nil {
				object = e.Old
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			told = append(told, e.Type.String()+" "+object.Name)
		})()
		backup := x.sim.Version()
		x.write("a", "lost")
		x.write("x", "lost")
		<-time.After(time.Minute)
		x.mu.Lock()
		told = nil
		x.mu.Unlock()
		x.Expect(x.sim.Restore(backup)).To(Succeed())
		<-time.After(10 * time.Second)
		x.mu.Lock()
		defer x.mu.Unlock()
		slices.Sort(told)
		x.Expect(told).To(Equal([]string{"deleted x", "updated a", "updated b", "updated c"}))
	})
}

// While a handler is busy with the list after a restore, the cache's mark is
// still from the time before: neither a change nor a question whose answer is
// older than that mark shows another restore.
func TestARestoreIsSeenOnceAlsoIfItsListIsDeliveredSlowly(t *testing.T) {
	inRestoredFixture(t, nil, func(x *restoredFixture) {
		backup, release := x.sim.Version(), make(chan struct{})
		x.write("a", "lost")
		for n := range 20 {
			x.write("new", fmt.Sprint(n))
		}
		<-time.After(time.Minute)
		defer x.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
			if e.New != nil && e.New.Name == "a" && e.New.Data["v"] == "1" {
				<-release
			}
		})()
		x.Expect(x.sim.Restore(backup)).To(Succeed())
		<-time.After(10 * time.Second)
		x.write("b", "2")
		ctx, cancel := context.WithTimeout(x.t.Context(), time.Minute)
		defer cancel()
		x.Expect(x.in.WaitForLatest(ctx)).NotTo(Succeed())
		x.Expect(x.in.Status().Restores).To(Equal(int64(1)))
		close(release)
		x.Expect(x.in.WaitForLatest(x.t.Context())).To(Succeed())
		x.Expect(x.cached()).To(Equal([]string{"a=1", "b=2", "c=1"}))
		x.Expect(x.in.Status().Restores).To(Equal(int64(1)))

		x.Expect(x.sim.Restore(backup)).To(Succeed()) // another one is seen
		<-time.After(10 * time.Second)
		x.Expect(x.cached()).To(Equal([]string{"a=1", "b=1", "c=1"}))
		x.Expect(x.in.Status().Restores).To(Equal(int64(2)))
	})
}
