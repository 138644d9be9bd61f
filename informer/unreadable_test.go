package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/keyspace"
)

// job is a custom resource whose schema allows values that its Go type does
// not.
type job struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec jobSpec `json:"spec"`
}

type jobSpec struct {
	Replicas int32               `json:"replicas,omitempty"`
	Every    metav1.Duration     `json:"every"`
	Start    *metav1.Time        `json:"start,omitempty"`
	Memory   resource.Quantity   `json:"memory"`
	Port     *intstr.IntOrString `json:"port,omitempty"`
	Rules    []jobRule           `json:"rules,omitempty"`
	Panics   panics              `json:"panics,omitempty"`
}

type jobRule struct {
	Weights map[string]int `json:"weights,omitempty"`
}

// panics cannot be decoded at all.
type panics string

func (*panics) UnmarshalJSON([]byte) error { panic("not this one") }

func (j *job) DeepCopyObject() runtime.Object {
	return &job{j.TypeMeta, *j.DeepCopy(), j.Spec}
}

type jobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []job `json:"items"`
}

func (l *jobList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for n := range l.Items {
		out.Items = append(out.Items, *l.Items[n].DeepCopyObject().(*job))
	}
	return &out
}

var ofJobs = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jobs"}

func addJobs(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(ofJobs.GroupVersion().WithKind("Job"), &job{})
	s.AddKnownTypeWithName(ofJobs.GroupVersion().WithKind("JobList"), &jobList{})
	metav1.AddToGroupVersion(s, ofJobs.GroupVersion())
	return nil
}

// jobs is a server with custom resources without a schema, so that users may
// write any value.
type jobs struct {
	*WithT
	t   *testing.T
	sim *apisim.Server
	off atomic.Bool

	mu      sync.Mutex           // guards cancels
	cancels []context.CancelFunc // of requests

	admin  dynamic.NamespaceableResourceInterface
	client *cluster.Kind[*job, *jobList]
	in     *informer.Informer[*job]
	told   []string
	logs   *logbook
	began  time.Time
}

// history is how many events the server remembers.
const history = 5

// withJobs calls f with a server that has the jobs d/a and d/b. spec is the
// spec of d/b. f makes the informer.
func withJobs(t *testing.T, o *apisim.Options, spec map[string]any, f func(x *jobs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &jobs{WithT: NewWithT(t), t: t, logs: &logbook{}, began: time.Now()}
		o.History = history
		o.Resources = []apisim.Resource{
			{Group: ofJobs.Group, Version: ofJobs.Version, Resource: ofJobs.Resource, Kind: "Job", Namespaced: true},
		}
		var err error
		x.sim, err = apisim.New(o)
		x.Expect(err).NotTo(HaveOccurred())
		x.admin = dynamic.NewForConfigOrDie(x.sim.Admin()).Resource(ofJobs)
		config := x.sim.Config("c")
		config.Wrap(x.passing)
		reached, err := cluster.New(config, nil)
		x.Expect(err).NotTo(HaveOccurred())
		x.client, err = cluster.NewKind[*job, *jobList](reached, ofJobs, addJobs)
		x.Expect(err).NotTo(HaveOccurred())
		x.create("a", map[string]any{"replicas": int64(1)})
		x.create("b", spec)
		f(x)
	})
}

// passing lets no request through while the server is off.
func (x *jobs) passing(next http.RoundTripper) http.RoundTripper {
	return transportFunc(func(r *http.Request) (*http.Response, error) {
		if x.off.Load() {
			return nil, errors.New("the server is off")
		}
		ctx, cancel := context.WithCancel(r.Context())
		x.mu.Lock()
		x.cancels = append(x.cancels, cancel)
		x.mu.Unlock()
		return next.RoundTrip(r.WithContext(ctx))
	})
}

func (x *jobs) create(name string, spec map[string]any) {
	x.t.Helper()
	_, err := x.admin.Namespace("d").Create(x.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Job", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, metav1.CreateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

func (x *jobs) update(name string, spec map[string]any) {
	x.t.Helper()
	o, err := x.admin.Namespace("d").Get(x.t.Context(), name, metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	o.Object["spec"] = spec
	_, err = x.admin.Namespace("d").Update(x.t.Context(), o, metav1.UpdateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

func (x *jobs) delete(name string) {
	x.t.Helper()
	x.Expect(x.admin.Namespace("d").Delete(x.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
	synctest.Wait()
}

// run runs an informer of c until the test ends, and waits for its first list.
func (x *jobs) run(c informer.Client[*job, *jobList], o *informer.Options) {
	x.t.Helper()
	x.runInformer(informer.For(c, o))
}

// runInformer is run for an informer that already exists.
func (x *jobs) runInformer(in *informer.Informer[*job]) {
	x.t.Helper()
	x.in = in
	x.in.Handle(func(e informer.Event[*job]) {
		object := e.New
		if e.Type == informer.Deleted {
			object = e.Old
		}
		x.told = append(x.told, e.Type.String()+" "+object.Name)
	})
	x.t.Cleanup(running(x.logs.important(x.t.Context()), x.in))
	x.synced()
}

func (x *jobs) synced() {
	x.t.Helper()
	limited, cancel := context.WithTimeout(x.t.Context(), time.Minute)
	defer cancel()
	x.Expect(x.in.WaitForSync(limited)).To(Succeed())
	synctest.Wait()
}

// heard returns the events since the last call.
func (x *jobs) heard() []string {
	synctest.Wait()
	told := x.told
	x.told = nil
	return told
}

func (x *jobs) cached(name string) *job {
	object, _ := x.in.Get(keyOfJob(name))
	return object
}

func keyOfJob(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "d", Name: name}
}

// proven reports whether the cache proves that the object is deleted. It calls
// IsDeleted as often as a mass deletion would.
func (x *jobs) proven(name string) (proven bool) {
	for range 20 {
		proven = x.in.IsDeleted(x.t.Context(), keyOfJob(name))
	}
	return proven
}

var unreadableSpecs = map[string]struct {
	spec map[string]any
	why  string
}{
	"number":   {map[string]any{"replicas": "three"}, "spec.replicas: this string cannot be decoded as int32"},
	"duration": {map[string]any{"every": "5 minutes"}, "spec.every: this string cannot be decoded as v1.Duration"},
	"time":     {map[string]any{"start": "yesterday"}, "spec.start: this string cannot be decoded as v1.Time"},
	"quantity": {map[string]any{"memory": "much"}, "spec.memory: this string cannot be decoded as resource.Quantity"},
	"port": {
		map[string]any{"port": map[string]any{"number": int64(80)}},
		"spec.port: this object cannot be decoded as intstr.IntOrString",
	},
	"element": {
		map[string]any{"rules": []any{map[string]any{}, map[string]any{"weights": map[string]any{"x": true}}}},
		"spec.rules[1].weights[x]: this boolean cannot be decoded as int",
	},
	"list":  {map[string]any{"rules": int64(1)}, "spec.rules: this number cannot be decoded as []informer_test.jobRule"},
	"panic": {map[string]any{"panics": "x"}, "spec.panics: this string cannot be decoded as informer_test.panics"},
}

func TestAnUnreadableObjectIsLeftOutAndNamed(t *testing.T) {
	for name, c := range unreadableSpecs {
		for how, plain := range map[string]bool{"streamed": false, "listed": true} {
			t.Run(name+" "+how, func(t *testing.T) {
				withJobs(t, &apisim.Options{NoStreamingLists: plain}, c.spec, func(x *jobs) {
					x.run(x.client.In(""), nil)
					x.Expect(x.heard()).To(Equal([]string{"added a"}))
					x.Expect(x.cached("b")).To(BeNil())
					x.Expect(x.in.Unreadable(keyOfJob("a"))).To(Succeed())
					x.Expect(x.in.Unreadable(keyOfJob("b"))).To(MatchError(And(
						ContainSubstring(`job "d/b"`), ContainSubstring(c.why))))
					x.Expect(x.in.Status().Problems).To(ConsistOf(informer.Problem{
						Object: `job "d/b"`, Cause: "not decodable", Reason: c.why, Remedy: "correct or delete the object", Since: x.began,
					}))
					x.Expect(x.logs.matching("cannot be cached")).To(ConsistOf(
						And(ContainSubstring(`"name"="b"`), ContainSubstring(`"namespace"="d"`))))
					x.create("c", map[string]any{"replicas": int64(2)})
					x.Expect(x.heard()).To(Equal([]string{"added c"}))
				})
			})
		}
	}
}

var (
	good = map[string]any{"replicas": int64(1)}
	bad  = map[string]any{"every": "5 minutes"}
)

// The ways in which a client may be made.
var jobClients = map[string]func(x *jobs) informer.Client[*job, *jobList]{
	"of package cluster": func(x *jobs) informer.Client[*job, *jobList] { return x.client.In("") },
	"of a namespace":     func(x *jobs) informer.Client[*job, *jobList] { return x.client.In("d") },
	"gentype":            func(x *jobs) informer.Client[*job, *jobList] { return x.plain() },
	"generated":          func(x *jobs) informer.Client[*job, *jobList] { return &generatedJobs{x.plain()} },
	"in an interface":    func(x *jobs) informer.Client[*job, *jobList] { return shownJobs{&generatedJobs{x.plain()}} },
}

// plain is a client as users make it.
func (x *jobs) plain() *gentype.ClientWithList[*job, *jobList] {
	return gentype.NewClientWithList[*job, *jobList](ofJobs.Resource, x.client.In("").GetClient(), metav1.ParameterCodec, "",
		func() *job { return &job{} }, func() *jobList { return &jobList{} })
}

// generatedJobs is a client as client-gen generates it.
type generatedJobs struct {
	*gentype.ClientWithList[*job, *jobList]
}

// jobInterface is the interface that client-gen generates for the client.
// shownJobs is a type that embeds it, as programs have them.
type (
	jobInterface interface {
		informer.Client[*job, *jobList]
	}
	shownJobs struct{ JobInterface }
	// JobInterface is exported, as the interfaces that client-gen generates
	// are.
	JobInterface = jobInterface
)

func TestAnUnreadableObjectComesAndGoes(t *testing.T) {
	for name, client := range jobClients {
		t.Run(name, func(t *testing.T) {
			withJobs(t, &apisim.Options{}, good, func(x *jobs) {
				x.run(client(x), nil)
				x.Expect(x.heard()).To(ConsistOf("added a", "added b"))
				b := x.cached("b")
				x.update("b", bad)
				pass(10 * time.Second)
				x.Expect(x.heard()).To(BeEmpty())
				x.Expect(x.in.Unreadable(keyOfJob("b"))).To(MatchError(ContainSubstring("spec.every")))
				x.Expect(x.cached("b")).To(BeIdenticalTo(b), "the last good state stays")
				x.Expect(x.proven("b")).To(BeFalse())
				x.update("a", map[string]any{"replicas": int64(7)})
				x.Expect(x.heard()).To(Equal([]string{"updated a"}))

				x.update("b", map[string]any{"replicas": int64(3)})
				x.Expect(x.heard()).To(Equal([]string{"updated b"}))
				x.Expect(x.in.Unreadable(keyOfJob("b"))).To(Succeed())
				x.Expect(x.cached("b").Spec.Replicas).To(BeEquivalentTo(3))

				x.update("b", bad)
				x.delete("b")
				x.Expect(x.heard()).To(Equal([]string{"deleted b"}))
				x.Expect(x.in.Unreadable(keyOfJob("b"))).To(Succeed())
				shows := name != "in an interface" // such a client proves nothing
				x.Expect(x.proven("b")).To(Equal(shows))

				x.create("c", bad)
				x.Expect(x.heard()).To(BeEmpty())
				x.Expect(x.in.Unreadable(keyOfJob("c"))).NotTo(Succeed())
				x.Expect(x.proven("c")).To(BeFalse(), "it is not cached, and lives")
				x.Expect(x.proven("nobody")).To(Equal(shows), "others are proven all the same")
				x.delete("c")
				x.Expect(x.heard()).To(BeEmpty())
				x.Expect(x.in.Status().Problems).To(BeEmpty())
				x.Expect(x.proven("c")).To(Equal(shows))
			})
		})
	}
}

// An object that becomes undecodable causes no list, even if this happens
// repeatedly.
func TestAnUnreadableEventDoesNotListAgain(t *testing.T) {
	for name, client := range jobClients {
		t.Run(name, func(t *testing.T) {
			withJobs(t, &apisim.Options{}, good, func(x *jobs) {
				x.run(client(x), nil)
				pass(10 * time.Second)
				for range 20 {
					x.update("b", bad)
					pass(10 * time.Second)
					x.update("b", good)
					pass(time.Minute)
				}
				lists := int64(1)
				if name == "generated" || name == "in an interface" {
					lists = 2 // until the client has listed once, it is not known what else it does
				}
				x.Expect(x.in.Status().Lists).To(Equal(lists))
				x.Expect(x.cached("b").Spec.Replicas).To(BeEquivalentTo(1))
			})
		})
	}
}

func TestARecreatedObjectThatIsUnreadableEndsTheOldOne(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		x.run(x.client.In(""), nil)
		x.heard()
		stop := x.offline()
		x.delete("b")
		x.create("b", bad)
		stop()
		x.Expect(x.heard()).To(Equal([]string{"deleted b"}))
		x.Expect(x.cached("b")).To(BeNil())
		x.Expect(x.in.Unreadable(keyOfJob("b"))).NotTo(Succeed())
		x.Expect(x.proven("b")).To(BeFalse())
		x.update("b", good)
		x.Expect(x.heard()).To(Equal([]string{"added b"}))
	})
}

// A list after a gap in the watch does not delete the last good state of an
// unreadable object.
func TestAListKeepsTheLastGoodStateOfAnUnreadableObject(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		x.run(x.client.In(""), nil)
		x.heard()
		stop := x.offline()
		x.update("b", bad)
		x.create("c", bad)
		stop()
		x.Expect(x.heard()).To(BeEmpty())
		x.Expect(x.cached("b")).NotTo(BeNil())
		x.Expect(x.in.Status().Problems).To(ConsistOf(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`)), HaveField("Object", MatchRegexp(`^[jJ]ob "d/c"$`))))
		stop = x.offline()
		x.update("b", map[string]any{"replicas": int64(9)})
		x.delete("c")
		stop()
		x.Expect(x.heard()).To(Equal([]string{"updated b"}))
		x.Expect(x.in.Status().Problems).To(BeEmpty())
		x.Expect(x.proven("c")).To(BeTrue())
	})
}

// offline ends the watch, and lets no request through until online is called.
// By then the server has compacted its history, so the objects are listed
// again.
func (x *jobs) offline() (online func()) {
	x.off.Store(true)
	x.mu.Lock()
	for _, cancel := range x.cancels {
		cancel()
	}
	x.mu.Unlock()
	synctest.Wait()
	return func() {
		for range 2 * history {
			x.create("passing", good)
			x.delete("passing")
		}
		x.off.Store(false)
		pass(5 * time.Minute)
	}
}

// An unreadable state that is already known is not logged again. A newer state
// that is unreadable, too, does not begin a new problem.
func TestAnUnreadableStateIsLoggedOnceAndBeginsOnce(t *testing.T) {
	withJobs(t, &apisim.Options{}, bad, func(x *jobs) {
		x.run(x.client.In(""), nil)
		for range 2 {
			stop := x.offline()
			stop()
		}
		x.Expect(x.in.Status().Lists).To(BeNumerically(">", 2))
		x.Expect(x.logs.matching("cannot be cached")).To(HaveLen(1))
		x.update("b", map[string]any{"every": "10 minutes"})
		x.Expect(x.logs.matching("cannot be cached")).To(HaveLen(2))
		x.Expect(x.in.Status().Problems).To(ConsistOf(HaveField("Since", x.began)))
	})
}

func TestWaitForLatestDoesNotWaitForAnUnreadableObject(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		x.run(x.client.In(""), nil)
		x.update("b", bad)
		x.create("c", bad)
		limited, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
		defer cancel()
		x.Expect(x.in.WaitForLatest(limited)).To(Succeed())
		x.Expect(x.in.WaitForObject(limited, keyOfJob("c"))).To(Succeed())
	})
}

func TestATransformThatPanicsLeavesOneObjectOut(t *testing.T) {
	for how, plain := range map[string]bool{"streamed": false, "listed": true} {
		t.Run(how, func(t *testing.T) {
			withJobs(t, &apisim.Options{NoStreamingLists: plain}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
				x.run(x.plain(), &informer.Options{Transform: func(object informer.Object) {
					if object.(*job).Spec.Replicas == 13 {
						panic("not that number")
					}
				}})
				x.Expect(x.heard()).To(Equal([]string{"added a"}))
				x.Expect(x.in.Status().Problems).To(ConsistOf(And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`)),
					HaveField("Cause", "Transform panics"),
					HaveField("Reason", "informer.Options.Transform: panic: not that number"))))
				x.Expect(x.proven("b")).To(BeFalse())
				x.update("a", map[string]any{"replicas": int64(13)})
				x.Expect(x.heard()).To(BeEmpty())
				x.Expect(x.cached("a").Spec.Replicas).To(BeEquivalentTo(1))
				x.update("a", map[string]any{"replicas": int64(14)})
				x.update("b", good)
				x.Expect(x.heard()).To(Equal([]string{"updated a", "added b"}))
				x.Expect(x.in.Status().Problems).To(BeEmpty())
			})
		})
	}
}

func TestATransformThatPanicsForAnUntypedObjectLeavesItOut(t *testing.T) {
	withJobs(t, &apisim.Options{}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
		in := informer.For(informer.Untyped(x.admin), &informer.Options{Transform: func(object informer.Object) {
			if n, _, _ := unstructured.NestedInt64(object.(*unstructured.Unstructured).Object, "spec", "replicas"); n == 13 {
				panic("not that number")
			}
		}})
		defer running(x.t.Context(), in)()
		limited, cancel := context.WithTimeout(x.t.Context(), time.Minute)
		defer cancel()
		x.Expect(in.WaitForSync(limited)).To(Succeed())
		x.Expect(in.Unreadable(keyOfJob("b"))).To(MatchError(ContainSubstring("not that number")))
		x.Expect(in.Status().Objects).To(Equal(1))
		x.update("b", good)
		x.Expect(in.Unreadable(keyOfJob("b"))).To(Succeed())
		x.Expect(in.Status().Objects).To(Equal(2))
	})
}

// byReplicas panics for 13.
func byReplicas(j *job) []int32 {
	if j.Spec.Replicas == 13 {
		panic("not that number")
	}
	return []int32{j.Spec.Replicas}
}

func TestAnIndexThatPanicsLeavesOneObjectOut(t *testing.T) {
	for how, plain := range map[string]bool{"streamed": false, "listed": true} {
		t.Run(how, func(t *testing.T) {
			withJobs(t, &apisim.Options{NoStreamingLists: plain}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
				for n := range 100 { // many are indexed in another way
					x.create(fmt.Sprintf("z%d", n), map[string]any{"replicas": int64(2)})
				}
				in := informer.For(x.plain(), nil)
				index := informer.NewIndex(in, byReplicas)
				x.runInformer(in)
				x.Expect(x.heard()).To(HaveLen(101))
				x.Expect(x.in.Status().Problems).To(ConsistOf(And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`)),
					HaveField("Cause", "index panics"),
					HaveField("Reason", "the function of an index: panic: not that number"))))
				x.Expect(x.proven("b")).To(BeFalse())
				x.Expect(index.Len(1)).To(Equal(1))
				x.update("a", map[string]any{"replicas": int64(13)})
				x.Expect(x.heard()).To(BeEmpty())
				x.Expect(index.Len(1)).To(Equal(1), "the last good state stays, here as well")
				x.update("a", map[string]any{"replicas": int64(14)})
				x.update("b", good)
				x.Expect(x.heard()).To(Equal([]string{"updated a", "added b"}))
				x.Expect(x.in.Status().Problems).To(BeEmpty())
				x.Expect(index.Len(14)).To(Equal(1))
				x.delete("a")
				x.Expect(index.Len(14)).To(BeZero())
			})
		})
	}
}

func TestAListKeepsTheStateOfAnObjectForWhichAnIndexPanics(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		in := informer.For(x.client.In(""), nil)
		index := informer.NewIndex(in, byReplicas)
		x.runInformer(in)
		x.heard()
		stop := x.offline()
		x.update("b", map[string]any{"replicas": int64(13)})
		stop()
		x.Expect(x.heard()).To(BeEmpty())
		x.Expect(x.cached("b").Spec.Replicas).To(BeEquivalentTo(1))
		x.Expect(index.Len(1)).To(Equal(2))
		x.Expect(x.in.Status().Problems).To(ConsistOf(HaveField("Object", MatchRegexp(`^[jJ]ob "d/b"$`))))
	})
}

func TestAnIndexThatIsAddedLaterAndPanicsNamesTheObject(t *testing.T) {
	withJobs(t, &apisim.Options{}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
		x.run(x.client.In(""), nil)
		x.heard()
		index := informer.NewIndex(x.in, byReplicas)
		x.Expect(index.Len(1)).To(Equal(1))
		x.Expect(x.in.Unreadable(keyOfJob("b"))).To(MatchError(ContainSubstring("not that number")))
		x.Expect(x.cached("b")).NotTo(BeNil())
		stop := x.offline()
		stop()
		x.Expect(x.in.Unreadable(keyOfJob("b"))).NotTo(Succeed(), "the same state is listed again")
		x.update("b", map[string]any{"replicas": int64(2)})
		x.Expect(x.heard()).To(Equal([]string{"updated b"}))
		x.Expect(x.in.Unreadable(keyOfJob("b"))).To(Succeed())
		x.Expect(index.Len(2)).To(Equal(1))
	})
}

func TestAHandlerThatPanicsForAnObjectIsAProblemUntilItReceivesTheNextEvent(t *testing.T) {
	withJobs(t, &apisim.Options{}, map[string]any{"replicas": int64(13)}, func(x *jobs) {
		x.run(x.client.In(""), nil)
		remove := x.in.Handle(func(e informer.Event[*job]) {
			if e.Type != informer.Deleted {
				byReplicas(e.New)
			}
		})
		x.Expect(x.in.Status().Problems).To(ConsistOf(And(HaveField("Object", `job "d/b"`), HaveField("Cause", "handler panics"),
			HaveField("Reason", ContainSubstring("not that number")))))
		x.Expect(x.in.Unreadable(keyOfJob("b"))).To(Succeed(), "the cache is right")
		x.update("b", good)
		x.Expect(x.in.Status().Problems).To(BeEmpty())
		x.update("b", map[string]any{"replicas": int64(13)})
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		x.delete("b")
		x.Expect(x.in.Status().Problems).To(BeEmpty())
		x.create("c", map[string]any{"replicas": int64(13)})
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		remove()
		x.Expect(x.in.Status().Problems).To(BeEmpty())
	})
}

func TestProblemsAreNamedUpToTenAndCounted(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		for n := range 25 {
			x.create(fmt.Sprintf("x%02d", n), bad)
		}
		x.run(x.client.In(""), nil)
		problems := x.in.Status().Problems
		x.Expect(problems).To(HaveLen(10))
		x.Expect(problems[0]).To(And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/x00"$`)), HaveField("More", 0)))
		x.Expect(problems[9]).To(And(HaveField("Object", MatchRegexp(`^[jJ]ob "d/x09"$`)), HaveField("More", 15)))
	})
}

func TestHandleUnreadableIsCalledWhenAnObjectBecomesUnreadableOrReadable(t *testing.T) {
	withJobs(t, &apisim.Options{}, bad, func(x *jobs) {
		x.run(x.client.In(""), nil)
		var told []string
		remove := x.in.Parts().HandleUnreadable(func(key types.NamespacedName) {
			told = append(told, fmt.Sprintf("%s %v", key.Name, x.in.Unreadable(key) != nil))
		})
		x.Expect(told).To(Equal([]string{"b true"}))
		x.create("c", bad)
		x.update("b", good)
		x.delete("c")
		x.Expect(told).To(Equal([]string{"b true", "c true", "b false", "c false"}))
		remove()
		x.update("b", bad)
		x.Expect(told).To(HaveLen(4))
	})
}

func TestAnUnreadableObjectOfANamespaceThatIsNoLongerWatchedIsForgotten(t *testing.T) {
	withJobs(t, &apisim.Options{}, bad, func(x *jobs) {
		x.runInformer(informer.ForNamespaces(x.client.In, &informer.Options{Namespaces: []string{"d", "e"}}))
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		x.Expect(x.in.SetNamespaces("d")).To(Succeed())
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		x.Expect(x.in.SetNamespaces("e")).To(Succeed())
		x.Expect(x.in.Status().Problems).To(BeEmpty())
		x.Expect(x.proven("b")).To(BeFalse())
		x.Expect(x.in.SetNamespaces()).To(Succeed())
		x.synced()
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
	})
}

func TestAListOfOneNamespaceSaysNothingOfAnUnreadableObjectInAnother(t *testing.T) {
	withJobs(t, &apisim.Options{}, bad, func(x *jobs) {
		x.runInformer(informer.ForNamespaces(x.client.In, &informer.Options{Namespaces: []string{"d"}}))
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		x.Expect(x.in.SetNamespaces("d", "e")).To(Succeed())
		x.synced()
		x.Expect(x.in.Status().Namespaces).To(HaveLen(2))
		x.Expect(x.in.Status().Problems).To(HaveLen(1))
		x.Expect(x.in.Unreadable(keyOfJob("b"))).NotTo(Succeed())
	})
}

// In a cache of shards, objects are also received by an additional list beside
// the watch.
func TestAnUnreadableObjectOfAShard(t *testing.T) {
	for how, selects := range map[string]bool{"the server selects": true, "the client selects": false} {
		t.Run(how, func(t *testing.T) {
			withJobs(t, &apisim.Options{Shards: selects}, good, func(x *jobs) {
				in := informer.For(x.client.In(""), nil)
				x.in = in
				ctx, cancel := context.WithCancel(x.t.Context())
				ended := make(chan error)
				go func() { ended <- in.Parts().Shards().RunShards(ctx, nil) }()
				synctest.Wait()
				home := slices.IndexFunc([]int{0, 1, 2, 3, 4, 5, 6, 7}, func(n int) bool {
					r, _, _ := keyspace.Parse(keyspace.Requirement(shardOf(n)))
					return keyspace.Has(keyspace.Set{r}, "d")
				})
				other := (home + 1) % shardCount
				_, err := in.Parts().Shards().AddShards(x.t.Context(), shardOf(other))
				x.Expect(err).NotTo(HaveOccurred())
				x.update("b", bad)
				pass(5 * time.Second)
				x.Expect(x.in.Status().Problems).To(BeEmpty(), "it is another replica's")
				remove, err := in.Parts().Shards().AddShards(x.t.Context(), shardOf(home))
				x.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
				x.Expect(x.in.Status().Problems).To(HaveLen(1))
				x.Expect(x.cached("a")).NotTo(BeNil())
				x.Expect(x.proven("b")).To(BeFalse())
				x.update("b", good)
				pass(5 * time.Second)
				x.Expect(x.in.Status().Problems).To(BeEmpty())
				x.Expect(x.cached("b")).NotTo(BeNil())
				x.update("b", bad)
				pass(5 * time.Second)
				x.Expect(x.in.Status().Problems).To(HaveLen(1))
				remove(shardOf(home))
				synctest.Wait()
				x.Expect(x.in.Status().Problems).To(BeEmpty())
				cancel()
				x.Expect(<-ended).To(Succeed())
			})
		})
	}
}

// A metadata client decodes only the metadata, but that may fail as well.
func TestUnreadableMetadata(t *testing.T) {
	withJobs(t, &apisim.Options{}, good, func(x *jobs) {
		config := x.sim.Config("m")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil {
					answer.Body = &breaking{answer.Body}
				}
				return answer, err
			})
		})
		slim := metadata.NewForConfigOrDie(config).Resource(ofJobs)
		for _, client := range []informer.Client[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList]{
			informer.Untyped(slim), informer.Untyped(slim.Namespace("d")),
		} {
			in := informer.For(client, nil)
			stop := running(x.t.Context(), in)
			limited, cancel := context.WithTimeout(x.t.Context(), time.Minute)
			x.Expect(in.WaitForSync(limited)).To(Succeed())
			cancel()
			x.Expect(in.Status().Problems).To(ConsistOf(And(HaveField("Object", `PartialObjectMetadata "d/b"`),
				HaveField("Reason", ContainSubstring("metadata.creationTimestamp")))))
			x.Expect(in.Status().Objects).To(Equal(1))
			stop()
		}
	})
}

// A client that does more than send the request is not replaced, because it is
// not known what it does.
func TestAClientWithAListOfItsOwnIsNotReplaced(t *testing.T) {
	withJobs(t, &apisim.Options{}, bad, func(x *jobs) {
		in := informer.For(ownJobs{x.plain()}, nil)
		logs := &logbook{}
		defer running(logs.important(x.t.Context()), in)()
		pass(time.Minute)
		x.Expect(in.HasSynced()).To(BeFalse())
		x.Expect(in.Status().Reason).To(And(ContainSubstring("informer_test.ownJobs does not show its REST client"),
			ContainSubstring("cannot be skipped")))
	})
}

// ownJobs is a client whose List returns only some jobs.
type ownJobs struct {
	*gentype.ClientWithList[*job, *jobList]
}

func (o ownJobs) List(ctx context.Context, opts metav1.ListOptions) (*jobList, error) {
	opts.LabelSelector = "mine=yes"
	opts.LabelSelector = ""
	return o.ClientWithList.List(ctx, opts)
}

// A client with its own Watch is not replaced either, although it is known how
// it lists.
func TestAClientWithAWatchOfItsOwnIsNotReplaced(t *testing.T) {
	withJobs(t, &apisim.Options{NoStreamingLists: true}, good, func(x *jobs) {
		client := &watchedJobs{ClientWithList: x.plain()}
		x.run(client, nil)
		before := client.watches.Load()
		for range 3 {
			x.update("b", bad)
			pass(time.Minute)
			x.Expect(x.in.Unreadable(keyOfJob("b"))).NotTo(Succeed())
			x.update("b", good)
			pass(time.Minute)
			x.Expect(x.in.Unreadable(keyOfJob("b"))).To(Succeed())
		}
		x.Expect(client.watches.Load()-before).To(BeNumerically(">=", 3), "its own watches go on")
	})
}

// watchedJobs counts its watches.
type watchedJobs struct {
	*gentype.ClientWithList[*job, *jobList]
	watches atomic.Int64
}

func (w *watchedJobs) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w.watches.Add(1)
	return w.ClientWithList.Watch(ctx, opts)
}

// Objects of built-in kinds can be unreadable, too, if the server answers in
// JSON.
func TestAnUnreadableObjectOfABuiltInKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(&apisim.Options{Incomplete: true})
		g.Expect(err).NotTo(HaveOccurred())
		set := kubernetes.NewForConfigOrDie(sim.Admin())
		for _, name := range []string{"a", "b"} {
			_, err := set.CoreV1().Pods("d").Create(t.Context(), pod("d", name), metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		broken := &atomic.Bool{}
		broken.Store(true)
		config := sim.Config("c")
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transportFunc(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err == nil && broken.Load() {
					answer.Body = &breaking{answer.Body}
				}
				return answer, err
			})
		})
		in := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().Pods(""), nil)
		defer running(t.Context(), in)()
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		g.Expect(in.WaitForSync(limited)).To(Succeed())
		g.Expect(in.Status().Problems).To(ConsistOf(And(HaveField("Object", `Pod "d/b"`),
			HaveField("Reason", "metadata.creationTimestamp: this boolean cannot be decoded as v1.Time"))))
		g.Expect(in.Status().Objects).To(Equal(1))
		broken.Store(false)
		_, err = set.CoreV1().Pods("d").Create(t.Context(), pod("d", "c"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(in.Status().Objects).To(Equal(2), "the watch goes on")
	})
}

// breaking makes the creationTimestamp of object b undecodable.
type breaking struct{ io.ReadCloser }

var breakable = regexp.MustCompile(`"creationTimestamp":"[^"]*"[^{}]*"name":"b"`)

func (b *breaking) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return copy(p, breakable.ReplaceAllFunc(p[:n], func(part []byte) []byte {
		value, rest, _ := bytes.Cut(part, []byte(","))
		pad := bytes.Repeat([]byte(" "), len(value)-len(`"creationTimestamp":true`))
		return slices.Concat([]byte(`"creationTimestamp":true,`), pad, rest)
	})), err
}
