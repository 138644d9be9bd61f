package observer_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 3 * time.Second

// register is the state that three scripts keep outside the cluster, as those
// in scripts/record do: the address of each Service.
type register struct {
	mu        sync.Mutex // guards addresses
	addresses map[string]string
}

// Run is "record NAMESPACE NAME ADDRESS" and "forget NAMESPACE NAME".
func (r *register) Run(_ context.Context, c command.Call) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := c.Argv[1] + "/" + c.Argv[2]
	if c.Argv[0] == "forget" {
		delete(r.addresses, key)
	} else {
		r.addresses[key] = c.Argv[3]
	}
	return nil
}

func (r *register) list() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.addresses)
}

func (r *register) names(context.Context) ([]names.Name, error) {
	var text strings.Builder
	for key := range r.list() {
		fmt.Fprintln(&text, key)
	}
	return known.Parse(strings.NewReader(text.String()), known.Format{})
}

func addressed(name, address string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: address},
	}
}

// observeServices is observe services -A -a {.spec.clusterIP} --names …
// --delete forget -- record.
func observeServices(env *reconciletest.Env, arguments argument.List) error {
	client, err := dynamic.NewForConfig(env.Config())
	if err != nil {
		return err
	}
	of := func(ns string) informer.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
		return informer.Untyped[*unstructured.Unstructured, *unstructured.UnstructuredList](client.Resource(services).Namespace(ns))
	}
	outside := env.Outside().(*register)
	o, err := observer.New(informer.ForNamespaces(of, &informer.Options{Kind: "Service"}),
		func(ns string) observer.Getter[*unstructured.Unstructured] { return of(ns) },
		outside, observer.Progress{Out: io.Discard},
		observer.Options{
			Each: []string{"record"}, Delete: []string{"forget"}, Names: names.Func(outside.names),
			Namespaced: true, Arguments: arguments, MaxErrors: observer.NoLimit,
		})
	if err != nil {
		return err
	}
	return o.Run(env.Context())
}

// With a fault at every call and every event, the end is the same: the outside
// state matches the cluster.
func TestItSurvivesEveryFault(t *testing.T) {
	arguments := address(t)
	report := reconciletest.Explore(t, &reconciletest.Case{
		Outside: func() any { return &register{addresses: map[string]string{}} },
		Run:     func(env *reconciletest.Env) error { return observeServices(env, arguments) },
		Workload: []reconciletest.Step{
			reconciletest.Create(addressed("a", "10.0.0.1")),
			reconciletest.Create(addressed("b", "10.0.0.2")),
			reconciletest.Delete("services", "d/a"),
			reconciletest.Create(addressed("c", "10.0.0.3")),
			reconciletest.Delete("services", "d/b"),
			reconciletest.Create(addressed("b", "10.0.0.4")),
		},
		Goal: func(w *reconciletest.World) error {
			all, err := reconciletest.List[corev1.Service](w, "services")
			if err != nil {
				return err
			}
			want := map[string]string{}
			for _, s := range all {
				want[s.Namespace+"/"+s.Name] = s.Spec.ClusterIP
			}
			if have := w.Outside().(*register).list(); !maps.Equal(have, want) {
				return fmt.Errorf("recorded are %v, there are %v", have, want)
			}
			return nil
		},
	}, &reconciletest.Options{Budget: exploration})
	NewWithT(t).Expect(report.Rules).To(ConsistOf(HaveField("Verbs", ConsistOf("get", "list", "watch"))))
}
