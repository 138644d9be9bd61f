// Package backend connects a World and an Env of package reconciletest with the
// server behind them: the simulated one, or a real one.
package backend

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// Namespaces is the resource of namespaces.
var Namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// Server is the server, simulated or real, behind a World.
type Server interface {
	// Config returns a rest.Config with the administrator's credentials.
	Config() *rest.Config
	// Resources returns the resources that the server serves, always in the
	// same order.
	Resources() []apisim.Resource
	// Objects returns the objects of a resource, sorted by namespace and name.
	// They are shared; do not modify them.
	Objects(r apisim.Resource) ([]*unstructured.Unstructured, error)
	// Load creates an object, including its status. If its namespace does not
	// exist, Load creates the namespace first.
	Load(obj runtime.Object) error
	// Version returns a number that grows with each write, or always 0 if the
	// server does not count writes.
	Version() int64
}

// Boot is the environment of one start of the program.
type Boot struct {
	Context  context.Context //nolint:containedctx // the context ends with this boot
	Config   *rest.Config
	Replica  int
	Outside  any
	Remember func(c state.Cache)
	// Originals holds copies of the objects in caches that use Env.Transform,
	// as they were when they were cached.
	Originals *state.Originals
}

// Parts contains the methods of a Case that are only for other packages of this
// module. W is *reconciletest.World.
type Parts[W any] interface {
	// World returns the World of the case on a server, and calls Case.Outside
	// for it.
	World(server Server) W
	// Boot calls Case.Run with an Env for b, and returns its error.
	Boot(b Boot) error
}

// Simulated adapts the simulated server to the interface [Server].
type Simulated struct{ *apisim.Server }

// Config returns a rest.Config with the administrator's credentials.
func (s Simulated) Config() *rest.Config { return s.Admin() }

// Objects returns the objects of a resource.
func (s Simulated) Objects(r apisim.Resource) ([]*unstructured.Unstructured, error) {
	return s.Server.Objects(r.GVR()), nil
}

// Load creates an object. If its namespace does not exist, Load creates the
// namespace first.
func (s Simulated) Load(obj runtime.Object) error {
	if m, ok := obj.(metav1.Object); ok && m.GetNamespace() != "" {
		err := s.Server.Load(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: m.GetNamespace()}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return s.Server.Load(obj.DeepCopyObject())
}

// Begin loads the objects of a case. If one is a Namespace that already exists,
// such as default, Begin only adds the labels and annotations of the case's
// object to it.
func Begin(s Server, objects ...runtime.Object) error {
	for _, obj := range objects {
		err := s.Load(obj)
		if ns, ok := obj.(*corev1.Namespace); ok && apierrors.IsAlreadyExists(err) {
			err = label(s, ns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func label(s Server, ns *corev1.Namespace) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"labels": ns.Labels, "annotations": ns.Annotations,
	}})
	if err != nil {
		return err
	}
	_, err = kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Namespaces().
		Patch(context.Background(), ns.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// Find returns the resource with a name such as "pods", "deployments.apps" or
// "events.events.k8s.io".
func Find(s Server, resource string) (apisim.Resource, error) {
	name, group, qualified := strings.Cut(resource, ".")
	resources := s.Resources()
	i := slices.IndexFunc(resources, func(r apisim.Resource) bool { return r.Resource == name && r.Group == group })
	if i < 0 && !qualified {
		i = slices.IndexFunc(resources, func(r apisim.Resource) bool { return r.Resource == name })
	}
	if i < 0 {
		return apisim.Resource{}, fmt.Errorf("finding resource %q: the server does not serve it: "+
			"add it to Case.Resources", resource)
	}
	return resources[i], nil
}

// Client splits key, which is "namespace/name" or, for an object without a
// namespace, the name. It returns the administrator's client for the resource,
// in that namespace, and the name.
func Client(s Server, resource, key string) (dynamic.ResourceInterface, string, error) {
	r, err := Find(s, resource)
	if err != nil {
		return nil, "", err
	}
	client, err := dynamic.NewForConfig(s.Config())
	if err != nil {
		return nil, "", err
	}
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		return client.Resource(r.GVR()), namespace, nil
	}
	return client.Resource(r.GVR()).Namespace(namespace), name, nil
}

// Title returns an object's kind, namespace and name as one text.
func Title(obj runtime.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = strings.TrimPrefix(fmt.Sprintf("%T", obj), "*")
		kind = kind[strings.LastIndex(kind, ".")+1:]
	}
	m, ok := obj.(metav1.Object)
	switch {
	case !ok:
		return kind
	case m.GetNamespace() == "":
		return kind + " " + m.GetName()
	}
	return kind + " " + m.GetNamespace() + "/" + m.GetName()
}

// ClientOf returns the name of a replica's client. The numbers of replicas begin
// with 0. The client of a single replica is Program.
func ClientOf(replicas, replica int) string {
	if replicas < 2 {
		return Program
	}
	return Program + "-" + strconv.Itoa(replica)
}

// Program is the prefix of the names of the clients under test.
const Program = "program"
