package fakes_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// The second of two clients that have read the same object overwrites nothing.
func ExampleFaithful() {
	ctx := context.Background()
	client := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "home"}})
	if err := fakes.Faithful(client); err != nil {
		fmt.Println(err)
		return
	}
	maps := client.CoreV1().ConfigMaps("shop")
	one, _ := maps.Get(ctx, "home", metav1.GetOptions{})
	other := one.DeepCopy()
	one.Data = map[string]string{"colour": "red"}
	_, err := maps.Update(ctx, one, metav1.UpdateOptions{})
	fmt.Println(err)
	_, err = maps.Update(ctx, other, metav1.UpdateOptions{})
	fmt.Println(apierrors.IsConflict(err))
	// Output:
	// <nil>
	// true
}
