package names_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
)

// The outputs themselves name the object for which they were made: no inventory
// is needed. This is for outputs that owner references cannot tie to their
// input, such as the outputs of an input that opted out but still exists.
func ExampleObjects() {
	mark := map[string]string{"example.com/for": "web"}
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings-of-web", Annotations: mark}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "not-ours"}},
	)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	outputs := informer.For(client.CoreV1().ConfigMaps(""), nil)
	ended := make(chan error)
	go func() { ended <- outputs.Run(ctx) }()

	known := names.Objects(outputs, func(m *corev1.ConfigMap) (names.Name, bool) { // reconcile.Options.Known
		input, ok := m.Annotations["example.com/for"]
		return names.Name{Key: types.NamespacedName{Namespace: m.Namespace, Name: input}}, ok
	})
	all, err := known.Names(ctx)
	for _, name := range all {
		fmt.Println(name.Key)
	}
	fmt.Println(err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// shop/web
	// <nil>
	// <nil>
}

// A reconciler asks the server before it deletes what cannot be restored: a
// cache may be behind.
func ExampleLive() {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	services := fake.NewClientset(service).CoreV1().Services("shop")
	for _, name := range []string{"web", "deleted"} {
		_, ok, err := names.Live(context.Background(), services, name)
		fmt.Println(name, ok, err)
	}
	// Output:
	// web true <nil>
	// deleted false <nil>
}
