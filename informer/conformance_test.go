package informer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
)

// A world is a server with ConfigMaps, and a client that changes them.
type world struct {
	create func(ctx context.Context, namespace, name string) error
	label  func(ctx context.Context, namespace, name, value string) error
	remove func(ctx context.Context, namespace, name string) error
}

// promises checks the promises that every informer of ConfigMaps keeps, with
// any client. settled returns when all events of the world have been delivered.
func promises[T informer.Object](g *WithT, ctx context.Context, in *informer.Informer[T], w world, settled func()) {
	var mu sync.Mutex // guards told
	var told []string
	tell := func(prefix string) func(informer.Event[T]) {
		return func(e informer.Event[T]) {
			object := e.New
			if e.Type == informer.Deleted {
				object = e.Old
			}
			_, stored := in.Get(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %s/%s=%s initial=%v stored=%v", prefix, e.Type,
				object.GetNamespace(), object.GetName(), object.GetLabels()["v"], e.Initial, stored))
		}
	}
	heard := func() []string {
		settled()
		mu.Lock()
		defer mu.Unlock()
		out := told
		told = nil
		return out
	}
	byLabel := informer.NewIndex(in, func(o T) []string { return []string{o.GetLabels()["v"]} })
	g.Expect(w.create(ctx, "b", "1")).To(Succeed())
	g.Expect(w.create(ctx, "a", "1")).To(Succeed())
	g.Expect(in.HasSynced()).To(BeFalse())
	remove := in.Handle(tell("first"))

	stop := running(ctx, in)
	defer func() { stop() }()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	g.Expect(in.HasSynced()).To(BeTrue())
	g.Expect(keys(in)).To(Equal([]string{"a/1", "b/1"}))
	g.Expect(heard()).To(ConsistOf(
		"first added a/1= initial=true stored=true", "first added b/1= initial=true stored=true",
	))

	before := in.Snapshot()
	g.Expect(w.create(ctx, "a", "2")).To(Succeed())
	g.Expect(heard()).To(Equal([]string{"first added a/2= initial=false stored=true"}))
	g.Expect(w.label(ctx, "a", "2", "x")).To(Succeed())
	g.Expect(heard()).To(Equal([]string{"first updated a/2=x initial=false stored=true"}))
	g.Expect(byLabel.Len("x")).To(Equal(1))
	g.Expect(w.remove(ctx, "a", "1")).To(Succeed())
	g.Expect(heard()).To(Equal([]string{"first deleted a/1= initial=false stored=false"}))
	g.Expect(before.Len()).To(Equal(2), "a snapshot stays as it was")
	g.Expect(keys(in)).To(Equal([]string{"a/2", "b/1"}))

	in.Handle(tell("late"))
	g.Expect(heard()).To(Equal([]string{
		"late added a/2=x initial=true stored=true", "late added b/1= initial=true stored=true",
	}))
	remove()

	stop()
	g.Expect(in.HasSynced()).To(BeFalse())
	g.Expect(w.remove(ctx, "b", "1")).To(Succeed())
	g.Expect(w.create(ctx, "c", "1")).To(Succeed())
	settled() // a wrapped informer continues to receive events
	stop = running(ctx, in)
	other := running(ctx, in)
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	g.Expect(heard()).To(ConsistOf(
		"late deleted b/1= initial=false stored=false", "late added c/1= initial=true stored=true",
	), "what vanished meanwhile is gone, once")
	other()
	g.Expect(in.HasSynced()).To(BeTrue(), "another Run is active")
	g.Expect(w.remove(ctx, "c", "1")).To(Succeed())
	g.Expect(heard()).To(Equal([]string{"late deleted c/1= initial=false stored=false"}))
}

func configMap(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func worldOf(client kubernetes.Interface) world {
	return world{
		create: func(ctx context.Context, namespace, name string) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, configMap(namespace, name), metav1.CreateOptions{})
			return err
		},
		label: func(ctx context.Context, namespace, name, value string) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"v":"`+value+`"}}}`), metav1.PatchOptions{})
			return err
		},
		remove: func(ctx context.Context, namespace, name string) error {
			return client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
	}
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

func TestEveryInformerKeepsItsPromises(t *testing.T) {
	for name, check := range map[string]func(t *testing.T, g *WithT){
		"typed fake": func(t *testing.T, g *WithT) {
			client := fake.NewClientset()
			promises(g, t.Context(), informer.For(client.CoreV1().ConfigMaps(""), nil), worldOf(client), synctest.Wait)
		},
		"simple typed fake": func(t *testing.T, g *WithT) {
			client := fake.NewSimpleClientset()
			promises(g, t.Context(), informer.For(client.CoreV1().ConfigMaps(""), nil), worldOf(client), synctest.Wait)
		},
		"several namespaces": func(t *testing.T, g *WithT) {
			client := fake.NewClientset()
			in := informer.ForNamespaces(client.CoreV1().ConfigMaps, &informer.Options{Namespaces: []string{"a", "b", "c"}})
			promises(g, t.Context(), in, worldOf(client), synctest.Wait)
		},
		"no sharing": func(t *testing.T, g *WithT) {
			client := fake.NewClientset()
			in := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{NoSharing: true, MutationCheck: "never"})
			promises(g, t.Context(), in, worldOf(client), synctest.Wait)
		},
		"wrapped": func(t *testing.T, g *WithT) {
			client := fake.NewClientset()
			factory := informers.NewSharedInformerFactory(client, 0)
			in := clientgo.Wrap[*corev1.ConfigMap](factory.Core().V1().ConfigMaps().Informer(), nil)
			ctx, cancel := context.WithCancel(t.Context())
			factory.StartWithContext(ctx)
			defer factory.Shutdown()
			defer cancel()
			synctest.Wait() // a fake loses events between its list and its watch
			w := worldOf(client)
			create := w.create
			w.create = func(ctx context.Context, namespace, name string) error {
				defer synctest.Wait() // the factory knows it
				return create(ctx, namespace, name)
			}
			promises(g, ctx, in, w, synctest.Wait)
		},
		"dynamic fake": func(t *testing.T, g *WithT) {
			client := dynamicfake.NewSimpleDynamicClient(scheme.Scheme)
			api := client.Resource(configMaps)
			in := informer.For(informer.Untyped(api), &informer.Options{Kind: "ConfigMap"})
			promises(g, t.Context(), in, world{
				create: func(ctx context.Context, namespace, name string) error {
					content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(configMap(namespace, name))
					if err != nil {
						return err
					}
					_, err = api.Namespace(namespace).Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
					return err
				},
				label: func(ctx context.Context, namespace, name, value string) error {
					_, err := api.Namespace(namespace).Patch(ctx, name, types.MergePatchType,
						[]byte(`{"metadata":{"labels":{"v":"`+value+`"}}}`), metav1.PatchOptions{})
					return err
				},
				remove: func(ctx context.Context, namespace, name string) error {
					return api.Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})
				},
			}, synctest.Wait)
		},
		"metadata fake": func(t *testing.T, g *WithT) {
			known := metadatafake.NewTestScheme()
			g.Expect(metav1.AddMetaToScheme(known)).To(Succeed())
			client := metadatafake.NewSimpleMetadataClient(known)
			tracked := func(namespace, name string) *metav1.PartialObjectMetadata {
				o := &metav1.PartialObjectMetadata{}
				o.APIVersion, o.Kind, o.Namespace, o.Name = "v1", "ConfigMap", namespace, name
				return o
			}
			in := informer.For(informer.Untyped(client.Resource(configMaps)), &informer.Options{Kind: "ConfigMap"})
			promises(g, t.Context(), in, world{
				create: func(_ context.Context, namespace, name string) error {
					return client.Tracker().Create(configMaps, tracked(namespace, name), namespace)
				},
				label: func(_ context.Context, namespace, name, value string) error {
					o := tracked(namespace, name)
					o.Labels = map[string]string{"v": value}
					return client.Tracker().Update(configMaps, o, namespace)
				},
				remove: func(_ context.Context, namespace, name string) error {
					return client.Tracker().Delete(configMaps, namespace, name)
				},
			}, synctest.Wait)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, NewWithT(t)) })
		})
	}
}
