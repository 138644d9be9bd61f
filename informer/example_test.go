package informer_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/informer"
)

// Read from the cache what the server has.
func Example() {
	clientset := fake.NewClientset(pod("shop", "web-1"), pod("shop", "web-2"), pod("bank", "db-1"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil) // the types follow from the client
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err) // says what is missing, and why
		return
	}

	web, ok := pods.Get(types.NamespacedName{Namespace: "shop", Name: "web-1"})
	fmt.Println(web.Name, ok)
	for p := range pods.Snapshot().All() {
		fmt.Println(p.Namespace, p.Name)
	}

	cancel()
	fmt.Println(<-ended)
	// Output:
	// web-1 true
	// bank db-1
	// shop web-1
	// shop web-2
	// <nil>
}

// A handler receives the objects that are already cached, and then every
// change.
func ExampleInformer_Handle() {
	clientset := fake.NewClientset(node("a"), node("b"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	nodes := informer.For(clientset.CoreV1().Nodes(), nil)
	remove := nodes.Handle(func(e informer.Event[*corev1.Node]) {
		fmt.Println(e.Type, e.New.Name, e.Initial)
	})
	defer remove()
	ended := make(chan error)
	go func() { ended <- nodes.Run(ctx) }()
	if err := nodes.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// added a true
	// added b true
	// <nil>
}

// A snapshot does not change while the cache does, so counting and listing its
// objects gives the same result.
func ExampleSnapshot() {
	clientset := fake.NewClientset(pod("shop", "web-1"), pod("bank", "db-1"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), nil)
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	snapshot := pods.Snapshot()
	fmt.Println(snapshot.Len())
	for p := range snapshot.Namespace("shop") {
		fmt.Println(p.Name)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// 2
	// web-1
	// <nil>
}

// Find objects by a function of them, and by labels.
func ExampleNewIndex() {
	web, db := pod("shop", "web-1"), pod("shop", "db-1")
	web.Spec.NodeName, db.Spec.NodeName = "node-1", "node-2"
	web.Labels = map[string]string{"app": "web"}
	clientset := fake.NewClientset(web, db)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := informer.For(clientset.CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"app"}})
	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for p := range byNode.Get("node-2") {
		fmt.Println("on node-2:", p.Name)
	}
	for p := range pods.Snapshot().Select("shop", labels.SelectorFromSet(labels.Set{"app": "web"})) {
		fmt.Println("web:", p.Name)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// on node-2: db-1
	// web: web-1
	// <nil>
}

// Watch two namespaces with rights in these two alone.
func ExampleForNamespaces() {
	clientset := fake.NewClientset(pod("shop", "web-1"), pod("bank", "db-1"), pod("zoo", "ape-1"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	pods := informer.ForNamespaces(clientset.CoreV1().Pods, &informer.Options{Namespaces: []string{"shop", "bank"}})
	ended := make(chan error)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for p := range pods.Snapshot().All() {
		fmt.Println(p.Namespace, p.Name)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// bank db-1
	// shop web-1
	// <nil>
}

// A kind without Go types.
func ExampleUntyped() {
	widgets := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{widgets: "WidgetList"}, widget("shop", "red"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	in := informer.For(informer.Untyped(client.Resource(widgets)), nil)
	ended := make(chan error)
	go func() { ended <- in.Run(ctx) }()
	if err := in.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for w := range in.Snapshot().Namespace("shop") {
		fmt.Println(in.Kind(), w.GetName())
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// Widget red
	// <nil>
}

// Two caches of one kind with different selectors have names, so that logs,
// metrics and the causes of a reconcile tell them apart.
func ExampleFor_twoOfOneKind() {
	labelled := func(name, role string) *corev1.Pod {
		p := pod("shop", name)
		p.Labels = map[string]string{"role": role}
		return p
	}
	clientset := fake.NewClientset(labelled("primary", "source"), labelled("replica-1", "copy"), labelled("replica-2", "copy"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	sources := informer.For(clientset.CoreV1().Pods(""), &informer.Options{Name: "sources", LabelSelector: "role=source"})
	copies := informer.For(clientset.CoreV1().Pods(""), &informer.Options{Name: "copies", LabelSelector: "role=copy"})
	for _, in := range []*informer.Informer[*corev1.Pod]{sources, copies} {
		go func() { _ = in.Run(ctx) }() // a controller does this
		if err := in.WaitForSync(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Println(in.Kind(), in.Name(), in.Snapshot().Len())
	}
	// Output:
	// Pod sources 1
	// Pod copies 2
}

// A cache of metadata only, for a controller that needs the labels of many
// large objects.
func ExampleUntyped_metadata() {
	scheme := runtime.NewScheme()
	_ = metav1.AddMetaToScheme(scheme)
	client := metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	in := informer.For(informer.Untyped(client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))), nil)
	ended := make(chan error)
	go func() { ended <- in.Run(ctx) }()
	if err := in.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	for p := range in.Snapshot().All() { // a *metav1.PartialObjectMetadata
		fmt.Println(p.Namespace, p.Name, p.Labels["app"])
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// shop web-1 web
	// <nil>
}
