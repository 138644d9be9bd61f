package informer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
)

// gateway is a server with twenty ConfigMaps, and something between it and its
// clients.
type gateway struct {
	*WithT
	sim    *apisim.Server
	answer atomic.Pointer[func(*http.Request) *absenttest.Page] // nil: it passes everything on
}

func newGateway(t *testing.T, o *apisim.Options) *gateway {
	x := &gateway{WithT: NewWithT(t)}
	var err error
	x.sim, err = apisim.New(o)
	x.Expect(err).NotTo(HaveOccurred())
	for n := range 20 {
		x.Expect(x.sim.Load(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: fmt.Sprint(n)}})).To(Succeed())
	}
	return x
}

func (x *gateway) between(answer func(*http.Request) *absenttest.Page) { x.answer.Store(&answer) }

// cache is what this file asks of informers of any type.
type cache interface {
	Status() informer.Status
	IsDeleted(ctx context.Context, key types.NamespacedName) bool
	WaitForLatest(ctx context.Context) error
}

// runBehind runs informers with two kinds of clients behind x, and returns how many
// deletions they have delivered.
func (x *gateway) runBehind(t *testing.T, o *informer.Options) (caches map[string]cache, deleted *atomic.Int64) {
	config := absenttest.Intercept(x.sim.Config("c"), func(req *http.Request) *absenttest.Page {
		if answer := x.answer.Load(); answer != nil {
			return (*answer)(req)
		}
		return nil
	})
	deleted = &atomic.Int64{}
	typed := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), o)
	untyped := informer.For(informer.Untyped(dynamic.NewForConfigOrDie(config).Resource(
		corev1.SchemeGroupVersion.WithResource("configmaps"))), o)
	count(typed, deleted)
	count(untyped, deleted)
	t.Cleanup(running(context.WithoutCancel(t.Context()), typed))
	t.Cleanup(running(context.WithoutCancel(t.Context()), untyped))
	return map[string]cache{"typed": typed, "untyped": untyped}, deleted
}

func count[T informer.Object](in *informer.Informer[T], deleted *atomic.Int64) {
	in.Handle(func(e informer.Event[T]) {
		if e.Type == informer.Deleted {
			deleted.Add(1)
		}
	})
}

// noLists are answers to a request for a list, with status 200, that are none.
func noLists() []absenttest.Page {
	page := func(name, body string) absenttest.Page {
		return absenttest.Page{Name: name, ContentType: "application/json", Body: body, Status: http.StatusOK}
	}
	return append(absenttest.Successes(),
		page("a list of another kind", `{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[]}`),
		page("a list without a resourceVersion", `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`),
		page("a list whose items are none",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":{}}`))
}

func eachNoList(t *testing.T, f func(t *testing.T, page *absenttest.Page)) {
	for _, page := range noLists() {
		t.Run(strings.ReplaceAll(page.Name, "/", " "), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, &page) })
		})
	}
}

func TestAnAnswerThatIsNoListDeletesNothing(t *testing.T) {
	eachNoList(t, func(t *testing.T, page *absenttest.Page) {
		x := newGateway(t, nil)
		caches, deleted := x.runBehind(t, nil)
		<-time.After(time.Second)
		x.between(func(*http.Request) *absenttest.Page { return page })
		x.sim.Compact("")
		x.sim.DropWatches("", "")
		<-time.After(2 * time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
			x.Expect(c.Status().Problems).NotTo(BeEmpty(), name)
			x.Expect(c.Status().Restores).To(BeZero(), name)
		}
		x.answer.Store(nil)
		<-time.After(2 * time.Minute)
		x.Expect(deleted.Load()).To(BeZero())
		for name, c := range caches {
			x.Expect(c.Status().Problems).To(BeEmpty(), name)
		}
	})
}

func TestAnAnswerThatIsNoListIsNoFirstList(t *testing.T) {
	eachNoList(t, func(t *testing.T, page *absenttest.Page) {
		x := newGateway(t, nil)
		x.between(func(*http.Request) *absenttest.Page { return page })
		caches, _ := x.runBehind(t, nil)
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Synced).To(BeFalse(), name)
		}
		x.answer.Store(nil)
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
		}
	})
}

// The reflector then asks for the whole list at once.
func TestAnAnswerThatIsNoListIsNotTheLastPage(t *testing.T) {
	eachNoList(t, func(t *testing.T, page *absenttest.Page) {
		x := newGateway(t, &apisim.Options{NoStreamingLists: true})
		x.between(func(req *http.Request) *absenttest.Page {
			if req.URL.Query().Has("continue") {
				return page
			}
			return nil
		})
		caches, _ := x.runBehind(t, &informer.Options{PageSize: 7})
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
		}
	})
}

func TestAnAnswerThatIsNoListProvesNoDeletion(t *testing.T) {
	eachNoList(t, func(t *testing.T, page *absenttest.Page) {
		x := newGateway(t, nil)
		caches, _ := x.runBehind(t, nil)
		<-time.After(time.Second)
		x.between(func(req *http.Request) *absenttest.Page {
			if req.URL.Query().Has("watch") {
				return nil
			}
			return page
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for name, c := range caches {
			for range 20 {
				x.Expect(c.IsDeleted(ctx, types.NamespacedName{Namespace: "d", Name: "unknown"})).To(BeFalse(), name)
			}
			x.Expect(c.WaitForLatest(ctx)).NotTo(Succeed(), name)
		}
	})
}
