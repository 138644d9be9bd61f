package informer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/parts"
)

// referenceWorld is a simulated server, and a cache of Secrets that are
// referred to.
type referenceWorld struct {
	*WithT

	t       *testing.T
	server  *apisim.Server
	client  kubernetes.Interface
	admin   kubernetes.Interface
	secrets *informer.References[*corev1.Secret]
	told    heardSecrets
	stop    func() error

	mu     sync.Mutex // guards the fields below
	calls  []string
	logged []string
	deny   map[string]bool // by namespace
	// byName contains the namespaces in which requests without a name are
	// forbidden.
	byName map[string]bool
	down   bool // every request is refused
	// unserved says that the server does not know the kind.
	unserved bool
	// selectsNothing says that the server ignores field selectors, and answers
	// lists in pages of one object. It then serves more than the caller asked
	// for.
	selectsNothing bool
	// elsewhere is the namespace about which the server answers, instead of
	// the one that it is asked about, unless it is empty.
	elsewhere string
	// answered is called before the answer to a list by a field selector is
	// returned, if it is not nil.
	answered func(selector string)
	// lists with the field selector delayed take delay.
	delayed string
	delay   time.Duration
}

var secretsResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func newReferenceWorld(t *testing.T, o *informer.Options) *referenceWorld {
	w := &referenceWorld{WithT: NewWithT(t), t: t, deny: map[string]bool{}, byName: map[string]bool{}}
	var err error
	w.server, err = apisim.New(&apisim.Options{Lifecycle: true})
	w.Expect(err).NotTo(HaveOccurred())
	config := w.server.Config("operator")
	config.Wrap(w.note)
	w.client, err = kubernetes.NewForConfig(config)
	w.Expect(err).NotTo(HaveOccurred())
	w.admin, err = kubernetes.NewForConfig(w.server.Admin())
	w.Expect(err).NotTo(HaveOccurred())
	w.server.Deny(func(c apisim.Call) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.deny[c.Namespace] {
			return apierrors.NewForbidden(secretsResource.GroupResource(), "", errors.New("no Role allows it"))
		}
		return nil
	})
	w.secrets = informer.Referenced(w.client.CoreV1().Secrets, o)
	w.secrets.Handle(w.told.hear)
	w.run()
	return w
}

// note is a transport that records which objects are listed and watched.
func (w *referenceWorld) note(next http.RoundTripper) http.RoundTripper {
	return transportFunc(func(r *http.Request) (*http.Response, error) {
		verb := "list"
		if r.URL.Query().Get("watch") != "" {
			verb = "watch"
		}
		namespace := path.Dir(r.URL.Path)[len("/api/v1/namespaces/"):]
		selector := r.URL.Query().Get("fieldSelector")
		w.mu.Lock()
		w.calls = append(w.calls, verb+" "+namespace+" "+selector)
		down := w.down
		forbidden := selector == "" && w.byName[namespace]
		unserved, delay, answered := w.unserved, w.delay, w.answered
		selectsNothing, elsewhere := w.selectsNothing, w.elsewhere
		if verb != "list" || selector != w.delayed {
			delay = 0
		}
		w.mu.Unlock()
		if delay > 0 {
			select {
			case <-time.After(delay):
			case <-r.Context().Done():
				return nil, context.Cause(r.Context())
			}
		}
		if down {
			return nil, syscall.ECONNREFUSED
		}
		if unserved {
			answered := httptest.NewRecorder()
			http.NotFound(answered, r)
			return answered.Result(), nil
		}
		if forbidden {
			answered := httptest.NewRecorder()
			answered.Header().Set("Content-Type", "application/json")
			answered.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(answered).Encode(failure(http.StatusForbidden, metav1.StatusReasonForbidden))
			return answered.Result(), nil
		}
		if selectsNothing {
			r = r.Clone(r.Context())
			if elsewhere != "" {
				r.URL.Path = "/api/v1/namespaces/" + elsewhere + "/secrets"
			}
			query := r.URL.Query()
			query.Del("fieldSelector")
			if verb == "list" {
				query.Set("limit", "1")
			}
			r.URL.RawQuery = query.Encode()
		}
		answer, err := next.RoundTrip(r)
		if answered != nil && verb == "list" {
			answered(selector)
		}
		return answer, err
	})
}

// setDown stops the server, or starts it again.
func (w *referenceWorld) setDown(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = is
}

// heardSecrets records events.
type heardSecrets struct {
	mu   sync.Mutex
	told []string
}

func (h *heardSecrets) hear(e informer.Event[*corev1.Secret]) {
	of := e.New
	if of == nil {
		of = e.Old
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, strings.ToLower(e.Type.String())+" "+of.Name)
}

func (h *heardSecrets) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.told)
}

// lapse lets time pass.
func lapse(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (w *referenceWorld) run() {
	log := funcr.New(func(_, line string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.logged = append(w.logged, line)
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(w.t.Context(), log))
	ended := make(chan error, 1)
	go func() { ended <- w.secrets.Parts().Run(ctx, func() {}) }()
	var once sync.Once
	var err error
	w.stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-ended:
			case <-time.After(time.Hour):
				panic("the references have not stopped within an hour, at " + w.t.Name())
			}
		})
		return err
	}
	w.t.Cleanup(func() { _ = w.stop() })
	synctest.Wait()
}

// forgetLog drops the recorded requests, because a long run would fill the
// memory.
func (w *referenceWorld) forgetLog() {
	w.mu.Lock()
	w.calls, w.logged = nil, nil
	w.mu.Unlock()
	w.told.mu.Lock()
	w.told.told = nil
	w.told.mu.Unlock()
}

func (w *referenceWorld) create(name, value string) {
	_, err := w.admin.CoreV1().Secrets("default").Create(context.Background(), secret(name, value), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *referenceWorld) update(name, value string) {
	_, err := w.admin.CoreV1().Secrets("default").Update(context.Background(), secret(name, value), metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *referenceWorld) delete(name string) {
	w.Expect(w.admin.CoreV1().Secrets("default").Delete(context.Background(), name, metav1.DeleteOptions{})).To(Succeed())
}

// hold holds Secrets, and waits until the resulting requests have been
// answered.
func (w *referenceWorld) hold(names ...string) {
	for _, name := range names {
		w.secrets.Parts().Hold(secretKey(name))
	}
	w.settle()
}

// settle waits until requests that are delayed by a jitter have been sent.
func (w *referenceWorld) settle() {
	for range 3 {
		synctest.Wait()
		lapse(2 * time.Second)
	}
	synctest.Wait()
}

func (w *referenceWorld) value(name string) string {
	if s, ok := w.secrets.Get(secretKey(name)); ok {
		return string(s.Data["v"])
	}
	return ""
}

// state returns "unknown", "known" or the error.
func (w *referenceWorld) state(name string) string {
	switch known, err := w.secrets.Parts().State(secretKey(name)); {
	case err != nil:
		return err.Error()
	case known:
		return "known"
	}
	return "unknown"
}

// forbid withdraws or restores the permission for the Secrets of a namespace.
func (w *referenceWorld) forbid(namespace string, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deny[namespace] = is
}

// allowNames withdraws or restores the permission for requests without a name.
func (w *referenceWorld) allowNames(namespace string, only bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byName[namespace] = only
}

// delayLists makes lists with a field selector take a while.
func (w *referenceWorld) delayLists(selector string, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delayed, w.delay = selector, by
}

// called returns the calls since the last call of it.
func (w *referenceWorld) called() (calls []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls, w.calls = w.calls, nil
	return calls
}

func secretKey(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"v": []byte(value)},
	}
}

func TestOnlyWhatIsReferredToIsListedWatchedAndCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.create("foreign", "1")
		w.Expect(w.state("a")).To(Equal("unknown"))
		w.called()
		w.hold("a", "late")
		w.Expect(w.called()).To(ConsistOf(
			"list default metadata.name=a", "watch default metadata.name=a",
			"list default metadata.name=late", "watch default metadata.name=late",
		))
		w.Expect(w.value("a")).To(Equal("1"))
		w.Expect([]string{w.state("a"), w.state("late"), w.state("foreign")}).To(Equal([]string{"known", "known", "unknown"}))

		w.update("foreign", "2")
		w.update("a", "2")
		synctest.Wait()
		w.create("late", "1")
		synctest.Wait()
		w.Expect(w.value("a") + w.value("late") + w.value("foreign")).To(Equal("21"))
		w.delete("a")
		synctest.Wait()
		w.Expect(w.state("a") + w.value("a")).To(Equal("known"))
		w.Expect(w.secrets.Snapshot().Len()).To(Equal(1))
		w.Expect(w.told.heard()).To(Equal([]string{"added a", "updated a", "added late", "deleted a"}))
		s := w.secrets.Status()
		w.Expect([]any{s.Running, s.Synced, s.Referenced, s.References, s.OpenWatches}).To(
			Equal([]any{true, true, true, 2, 2}))
	})
}

func TestAnObjectIsKeptForAWhileAfterTheLastReferenceToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a", "a")
		release := func() { w.secrets.Parts().Release(secretKey("a")) }
		release()
		lapse(time.Hour)
		w.Expect(w.value("a")).To(Equal("1"), "it is still held once")
		release()
		lapse(30 * time.Second)
		w.called()
		w.hold("a")
		w.Expect(w.called()).NotTo(ContainElement(HavePrefix("list")), "it is still watched")
		release()
		lapse(59 * time.Second)
		w.Expect(w.secrets.Parts().Holds(secretKey("a"))).To(BeTrue())
		lapse(2 * time.Second)
		synctest.Wait()
		w.Expect(w.secrets.Parts().Holds(secretKey("a"))).To(BeFalse())
		w.Expect(w.value("a") + w.state("a")).To(Equal("unknown"))
		w.Expect(w.told.heard()).To(Equal([]string{"added a", "deleted a"}))
		w.hold("a")
		w.Expect(w.value("a") + w.state("a")).To(Equal("1known"))
	})
}

func TestAForbiddenReferenceConcernsNoOtherAndHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		_, err := w.admin.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.forbid("tenant", true)
		w.create("a", "1")
		theirs := types.NamespacedName{Namespace: "tenant", Name: "x"}
		states := 0
		w.secrets.Parts().HandleState(func(key types.NamespacedName) {
			if key == theirs {
				states++
			}
		})
		w.secrets.Parts().Hold(theirs)
		w.hold("a")
		lapse(time.Hour)
		known, err := w.secrets.Parts().State(theirs)
		w.Expect(known).To(BeFalse())
		w.Expect(apierrors.IsForbidden(err)).To(BeTrue())
		w.Expect(err).To(MatchError(And(
			HavePrefix(`watching Secret "tenant/x": `), HaveSuffix(`(the verbs list and watch on this name are needed)`))))
		w.Expect(states).To(Equal(1))
		w.mu.Lock()
		w.Expect(w.logged).To(ConsistOf(And(
			ContainSubstring(`"watching a referenced object failed, retrying"`), ContainSubstring(`"informer"="secrets"`))))
		w.mu.Unlock()
		w.Expect(w.state("a")).To(Equal("known"))
		w.Expect(w.secrets.Status().Problems).To(ConsistOf(And(
			HaveField("Object", "tenant/x"), HaveField("Cause", "Forbidden"),
			HaveField("Remedy", "grant the verbs list and watch on this name"))))

		w.forbid("tenant", false)
		lapse(time.Minute)
		known, err = w.secrets.Parts().State(theirs)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(known).To(BeTrue())
		w.Expect(w.secrets.Status().Problems).To(BeEmpty())
		w.Expect(w.secrets.Status().LastError).To(BeEmpty())
	})
}

func TestAKindThatIsNotServedIsTheErrorOfItsReferencesUntilItIs(t *testing.T) {
	for _, above := range []int{0, 1} { // also where references would share a watch
		synctest.Test(t, func(t *testing.T) {
			w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: above})
			w.create("a", "1")
			w.serve(false)
			w.hold("a", "b", "c")
			w.Expect(w.state("a")).To(HavePrefix(`watching Secret "default/a": `))
			w.Expect(w.secrets.Status().Problems).To(HaveLen(3))
			w.Expect(w.secrets.IsDeleted(t.Context(), secretKey("b"))).To(BeFalse())
			w.serve(true)
			lapse(time.Minute)
			w.Expect(w.state("a") + w.state("b") + w.value("a")).To(Equal("knownknown1"))
			w.Expect(w.secrets.Status().Problems).To(BeEmpty())
			w.serve(false) // the definition is deleted, and its objects with it
			w.server.DropWatches("operator", "secrets")
			w.settle()
			w.Expect(w.state("a")).To(HavePrefix(`watching Secret "default/a": `))
			w.Expect(w.value("a")).To(Equal("1"), "unknown is not deleted")
			w.Expect(w.told.heard()).To(Equal([]string{"added a"}))
		})
	}
}

// serve says whether the server knows the kind.
func (w *referenceWorld) serve(is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unserved = !is
}

// Aggregated API servers may not know field selectors, and may answer in pages.
func TestAServerThatAnswersWithMoreThanTheNameIsUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.selectsNothing = true
		for _, name := range []string{"a", "b", "c"} {
			w.create(name, "1")
		}
		w.hold("c", "missing")
		w.Expect(w.state("c")+w.value("c")).To(Equal("known1"), "it is on the last page")
		w.Expect(w.state("missing") + w.value("missing")).To(Equal("known"))
		w.Expect(w.secrets.IsDeleted(t.Context(), secretKey("c"))).To(BeFalse())
		w.update("a", "2")
		w.delete("b")
		w.update("c", "2")
		w.create("missing", "1")
		w.settle()
		w.Expect(w.value("c") + w.value("missing")).To(Equal("21"))
		w.Expect(w.secrets.Snapshot().Len()).To(Equal(2), "of the others nothing is cached")
		w.Expect(w.told.heard()).To(ConsistOf("added c", "updated c", "added missing"))
		w.server.DropWatches("operator", "secrets")
		w.delete("c")
		w.settle()
		w.Expect(w.state("c") + w.value("c")).To(Equal("known"))
	})
}

func TestAnAnswerAboutAnotherNamespaceProvesNothingOfAReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		_, err := w.admin.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		_, err = w.admin.CoreV1().Secrets("tenant").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.create("a", "1")
		w.answerAbout("tenant")
		w.hold("a")
		w.Expect(w.state("a")).To(Equal("unknown"))
		lapse(5 * time.Minute)
		w.Expect(w.state("a")).To(ContainSubstring(`an object of namespace "tenant", not "default"`))
		w.answerAbout("")
		lapse(time.Minute)
		w.Expect(w.state("a") + w.value("a")).To(Equal("known1"))
	})
}

// answerAbout lets a proxy answer about another namespace.
func (w *referenceWorld) answerAbout(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.selectsNothing, w.elsewhere = true, namespace
}

func TestAnObjectOnALaterPageIsNotDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.selectsNothing = true
		for _, name := range []string{"a", "b", "c"} {
			w.create(name, "1")
		}
		in := informer.For(w.client.CoreV1().Secrets("default"), &informer.Options{LabelSelector: "owner=me"})
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), logr.Discard()))
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		w.Expect(in.WaitForSync(ctx)).To(Succeed())
		absence, err := in.Parts().Absent(ctx, secretKey("c"))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(absence).To(Equal(parts.OutOfScope), "it has no such label, and is the last of three pages")
		absence, err = in.Parts().Absent(ctx, secretKey("missing"))
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(absence).To(Equal(parts.Deleted))
		cancel()
		w.Expect(<-ended).To(Succeed())
	})
}

func TestAPermissionThatIsTakenAwayIsAnErrorOnceTheWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		w.forbid("default", true)
		w.server.DropWatches("operator", "secrets")
		w.settle()
		w.Expect(w.state("a")).To(ContainSubstring("no Role allows it"))
		w.Expect(w.value("a")).To(Equal("1"))
		w.Expect(w.secrets.IsDeleted(t.Context(), secretKey("a"))).To(BeFalse())
		w.update("a", "2")
		w.forbid("default", false)
		lapse(time.Minute)
		synctest.Wait()
		w.Expect(w.value("a") + w.state("a")).To(Equal("2known"))
	})
}

func TestWhatHappensWhileAWatchIsCutIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		for _, name := range []string{"a", "b", "c", "same"} {
			w.create(name, "1")
		}
		w.hold("a", "b", "c", "d", "same")
		w.told.heard()
		w.server.DropWatches("operator", "secrets")
		w.update("a", "2")
		w.delete("b")
		w.delete("c")
		w.create("c", "2")
		w.create("d", "1")
		w.server.Compact("secrets")
		w.settle()
		w.Expect(w.told.heard()[4:]).To(ConsistOf("updated a", "deleted b", "deleted c", "added c", "added d"))
		w.Expect(w.value("a") + w.value("c") + w.value("d") + w.value("same")).To(Equal("2211"))
	})
}

func TestAServerThatComesBackIsNotAskedForEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 1000})
		const references = 1000
		for n := range references {
			w.secrets.Parts().Hold(secretKey(fmt.Sprint("s", n)))
		}
		lapse(time.Minute)
		w.Expect(w.secrets.Status().OpenWatches).To(Equal(references))
		w.called()
		w.server.DropWatches("operator", "secrets")
		for range 60 {
			lapse(time.Second)
			w.Expect(len(w.called())).To(BeNumerically("<=", 2*101), "a list and a watch each")
		}
		w.Expect(w.secrets.Status().OpenWatches).To(Equal(references))
	})
}

func TestAtRestAReferenceNeedsFewRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.hold("a")
		w.called()
		const minutes = 600
		lapse(minutes * time.Minute)
		calls := w.called()
		w.Expect(calls).To(HaveEach("watch default metadata.name=a"))
		w.Expect(float64(len(calls)) / minutes).To(BeNumerically("<=", 0.2))
		w.Expect(w.secrets.Status().Stalls).To(BeZero())
	})
}

func TestAThousandReferencesNeedFewGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 1000})
		before := runtime.NumGoroutine()
		const references = 1000
		for n := range references {
			w.secrets.Parts().Hold(secretKey(fmt.Sprint("s", n)))
		}
		lapse(time.Minute)
		synctest.Wait()
		// One of each is client-go's reader of the response.
		w.Expect(float64(runtime.NumGoroutine()-before) / references).To(BeNumerically("<", 1.1))
		w.Expect(w.stop()).To(Succeed())
	})
}

func TestReadsOfReferencesDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		key, absent := secretKey("a"), secretKey("absent")
		w.Expect(testing.AllocsPerRun(100, func() {
			_, _ = w.secrets.Get(key)
			_, _ = w.secrets.Get(absent)
			_ = w.secrets.Snapshot().Len()
		})).To(BeZero())
	})
}

func TestADeletedReferenceIsKnownToBeDeletedAndNothingElseIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		deleted := func(name string) bool { return w.secrets.IsDeleted(t.Context(), secretKey(name)) }
		w.create("a", "1")
		w.Expect(deleted("never")).To(BeFalse(), "nothing refers to it")
		w.hold("a", "never")
		w.Expect(deleted("a")).To(BeFalse())
		w.Expect(deleted("never")).To(BeTrue())
		w.delete("a")
		synctest.Wait()
		w.Expect(deleted("a")).To(BeTrue())
		w.forbid("default", true)
		w.Expect(deleted("a")).To(BeFalse(), "the server does not say")
		w.forbid("default", false)
		w.Expect(w.stop()).To(Succeed())
		w.Expect(deleted("a")).To(BeFalse(), "it does not run")
	})
}

func TestOwnWritesAreSeenByTheNameOfTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a", "b")
		w.update("a", "2")
		written, err := w.admin.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		var seen []string
		on := func(name string) {
			w.secrets.Parts().OnSeen(secretKey(name), written.ResourceVersion, func() { seen = append(seen, name) })
		}
		on("nobody's")
		w.Expect(seen).To(Equal([]string{"nobody's"}), "nothing is cached of it")
		on("a")
		on("b")
		synctest.Wait()
		w.Expect(seen).To(Equal([]string{"nobody's", "a"}), "the watch of b has not come so far")
		w.Expect(w.secrets.Parts().WaitForObject(t.Context(), secretKey("b"))).To(Succeed())
		w.Expect(seen).To(Equal([]string{"nobody's", "a", "b"}))
	})
}

func TestRenewedReferencesAreUnknownUntilTheyAreListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		w.called()
		w.secrets.Parts().Renew()
		w.Expect(w.state("a") + w.value("a")).To(Equal("unknown1"))
		w.settle()
		w.Expect(w.state("a")).To(Equal("known"))
		w.Expect(w.called()).To(Equal([]string{"list default metadata.name=a"}))
	})
}

// The cached state belongs to the old object.
func TestARecreatedReferenceThatIsUnreadableIsNotTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{Transform: func(o informer.Object) {
			if string(o.(*corev1.Secret).Data["v"]) == "bad" {
				panic("not this one")
			}
		}})
		w.create("a", "1")
		w.hold("a")
		w.setDown(true)
		w.server.DropWatches("operator", "secrets")
		w.Expect(w.admin.CoreV1().Secrets("default").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		w.create("a", "bad")
		w.setDown(false)
		w.settle()
		w.Expect(w.value("a")).To(BeEmpty())
		w.update("a", "2")
		w.settle()
		w.Expect(w.value("a")).To(Equal("2"))
	})
}

func TestReferencesRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a", "b")
		w.Expect(w.stop()).To(Succeed())
		w.Expect(w.state("a")).To(Equal("unknown"))
		w.update("a", "2")
		w.create("b", "1")
		w.run()
		w.settle()
		w.Expect(w.state("a") + w.state("b")).To(Equal("knownknown"))
		w.Expect(w.told.heard()).To(ConsistOf("added a", "updated a", "added b"))
	})
}

func TestReferencesWorkWithFakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(secret("a", "1"), secret("foreign", "1"))
		secrets := informer.Referenced(client.CoreV1().Secrets, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- secrets.Parts().Run(ctx, func() {}) }()
		secrets.Parts().Hold(secretKey("a"))
		secrets.Parts().Hold(secretKey("b"))
		lapse(time.Second)
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			known, err := secrets.Parts().State(secretKey(name))
			g.Expect(known).To(BeTrue())
			g.Expect(err).NotTo(HaveOccurred())
		}
		_, err := client.CoreV1().Secrets("default").Update(ctx, secret("a", "2"), metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.CoreV1().Secrets("default").Create(ctx, secret("b", "1"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		a, _ := secrets.Get(secretKey("a"))
		g.Expect(string(a.Data["v"])).To(Equal("2"))
		_, ok := secrets.Get(secretKey("b"))
		g.Expect(ok).To(BeTrue())
		g.Expect(secrets.Snapshot().Len()).To(Equal(2))
		g.Expect(client.CoreV1().Secrets("default").Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		_, ok = secrets.Get(secretKey("a"))
		g.Expect(ok).To(BeFalse())
		g.Expect(secrets.IsDeleted(ctx, secretKey("a"))).To(BeFalse())
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}
