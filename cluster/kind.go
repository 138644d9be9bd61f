package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/informer"
)

// Kind makes clients of a kind for which the program has Go types, such as its own
// custom resource, without generated code. T is a pointer to the object's type and
// L one to the list's:
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
}

// Client reads and writes the objects of one namespace. It is what client-gen
// generates: Create, Get, List, Watch, Update, UpdateStatus, Patch and Delete, as
// [gentype.ClientWithList] documents them, and the scale subresource.
type Client[T informer.Object, L runtime.Object] struct {
	*gentype.ClientWithList[T, L]
	kind *Kind[T, L]
}

// NewKind returns the kind that is served as resource, the lower-case plural with
// its group and version. register adds T and L to a scheme, as the AddToScheme of
// an API package does. It sends nothing; see [Kind.Check].
//
// Errors: a resource without name or version; a T or L that register does not add
// in that group and version, or not as a kind and its list.
func NewKind[T informer.Object, L runtime.Object](
	c *Cluster, resource schema.GroupVersionResource, register func(*runtime.Scheme) error,
) (*Kind[T, L], error) {
	k, err := newKind[T, L](c, resource, register)
	if err != nil {
		return nil, fmt.Errorf("making clients of %s: %w", named(resource), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kinds = append(c.kinds, k)
	return k, nil
}

func newKind[T informer.Object, L runtime.Object](
	c *Cluster, resource schema.GroupVersionResource, register func(*runtime.Scheme) error,
) (*Kind[T, L], error) {
	if resource.Resource == "" || resource.Version == "" {
		return nil, errors.New("a resource needs a name and a version")
	}
	version := resource.GroupVersion()
	scheme := runtime.NewScheme()
	if err := register(scheme); err != nil {
		return nil, fmt.Errorf("registering its types: %w", err)
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
		return nil, fmt.Errorf("type %v is kind %s: must be %sList", reflect.TypeFor[L](), list, kind)
	}
	metav1.AddToGroupVersion(scheme, version)
	if err := autoscalingv1.AddToScheme(scheme); err != nil { // the scale subresource
		return nil, fmt.Errorf("registering Scale: %w", err)
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
	return &Kind[T, L]{resource, kind, client, runtime.NewParameterCodec(scheme)}, nil
}

// keepsType leaves apiVersion and kind in the objects it decodes, which client-go's
// clears: without them an Event cannot say what it is about, for no scheme that a
// recorder knows has these types.
type keepsType struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns d.
func (keepsType) DecoderToVersion(d runtime.Decoder, _ runtime.GroupVersioner) runtime.Decoder {
	return d
}

// ErrKind is what [Kind.Check] returns if the server does not have the kind under
// its name: only a change of the program or of the server's CRDs helps.
var ErrKind = errors.New("the server has no such kind")

// kindIn returns the kind that T is registered as in a group and version.
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

// In returns the client of a namespace. Of "" it is the client of all namespaces,
// and that of cluster-scoped objects. It is what package patch and
// [informer.ForNamespaces] take.
func (k *Kind[T, L]) In(namespace string) *Client[T, L] {
	return &Client[T, L]{gentype.NewClientWithList[T, L](
		k.resource.Resource, k.client, k.parameters, namespace, empty[T], empty[L]), k}
}

// GetScale returns the scale subresource of an object.
func (c *Client[T, L]) GetScale(
	ctx context.Context, name string, o metav1.GetOptions,
) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	return scale, c.kind.client.Get().NamespaceIfScoped(c.GetNamespace(), c.GetNamespace() != "").
		Resource(c.kind.resource.Resource).Name(name).SubResource("scale").
		VersionedParams(&o, c.kind.parameters).Do(ctx).Into(scale)
}

// UpdateScale writes the scale subresource of an object and returns it as the
// server has it then.
func (c *Client[T, L]) UpdateScale(
	ctx context.Context, name string, scale *autoscalingv1.Scale, o metav1.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	result := &autoscalingv1.Scale{}
	return result, c.kind.client.Put().NamespaceIfScoped(c.GetNamespace(), c.GetNamespace() != "").
		Resource(c.kind.resource.Resource).Name(name).SubResource("scale").
		VersionedParams(&o, c.kind.parameters).Body(scale).Do(ctx).Into(result)
}

// Check verifies that the server serves the resource with the expected kind. It sends
// one request, which every account may send unless an administrator forbids it.
//
// Errors: [ErrKind], with what the server has instead; those of the request.
func (k *Kind[T, L]) Check(ctx context.Context) error {
	if err := k.check(ctx); err != nil {
		return fmt.Errorf("checking that the server has %s: %w", named(k.resource), err)
	}
	return nil
}

func (k *Kind[T, L]) check(ctx context.Context) error {
	list, err := discovery.NewDiscoveryClient(k.client).ServerResourcesForGroupVersionWithContext(ctx,
		k.resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: nothing is served as %v: install its CustomResourceDefinition, or correct the version",
			ErrKind, k.resource.GroupVersion())
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.resource.Resource })
	if at >= 0 && list.APIResources[at].Kind == k.kind {
		return nil
	}
	if at >= 0 {
		return fmt.Errorf("%w: its kind is %s there, and %s in Go", ErrKind, list.APIResources[at].Kind, k.kind)
	}
	for _, r := range list.APIResources {
		if r.Kind == k.kind {
			return fmt.Errorf("%w: kind %s is served as %q", ErrKind, k.kind, r.Name)
		}
	}
	return fmt.Errorf("%w: %v has neither that resource nor kind %s", ErrKind, k.resource.GroupVersion(), k.kind)
}

// named is a resource as kubectl and RBAC name it.
func named(r schema.GroupVersionResource) string { return r.GroupResource().String() }
