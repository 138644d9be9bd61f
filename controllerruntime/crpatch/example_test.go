package crpatch_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/homeostat/homeostat/controllerruntime/crpatch"
	"github.com/homeostat/homeostat/patch"
)

// An edit of a cached object becomes a patch of what differs.
func ExampleOf() {
	ctx := context.Background()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	c := fake.NewClientBuilder().WithObjects(pod).Build() // or mgr.GetClient() and mgr.GetAPIReader()
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		fmt.Println(err)
	}
	written, err := patch.Merge(ctx, crpatch.Of[corev1.Pod](c, c), pod, nil, func(p *corev1.Pod) {
		metav1.SetMetaDataLabel(&p.ObjectMeta, "team", "red")
	})
	fmt.Println(written.Labels, err)
	// Output: map[team:red] <nil>
}

// The client of one namespace, as package patch calls it.
func ExampleClient() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	c := fake.NewClientBuilder().WithObjects(pod).Build()
	pods := crpatch.Of[corev1.Pod](c, c)("shop")
	got, err := pods.Get(context.Background(), "web", metav1.GetOptions{})
	fmt.Println(got.Name, err)
	// Output: web <nil>
}
