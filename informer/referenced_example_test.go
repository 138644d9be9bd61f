package informer_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// A controller of ConfigMaps, each of which names a Secret: only those Secrets
// are cached.
func ExampleReferenced() {
	clientset := fake.NewClientset(
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: map[string]string{"secret": "password"},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "password"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "somebody-else's"}},
	)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	secretOf := func(m *corev1.ConfigMap) reconcile.Key {
		return reconcile.Key{Namespace: m.Namespace, Name: m.Data["secret"]}
	}
	secrets := informer.Referenced(clientset.CoreV1().Secrets, nil)
	type request = reconcile.Request[*corev1.ConfigMap]
	c, err := reconcile.New("example", informer.For(clientset.CoreV1().ConfigMaps(""), nil),
		reconcile.Func[*corev1.ConfigMap](func(_ context.Context, r request) (reconcile.Result, error) {
			if m, ok := r.Object(); ok && ctx.Err() == nil {
				_, exists := secrets.Get(secretOf(m))
				fmt.Println(r.Key, "refers to", secretOf(m), "which exists:", exists)
			}
			cancel()
			return reconcile.Result{}, nil
		}), &reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(secrets, func(m *corev1.ConfigMap) []reconcile.Key { return []reconcile.Key{secretOf(m)} }),
		}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Run(ctx))
	// Output:
	// shop/web refers to shop/password which exists: true
	// <nil>
}
