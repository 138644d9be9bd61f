//go:build e2e

package status_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

// jobsCRD allows objects that the kind's Go type cannot hold: a Duration is a
// string, as in definitions that controller-gen writes, and unknown fields are
// preserved.
const jobsCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: jobs.unreadable.example.com}
spec:
  group: unreadable.example.com
  names: {kind: Job, plural: jobs, singular: job, listKind: JobList}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              x-kubernetes-preserve-unknown-fields: true
              properties: {every: {type: string}}
`

type cronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Every    metav1.Duration `json:"every"`
		Replicas int32           `json:"replicas,omitempty"`
	} `json:"spec"`
}

func (j *cronJob) DeepCopyObject() runtime.Object {
	to := *j
	j.DeepCopyInto(&to.ObjectMeta)
	return &to
}

type cronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []cronJob `json:"items"`
}

func (l *cronJobList) DeepCopyObject() runtime.Object {
	to := *l
	return &to
}

var cronJobs = schema.GroupVersionResource{Group: "unreadable.example.com", Version: "v1", Resource: "jobs"}

func addCronJobs(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(cronJobs.GroupVersion().WithKind("Job"), &cronJob{})
	s.AddKnownTypeWithName(cronJobs.GroupVersion().WithKind("JobList"), &cronJobList{})
	metav1.AddToGroupVersion(s, cronJobs.GroupVersion())
	return nil
}

// seenJobs records by key which jobs reconciles have seen.
type seenJobs struct {
	mu   sync.Mutex // guards seen
	seen map[string]int32
}

func (s *seenJobs) reconcile(_ context.Context, r reconcile.Request[*cronJob]) (reconcile.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[r.Key.Name] = -1 // deleted
	if object, ok := r.Object(); ok {
		s.seen[r.Key.Name] = object.Spec.Replicas
	}
	return reconcile.Result{}, nil
}

func (s *seenJobs) of(name string) func() int32 {
	return func() int32 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.seen[name]
	}
}

// The real server has an object that Go cannot decode, at the start and later.
// A client of package cluster reads it, and a generated client.
func TestE2EAnUnreadableObjectStopsOnlyItself(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(server.Stop()).To(Succeed()) })
	g.Expect(server.Apply(t.Context(), jobsCRD)).To(Succeed())
	reached, err := cluster.New(server.Config(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	kind, err := cluster.NewKind[*cronJob, *cronJobList](reached, cronJobs, addCronJobs)
	g.Expect(err).NotTo(HaveOccurred())
	for name, of := range map[string]func(namespace string) informer.Client[*cronJob, *cronJobList]{
		"of package cluster": func(namespace string) informer.Client[*cronJob, *cronJobList] { return kind.In(namespace) },
		"of package gentype": func(namespace string) informer.Client[*cronJob, *cronJobList] {
			return gentype.NewClientWithList[*cronJob, *cronJobList]("jobs", kind.In("").GetClient(), metav1.ParameterCodec,
				namespace, func() *cronJob { return &cronJob{} }, func() *cronJobList { return &cronJobList{} })
		},
	} {
		t.Run(name, func(t *testing.T) { unreadableAtTheServer(t, server, of) })
	}
}

func unreadableAtTheServer(
	t *testing.T, server *e2e.Cluster, of func(namespace string) informer.Client[*cronJob, *cronJobList],
) {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	namespace, err := server.Namespace(t.Context(), "unreadable")
	g.Expect(err).NotTo(HaveOccurred())
	objects := dynamic.NewForConfigOrDie(server.Config()).Resource(cronJobs).Namespace(namespace)
	apply := func(name string, spec map[string]any) {
		t.Helper()
		_, err := objects.Apply(t.Context(), name, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": cronJobs.GroupVersion().String(), "kind": "Job", "metadata": map[string]any{"name": name}, "spec": spec,
		}}, metav1.ApplyOptions{FieldManager: "test", Force: true})
		g.Expect(err).NotTo(HaveOccurred())
	}
	apply("a", map[string]any{"replicas": int64(1)})
	apply("b", map[string]any{"every": "5 minutes", "replicas": int64(2)})

	seen := &seenJobs{seen: map[string]int32{}}
	in := informer.For(of(namespace), &informer.Options{Name: "jobs"})
	controller, err := reconcile.New("jobs", in, reconcile.Func[*cronJob](seen.reconcile), nil)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	defer func() {
		stop()
		g.Expect(<-ended).To(Succeed())
	}()
	handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{controller}})
	g.Expect(err).NotTo(HaveOccurred())
	ready := func() (lines []string) {
		code, body := client{g, handler}.get("/readyz")
		if code == http.StatusOK {
			lines = strings.Split(strings.TrimSpace(body), "\n")
		}
		return lines
	}
	failing := func() int { return controller.Stats().Failing }
	const mend = "; correct or delete the object"

	g.Eventually(seen.of("a")).Should(BeEquivalentTo(1))
	g.Eventually(failing).Should(Equal(1))
	g.Expect(ready()).To(HaveExactElements("[!] informer/jobs: cronJob \""+namespace+
		"/b\": spec.every: this string cannot be decoded as v1.Duration"+mend, "ok"))
	lists := in.Status().Lists

	apply("a", map[string]any{"replicas": "three"})
	g.Eventually(failing).Should(Equal(2))
	g.Expect(ready()).To(ContainElement("[!] informer/jobs: cronJob \"" + namespace +
		"/a\": spec.replicas: this string cannot be decoded as int32" + mend))
	apply("c", map[string]any{"replicas": int64(3)})
	g.Eventually(seen.of("c")).Should(BeEquivalentTo(3), "the others go on")
	apply("b", map[string]any{"every": "5m", "replicas": int64(2)})
	g.Eventually(seen.of("b")).Should(BeEquivalentTo(2), "it heals by itself")
	g.Expect(objects.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(seen.of("a")).Should(BeEquivalentTo(-1))
	g.Eventually(failing).Should(BeZero())
	g.Expect(ready()).To(HaveExactElements("ok"))
	g.Expect(in.Status().Lists).To(Equal(lists), "nothing was listed again")
}
