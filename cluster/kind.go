package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/suspect"
)

// Kind makes clients for a kind for which the program has Go types, for example
// its own custom resource. It needs no generated code. T is a pointer to the
// object's type, and L a pointer to the list's type:
//
//	websites, err := cluster.NewKind[*v1.Website, *v1.WebsiteList](c,
//		v1.GroupVersion.WithResource("websites"), v1.AddToScheme)
//	in := informer.ForNamespaces(websites.In, nil)
//
// It is safe for concurrent use.
type Kind[T informer.Object, L runtime.Object] struct {
	resource   schema.GroupVersionResource
	kind       string
	client     *rest.RESTClient
	parameters runtime.ParameterCodec
	checked    atomic.Bool // Check has returned nil or an ErrKind; Cluster.Check then skips this kind
	// clusterScoped means that the kind has no namespaces.
	clusterScoped atomic.Bool
}

// ClusterScoped declares that the kind has no namespaces, and returns k. Kinds
// without this declaration have namespaces. [Kind.Check] reports a wrong
// declaration.
//
//	mirrors, err := cluster.NewKind[*v1.Mirror, *v1.MirrorList](c,
//		v1.GroupVersion.WithResource("mirrors"), v1.AddToScheme)
//	…
//	in := informer.For(mirrors.ClusterScoped().In(""), nil)
func (k *Kind[T, L]) ClusterScoped() *Kind[T, L] {
	k.clusterScoped.Store(true)
	return k
}

// KindClient reads and writes the objects of one namespace, of all namespaces,
// or of a cluster-scoped kind. It has the methods that client-gen generates:
// Create, Get, List, Watch, Update, UpdateStatus, Patch, Apply, ApplyStatus,
// Delete and DeleteCollection, as [gentype.ClientWithListAndApply] documents
// them, and the scale subresource.
type KindClient[T informer.Object, L runtime.Object] struct {
	*gentype.ClientWithListAndApply[T, L, ApplyConfiguration]
	kind *Kind[T, L]
}

// ApplyConfiguration is the input of [KindClient]'s Apply: the fields of an
// object that the caller decides, and no other fields. It needs apiVersion and
// kind. For example, controller-gen and applyconfiguration-gen generate such
// types, and any struct that embeds *metav1.ObjectMetaApplyConfiguration is
// one.
type ApplyConfiguration interface {
	GetName() *string
}

// NewKind returns the kind that is served as resource: the lower-case plural
// with its group and version. register adds T and L to a scheme, as the
// AddToScheme of an API package does. NewKind sends no request; see
// [Kind.Check].
//
// NewKind returns an error if c or register is nil, if the resource has no name
// or version, if register does not add T and L in that group and version, or if
// L is not the list of T. It also refuses a kind that every API has, such as
// ListOptions or WatchEvent. NewKind also returns an error if the config's
// certificate files are no longer readable, although [New] has read them.
func NewKind[T informer.Object, L runtime.Object](
	c *Cluster, resource schema.GroupVersionResource, register func(*runtime.Scheme) error,
) (*Kind[T, L], error) {
	k, err := newKind[T, L](c, resource, register)
	if err != nil {
		return nil, fmt.Errorf("creating clients for %s: %w", resourceName(resource), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = append(c.kinds, k)
	return k, nil
}

func newKind[T informer.Object, L runtime.Object](
	c *Cluster, resource schema.GroupVersionResource, register func(*runtime.Scheme) error,
) (*Kind[T, L], error) {
	switch {
	case c == nil:
		return nil, errors.New("the cluster is nil: check the error that cluster.New returned")
	case register == nil:
		return nil, errors.New("register is nil: pass the AddToScheme of the types' package")
	case resource.Resource == "" || resource.Version == "":
		return nil, errors.New("a resource needs a name and a version")
	}
	version := resource.GroupVersion()
	scheme := runtime.NewScheme()
	if err := addTypes(func() error { return register(scheme) }); err != nil {
		return nil, fmt.Errorf("registering the Go types: %w", err)
	}
	kind, err := kindIn[T](scheme, version)
	if err != nil {
		return nil, err
	}
	list, err := kindIn[L](scheme, version)
	if err != nil {
		return nil, err
	}
	if list != kind+"List" {
		return nil, fmt.Errorf("type %v is registered as kind %s, but must be registered as %sList",
			reflect.TypeFor[L](), list, kind)
	}
	if err := addTypes(func() error {
		metav1.AddToGroupVersion(scheme, version)
		return autoscalingv1.AddToScheme(scheme) // the scale subresource
	}); err != nil {
		return nil, fmt.Errorf("registering the common API types: %w", err)
	}
	config := c.Config()
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = keepsType{serializer.NewCodecFactory(scheme).WithoutConversion()}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Kind[T, L]{resource: resource, kind: kind, client: client, parameters: runtime.NewParameterCodec(scheme)}, nil
}

// addTypes calls add, which adds types to a scheme. A scheme panics if it gets
// two types of one kind, and addTypes returns the panic as an error.
func addTypes(add func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a kind can have only one Go type, and every API already has kinds such as ListOptions: "+
				"give the kind another name: %v", r)
		}
	}()
	return add()
}

// keepsType keeps apiVersion and kind in the objects that it decodes.
// client-go's decoder clears them. An Event about such an object could then not
// name its kind, because the schemes that recorders use do not contain these
// types.
type keepsType struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns d unchanged. The decoder that client-go would return
// clears apiVersion and kind.
func (keepsType) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// ErrKind is the error of [Kind.Check] if the server does not serve the kind as
// the program describes it. For example, the plural or the scope is wrong. A
// retry does not help, because the program or the server's CRDs must change.
var ErrKind = errors.New("the server has no such kind")

// kindIn returns the kind under which T is registered in a group and version.
func kindIn[T runtime.Object](scheme *runtime.Scheme, version schema.GroupVersion) (string, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return "", fmt.Errorf("type %v is not a pointer to a struct", t)
	}
	kinds, _, err := scheme.ObjectKinds(empty[T]())
	if err != nil {
		return "", fmt.Errorf("type %v is not registered: %w", t, err)
	}
	for _, k := range kinds {
		if k.GroupVersion() == version {
			return k.Kind, nil
		}
	}
	return "", fmt.Errorf("type %v is registered as %v, none of which is in %v", t, kinds, version)
}

func empty[T any]() T {
	return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) //nolint:forcetypeassert // it is T
}

// In returns the client for a namespace, or with "" the client for all
// namespaces or for cluster-scoped objects. Package patch and
// [informer.ForNamespaces] take this function.
func (k *Kind[T, L]) In(namespace string) *KindClient[T, L] {
	return &KindClient[T, L]{gentype.NewClientWithListAndApply[T, L, ApplyConfiguration](
		k.resource.Resource, k.client, k.parameters, namespace, empty[T], empty[L]), k}
}

// Scope returns the scope that the program has declared for the kind. It is
// called by informers.
func (c *KindClient[T, L]) Scope() meta.RESTScopeName {
	if c.kind.clusterScoped.Load() {
		return meta.RESTScopeNameRoot
	}
	return meta.RESTScopeNameNamespace
}

// Kind returns the kind of the objects. It is called by informers.
func (c *KindClient[T, L]) Kind() string { return c.kind.kind }

// GetScale returns the scale subresource of an object.
func (c *KindClient[T, L]) GetScale(
	ctx context.Context, name string, o metav1.GetOptions,
) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	return scale, c.kind.client.Get().NamespaceIfScoped(c.GetNamespace(), c.GetNamespace() != "").
		Resource(c.kind.resource.Resource).Name(name).SubResource("scale").
		VersionedParams(&o, c.kind.parameters).Do(ctx).Into(scale)
}

// UpdateScale writes the scale subresource of an object, and returns the scale
// as the server has stored it.
func (c *KindClient[T, L]) UpdateScale(
	ctx context.Context, name string, scale *autoscalingv1.Scale, o metav1.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	result := &autoscalingv1.Scale{}
	return result, c.kind.client.Put().NamespaceIfScoped(c.GetNamespace(), c.GetNamespace() != "").
		Resource(c.kind.resource.Resource).Name(name).SubResource("scale").
		VersionedParams(&o, c.kind.parameters).Body(scale).Do(ctx).Into(result)
}

// Check verifies that the server serves the resource with the expected kind and
// scope. Check sends one request, or two after a 404. Every account may send
// them, unless an administrator forbids it.
//
// A program that can work without the kind calls Check first, and tests whether
// the error is [ErrKind]. [Cluster.Check] then leaves the kind out, because its
// Check has already got an answer. A controller whose kind may be installed
// later uses reconcile.Options.Optional instead, and starts when the kind is
// installed.
//
// Check returns an [ErrKind] that says what the server has instead, or the
// error of the request. A status 404 alone is not [ErrKind], because a proxy
// may send it, too. So after a 404, Check sends a second request, for the list
// of the versions that the server serves.
func (k *Kind[T, L]) Check(ctx context.Context) error {
	err := k.verify(ctx)
	if err == nil || errors.Is(err, ErrKind) {
		k.checked.Store(true)
	}
	return err
}

func (k *Kind[T, L]) wasChecked() bool { return k.checked.Load() }

func (k *Kind[T, L]) groupResource() schema.GroupResource { return k.resource.GroupResource() }

// verify does what Check does, except that it does not record that the kind was
// checked.
func (k *Kind[T, L]) verify(ctx context.Context) error {
	if err := k.check(ctx); err != nil {
		return fmt.Errorf("checking that the server has %s: %w", resourceName(k.resource), err)
	}
	return nil
}

func (k *Kind[T, L]) check(ctx context.Context) error {
	var list metav1.APIResourceList
	err := k.discover(ctx, k.path(), "APIResourceList", &list)
	if apierrors.IsNotFound(err) { //nolint:forbidigo // not a proof: the server is asked for what it serves
		return k.unserved(ctx, err)
	}
	if err != nil {
		return err
	}
	if version := k.resource.GroupVersion().String(); list.GroupVersion != version {
		return suspect.Answerf("reading %s: the answer is about %q, not %q",
			k.path(), list.GroupVersion, version)
	}
	n := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource.Resource })
	if n >= 0 && list.APIResources[n].Kind == k.kind {
		return k.checkScope(list.APIResources[n].Namespaced)
	}
	if n >= 0 {
		return fmt.Errorf("%w: the resource has kind %s on the server, but %s in Go", ErrKind,
			list.APIResources[n].Kind, k.kind)
	}
	for _, r := range list.APIResources {
		if r.Kind == k.kind {
			return fmt.Errorf("%w: kind %s is served as %q", ErrKind, k.kind, r.Name)
		}
	}
	return fmt.Errorf("%w: %v has neither the resource nor kind %s", ErrKind, k.resource.GroupVersion(), k.kind)
}

// checkScope returns an [ErrKind] if the kind is declared with namespaces and
// the server's kind has no namespaces, or the other way round. With a wrong
// scope, reconcile.Owned would not find owners.
func (k *Kind[T, L]) checkScope(namespaced bool) error {
	switch declared := !k.clusterScoped.Load(); {
	case declared && !namespaced:
		return fmt.Errorf("%w: the kind has no namespaces on the server: call cluster.Kind.ClusterScoped", ErrKind)
	case !declared && namespaced:
		return fmt.Errorf("%w: the kind has namespaces on the server: do not call cluster.Kind.ClusterScoped", ErrKind)
	}
	return nil
}

// unserved returns an [ErrKind] if the server does not list the version among
// the versions that it serves. Otherwise it returns an error that contains
// notFound, because notFound may be the answer of a proxy.
func (k *Kind[T, L]) unserved(ctx context.Context, notFound error) error {
	version := k.resource.GroupVersion()
	served, err := k.serves(ctx, version)
	switch {
	case err != nil:
		return fmt.Errorf("listing the versions that the server serves, after it answered %q: %w", notFound.Error(), err)
	case served:
		return fmt.Errorf("%v is listed as served, but was not found: perhaps it is not ready yet, or a proxy or gateway "+
			"has answered: %w", version, notFound)
	}
	return fmt.Errorf("%w: nothing is served as %v: install its CustomResourceDefinition, or correct the version",
		ErrKind, version)
}

// serves reports whether the server lists the version.
func (k *Kind[T, L]) serves(ctx context.Context, version schema.GroupVersion) (bool, error) {
	if version.Group == "" {
		var core metav1.APIVersions
		err := k.discover(ctx, "/api", "APIVersions", &core)
		return slices.Contains(core.Versions, version.Version), err
	}
	var groups metav1.APIGroupList
	err := k.discover(ctx, "/apis", "APIGroupList", &groups)
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool {
			return v.GroupVersion == version.String()
		})
	}), err
}

func (k *Kind[T, L]) path() string {
	version := k.resource.GroupVersion()
	if version.Group == "" {
		return "/api/" + version.Version
	}
	return "/apis/" + version.String()
}

// discover reads a document of the given kind from the server's discovery into
// object.
func (k *Kind[T, L]) discover(ctx context.Context, path, kind string, object runtime.Object) error {
	body, err := k.client.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, object); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if got := object.GetObjectKind().GroupVersionKind().Kind; got != kind {
		return suspect.Answerf("reading %s: the answer is of kind %q, not %s", path, got, kind)
	}
	return nil
}

// resourceName returns the name of a resource as kubectl and RBAC use it, such
// as "deployments.apps".
func resourceName(r schema.GroupVersionResource) string { return r.GroupResource().String() }
