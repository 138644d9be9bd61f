package patch_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile/reconciletest/fakes"
)

// printing is a client that prints what it is asked.
type printing struct{ answer *corev1.Node }

func (p printing) Patch(
	_ context.Context, name string, pt types.PatchType, data []byte, _ metav1.PatchOptions, sub ...string,
) (*corev1.Node, error) {
	fmt.Println(name, sub, pt)
	fmt.Println(string(data))
	return p.answer, nil
}

func exampleNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "1f", ResourceVersion: "42", Labels: map[string]string{"zone": "a"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// The write is conditional on the UID of the object that was read; a lock makes
// it conditional on its resourceVersion, too.
func ExampleMerge() {
	cached := exampleNode()                         // from an informer: shared, never written to
	client := patch.ClusterScoped(printing{cached}) // clientset.CoreV1().Nodes()
	o := &patch.Options{Lock: true}
	_, err := patch.Merge(context.Background(), client, cached, o, func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		delete(n.Labels, "zone")
	})
	fmt.Println(err)
	// Output:
	// n1 [] application/strategic-merge-patch+json
	// {"metadata":{"resourceVersion":"42","uid":"1f","labels":{"zone":null}},"spec":{"unschedulable":true}}
	// <nil>
}

// An edit that changes nothing sends nothing, so it may be repeated in every
// reconcile.
func ExampleMerge_unchanged() {
	cached := exampleNode()
	got, err := patch.Merge(context.Background(), patch.ClusterScoped(printing{}), cached, nil, func(n *corev1.Node) {
		n.Labels["zone"] = "a"
	})
	fmt.Println(got == cached, err)
	// Output: true <nil>
}

// Conditions are merged by their type, so conditions of other clients are not
// mentioned.
func ExampleStatus() {
	cached := exampleNode()
	_, err := patch.Status(context.Background(), patch.ClusterScoped(printing{cached}), cached, nil, func(n *corev1.Node) {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: "Rebooted", Status: corev1.ConditionTrue, Reason: "Asked",
		})
	})
	fmt.Println(err)
	// Output:
	// n1 [status] application/strategic-merge-patch+json
	// {"metadata":{"uid":"1f"},"status":{"conditions":[{"type":"Rebooted","status":"True","lastHeartbeatTime":null,"lastTransitionTime":null,"reason":"Asked"}]}}
	// <nil>
}

// The same function creates the object and keeps it right.
func ExampleEnsure() {
	ctx, client := context.Background(), fake.NewClientset().CoreV1().ConfigMaps
	base := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "settings"}} // or the cached one
	for _, color := range []string{"red", "green"} {
		got, err := patch.Ensure(ctx, client, base, nil, func(m *corev1.ConfigMap) {
			m.Data = map[string]string{"color": color}
		})
		fmt.Println(got.Data, err)
	}
	// Output:
	// map[color:red] <nil>
	// map[color:green] <nil>
}

// An object that is already deleted is not an error.
func ExampleDelete() {
	ctx, client := context.Background(), fake.NewClientset(exampleNode()).CoreV1()
	for range 2 {
		fmt.Println(patch.Delete(ctx, patch.ClusterScoped(client.Nodes()), exampleNode(), nil))
	}
	// Output:
	// <nil>
	// <nil>
}

// The Applier takes the client, as all functions do.
func ExampleApplier() {
	applier := patch.NewApplier(patch.ClusterScoped(fake.NewClientset().CoreV1().Nodes()))
	config := corev1apply.Node("n1").WithLabels(map[string]string{"zone": "b"})
	got, err := applier.Apply(context.Background(), nil, nil, config)
	fmt.Println(got.Labels, err)
	// Output: map[zone:b] <nil>
}

// A request is not repeated until the Applier forgets it, for example because
// the object was deleted.
func ExampleApplier_Forget() {
	client := fake.NewClientset()
	if err := fakes.Faithful(client); err != nil { // with UIDs and resourceVersions
		fmt.Println(err)
		return
	}
	applier := patch.NewApplier(client.CoreV1().ConfigMaps)
	config := corev1apply.ConfigMap("site", "default").WithData(map[string]string{"host": "shop.example"})
	cached, err := applier.Apply(context.Background(), nil, nil, config)
	for range 2 {
		fmt.Println(len(client.Actions()), err)
		cached, err = applier.Apply(context.Background(), cached, nil, config)
	}
	applier.Forget(types.NamespacedName{Namespace: "default", Name: "site"})
	_, err = applier.Apply(context.Background(), cached, nil, config)
	fmt.Println(len(client.Actions()), err)
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 2 <nil>
}

// A refused lock is no failure: return the error, and the next reconcile sees
// the newest object.
func ExampleIsStale() {
	err := fmt.Errorf("rebooting: %w", apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", nil))
	fmt.Println(patch.IsStale(err))
	// Output: true
}

// Values of Secrets do not show.
func ExampleDiff() {
	before := &corev1.Secret{Data: map[string][]byte{"password": []byte("old")}}
	after := before.DeepCopy()
	after.Labels = map[string]string{"rotated": "true"}
	after.Data["password"] = []byte("new one")
	fmt.Println(patch.Diff(before, after))
	// Output:
	// data.password: (6 bytes) → (14 bytes)
	// metadata.labels.rotated: none → "true"
}

// A reconciler guards an object before it creates something for it outside the
// cluster.
func ExampleFinalizer() {
	ctx := context.Background()
	disk := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "disk"}}
	client := fake.NewClientset(disk)
	finalizer := patch.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: "example.com/disk", Client: client.CoreV1().ConfigMaps,
		Clean: func(_ context.Context, disk *corev1.ConfigMap) error {
			fmt.Println("wiping", disk.Name)
			return nil
		},
	}
	live, disk, err := finalizer.Guard(ctx, disk)
	fmt.Println(live, disk.Finalizers, err)
	now := metav1.Now()
	disk.DeletionTimestamp = &now // as the cache has it once it is being deleted
	live, disk, err = finalizer.Guard(ctx, disk)
	fmt.Println(live, disk.Finalizers, err)
	// Output:
	// true [example.com/disk] <nil>
	// wiping disk
	// false [] <nil>
}

// An object of another controller is not written, and the error names its
// owner.
func ExampleForeignError() {
	ctx := context.Background()
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "settings", UID: "1", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "2"}}, corev1.SchemeGroupVersion.WithKind("Node")),
	}}}
	_, err := patch.Ensure(ctx, fake.NewClientset(theirs).CoreV1().ConfigMaps, theirs, nil, func(m *corev1.ConfigMap) {
		m.Data = map[string]string{"a": "b"}
	})
	fmt.Println(errors.Is(err, patch.ErrForeign))
	if foreign, ok := errors.AsType[*patch.ForeignError](err); ok {
		fmt.Println(foreign.Kind, foreign.Key, "belongs to", foreign.Owner)
	}
	// Output:
	// true
	// ConfigMap d/settings belongs to Node "n1"
}
