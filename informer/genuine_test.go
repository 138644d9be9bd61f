package informer_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
)

// gateway is a server with twenty ConfigMaps, and a gateway between the server
// and its clients.
type gateway struct {
	*WithT
	sim    *apisim.Server
	answer atomic.Pointer[func(*http.Request) *absenttest.Page] // nil if all requests are passed on
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

// cache has the methods of informers of any type that this file needs.
type cache interface {
	Status() informer.Status
	IsDeleted(ctx context.Context, key types.NamespacedName) bool
	WaitForLatest(ctx context.Context) error
}

// runBehind runs informers with two kinds of clients behind x, and returns how
// many deletions they have delivered.
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

// noLists returns answers with status 200 to a request for a list that are not
// lists.
func noLists() []absenttest.Page {
	page := func(name, body string) absenttest.Page {
		return absenttest.Page{Name: name, ContentType: "application/json", Body: body, Status: http.StatusOK}
	}
	return append(absenttest.Successes(),
		page("a list of another kind", `{"kind":"SecretList","apiVersion":"v1","metadata":{},"items":[]}`),
		page("a list without a resourceVersion", `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}`),
		page("a list whose items are none",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":{}}`),
		page("a part of a list without the token for the others",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900","remainingItemCount":19},"items":[]}`),
		page("a list of another version",
			`{"kind":"ConfigMapList","apiVersion":"v2","metadata":{"resourceVersion":"900"},"items":[]}`),
		page("a list of what a gateway could reach",
			`{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}`),
		page("a list of metadata alone",
			`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"900"},"items":[]}`),
		page("a list with an object without a namespace",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[`+
				`{"metadata":{"namespace":"d","name":"1","uid":"1"}},{"metadata":{"name":"2","uid":"2"}}]}`),
		page("a list with an object without a name",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[{"metadata":{"namespace":"d"}}]}`))
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

// A proxy answers the requests for one namespace with the list and the events
// of a different namespace.
func TestTheObjectsOfAnotherNamespaceDeleteNothing(t *testing.T) {
	for name, o := range map[string]*apisim.Options{"pages": {NoStreamingLists: true}, "streams": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newGateway(t, o)
				x.Expect(x.sim.Load(configMap("e", "1"))).To(Succeed())
				config, wrong := rest.CopyConfig(x.sim.Config("c")), atomic.Bool{}
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if wrong.Load() && strings.Contains(r.URL.Path, "/d/") {
							r = r.Clone(r.Context())
							r.URL.Path = strings.Replace(r.URL.Path, "/d/", "/e/", 1)
						}
						return next.RoundTrip(r)
					})
				})
				in := informer.ForNamespaces(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps,
					&informer.Options{Namespaces: []string{"d", "e"}})
				deleted := &atomic.Int64{}
				count(in, deleted)
				defer running(context.WithoutCancel(t.Context()), in)()
				<-time.After(time.Second)
				changed := configMap("e", "1")
				changed.Data = map[string]string{"is": "changed"}
				_, err := kubernetes.NewForConfigOrDie(x.sim.Admin()).CoreV1().ConfigMaps("e").
					Update(t.Context(), changed, metav1.UpdateOptions{})
				x.Expect(err).NotTo(HaveOccurred())
				wrong.Store(true)
				x.sim.Compact("")
				x.sim.DropWatches("", "")
				<-time.After(2 * time.Minute)
				x.Expect(in.Snapshot().Len()).To(Equal(21))
				x.Expect(in.Status().Problems).NotTo(BeEmpty())
				wrong.Store(false)
				<-time.After(2 * time.Minute)
				x.Expect(deleted.Load()).To(BeZero())
				x.Expect(in.Status().Problems).To(BeEmpty())
			})
		})
	}
}

// A proxy connects a watch with another namespace or kind. Its events show that
// the changes of the right objects are missing.
func TestAWatchThatBringsTheObjectsOfAnotherEndsAndIsListedAgain(t *testing.T) {
	for name, to := range map[string]string{
		"another namespace": "/namespaces/e/configmaps", "another kind": "/namespaces/d/secrets",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, wrong := newGateway(t, nil), atomic.Bool{}
				config := rest.CopyConfig(x.sim.Config("c"))
				config.Wrap(func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if wrong.Load() && r.URL.Query().Has("watch") {
							r = r.Clone(r.Context())
							r.URL.Path = strings.Replace(r.URL.Path, "/namespaces/d/configmaps", to, 1)
						}
						return next.RoundTrip(r)
					})
				})
				typed := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("d"), nil)
				untyped := informer.For(informer.Untyped(dynamic.NewForConfigOrDie(config).Resource(
					corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("d")), nil)
				defer running(context.WithoutCancel(t.Context()), typed)()
				defer running(context.WithoutCancel(t.Context()), untyped)()
				<-time.After(time.Second)
				wrong.Store(true)
				x.sim.DropWatches("", "")
				<-time.After(time.Minute)
				admin := kubernetes.NewForConfigOrDie(x.sim.Admin()).CoreV1()
				late := configMap("d", "late")
				_, err := admin.ConfigMaps("d").Create(t.Context(), late, metav1.CreateOptions{})
				x.Expect(err).NotTo(HaveOccurred())
				wrong.Store(false)
				x.Expect(x.sim.Load(configMap("e", "foreign"))).To(Succeed())
				x.Expect(x.sim.Load(&corev1.Secret{ObjectMeta: late.ObjectMeta})).To(Succeed())
				<-time.After(time.Minute)
				for name, c := range map[string]cache{"typed": typed, "untyped": untyped} {
					x.Expect(c.Status().Objects).To(Equal(21), name)
					x.Expect(c.Status().Problems).To(BeEmpty(), name)
				}
			})
		})
	}
}

// While this object exists, no other object of the name can be deleted.
func TestADeletionOfAnotherUIDDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, wrong := newGateway(t, nil), atomic.Bool{}
		config := rest.CopyConfig(x.sim.Config("c"))
		config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		page := absenttest.Page{
			Status: http.StatusOK, ContentType: runtime.ContentTypeJSON,
			Body: `{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":` +
				`{"namespace":"d","name":"1","uid":"other","resourceVersion":"900"}}}` + "\n",
		}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				asked := r.URL.Query()
				if !asked.Has("watch") || asked.Has("sendInitialEvents") || !wrong.CompareAndSwap(true, false) {
					return next.RoundTrip(r)
				}
				answer := page.Response(r)
				answer.ContentLength, answer.Body = -1, openBody{answer.Body, r.Context()}
				return answer, nil
			})
		})
		in := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(""), nil)
		deleted := &atomic.Int64{}
		count(in, deleted)
		defer running(context.WithoutCancel(t.Context()), in)()
		<-time.After(time.Second)
		wrong.Store(true)
		x.sim.DropWatches("", "")
		<-time.After(time.Minute)
		x.Expect(wrong.Load()).To(BeFalse())
		x.Expect(deleted.Load()).To(BeZero())
		x.Expect(in.Snapshot().Len()).To(Equal(20))
		x.Expect(in.Status().Problems).To(BeEmpty())
	})
}

// openBody is a body that stays open until its request ends.
type openBody struct {
	io.ReadCloser

	ctx context.Context //nolint:containedctx // the body ends with it
}

func (b openBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 && err == io.EOF {
		<-b.ctx.Done()
	}
	return n, err
}

// No server understands the resourceVersion of the list.
func TestAResourceVersionThatTheServerDoesNotUnderstandIsForgotten(t *testing.T) {
	for name, o := range map[string]*apisim.Options{"pages": {NoStreamingLists: true}, "streams": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, wrong := newGateway(t, o), atomic.Bool{}
				x.between(func(r *http.Request) *absenttest.Page {
					switch asked := r.URL.Query(); {
					case wrong.Load() && asked.Has("sendInitialEvents"):
						return &absenttest.Page{Status: http.StatusBadRequest, ContentType: runtime.ContentTypeJSON, Body: `{}`}
					case wrong.Load() && !asked.Has("watch"):
						return &absenttest.Page{
							Status: http.StatusOK, ContentType: runtime.ContentTypeJSON,
							Body: `{"kind":"ConfigMapList","apiVersion":"v1","items":[],` +
								`"metadata":{"resourceVersion":"79228162514264337593543950336"}}`, // 2^96
						}
					}
					return nil
				})
				caches, _ := x.runBehind(t, nil)
				<-time.After(time.Second)
				wrong.Store(true)
				x.sim.Compact("")
				x.sim.DropWatches("", "")
				<-time.After(20 * time.Second)
				wrong.Store(false)
				<-time.After(2 * time.Minute)
				for name, c := range caches {
					x.Expect(c.Status().Objects).To(Equal(20), name)
					x.Expect(c.Status().Problems).To(BeEmpty(), name)
				}
			})
		})
	}
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

// The simulated server answers a list from its cache without pages, as the real
// one does. So the request loses its resourceVersion on the way.
func TestAnAnswerThatIsNoListIsNotTheLastPage(t *testing.T) {
	eachNoList(t, func(t *testing.T, page *absenttest.Page) {
		x := newGateway(t, &apisim.Options{NoStreamingLists: true})
		var continued atomic.Int64
		x.between(func(req *http.Request) *absenttest.Page {
			query := req.URL.Query()
			if query.Has("continue") {
				continued.Add(1)
				return page
			}
			if !query.Has("watch") {
				query.Del("resourceVersion")
				query.Del("resourceVersionMatch")
				req.URL.RawQuery = query.Encode()
			}
			return nil
		})
		caches, deleted := x.runBehind(t, &informer.Options{PageSize: 7})
		<-time.After(time.Minute)
		x.Expect(continued.Load()).To(BeNumerically(">=", len(caches)))
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(BeZero(), name)
			x.Expect(c.Status().Synced).To(BeFalse(), name)
		}
		x.answer.Store(nil)
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
		}
		x.Expect(deleted.Load()).To(BeZero())
	})
}

// A cache between the server and the client ignores the query, and answers with
// the first page again.
func TestAPageThatComesAgainIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGateway(t, &apisim.Options{NoStreamingLists: true})
		var lists atomic.Int64
		x.between(func(req *http.Request) *absenttest.Page {
			if query := req.URL.Query(); !query.Has("watch") {
				if lists.Add(1) > 1000 {
					return &absenttest.Page{Status: http.StatusInternalServerError}
				}
				req.URL.RawQuery = "limit=7"
			}
			return nil
		})
		caches, deleted := x.runBehind(t, &informer.Options{PageSize: 7})
		<-time.After(time.Minute)
		x.Expect(lists.Load()).To(BeNumerically("<", 100))
		for name, c := range caches {
			x.Expect(c.Status().Synced).To(BeFalse(), name)
			x.Expect(c.Status().Reason).To(ContainSubstring("is this page again"), name)
		}
		x.answer.Store(nil)
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
		}
		x.Expect(deleted.Load()).To(BeZero())
	})
}

// The answer to the request for the second page is of a different moment, and
// lacks what the first page was to be followed by.
func TestAPageOfAnotherMomentIsNoList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGateway(t, &apisim.Options{NoStreamingLists: true})
		last := absenttest.Page{
			Status: http.StatusOK, ContentType: runtime.ContentTypeJSON,
			Body: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900"},"items":[]}`,
		}
		x.between(func(req *http.Request) *absenttest.Page {
			query := req.URL.Query()
			if query.Has("continue") {
				return &last
			}
			if !query.Has("watch") {
				req.URL.RawQuery = "limit=7"
			}
			return nil
		})
		caches, deleted := x.runBehind(t, &informer.Options{PageSize: 7})
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Synced).To(BeFalse(), name)
			x.Expect(c.Status().Reason).To(MatchRegexp("the first page of the list has the resourceVersion [0-9]+, and a later one 900"), name)
		}
		x.answer.Store(nil)
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Objects).To(Equal(20), name)
		}
		x.Expect(deleted.Load()).To(BeZero())
	})
}

// A server or proxy that goes on naming further pages would fill the memory.
func TestAListThatDoesNotEndIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newGateway(t, &apisim.Options{NoStreamingLists: true})
		var asked atomic.Int64
		x.between(func(req *http.Request) *absenttest.Page {
			if req.URL.Query().Has("watch") {
				return nil
			}
			return &absenttest.Page{
				Status: http.StatusOK, ContentType: runtime.ContentTypeJSON,
				Body: fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"900","continue":"%d"},"items":[`+
					`{"metadata":{"namespace":"d","name":"x","uid":"u","resourceVersion":"5"}}]}`, asked.Add(1)),
			}
		})
		caches, _ := x.runBehind(t, &informer.Options{PageSize: 7})
		<-time.After(time.Minute)
		for name, c := range caches {
			x.Expect(c.Status().Synced).To(BeFalse(), name)
			x.Expect(c.Status().Reason).To(ContainSubstring(`page 2 of the list begins with the object "d/x", as an earlier page did`), name)
		}
		x.Expect(asked.Load()).To(BeNumerically("<", 500), "each list ends at its second page")
		x.answer.Store(nil)
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
