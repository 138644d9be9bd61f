// Package loop_test measures a controller's loop, from the event to the end of
// the reconcile, beside controller-runtime and a loop written with client-go
// alone.
package loop_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

type key = types.NamespacedName

// memory is an API server without network and decoding, so that only the loops
// are measured, with the same input for all.
type memory struct {
	objects []corev1.ConfigMap
	events  *watch.FakeWatcher
	version int
}

func newMemory(n int) *memory {
	m := &memory{version: n, events: watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: n + 1000})}
	for i := range n {
		m.objects = append(m.objects, *configMap(i, i+1))
	}
	return m
}

func configMap(i, version int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprintf("namespace-%d", i%100), Name: fmt.Sprintf("name-%08d", i),
		UID: types.UID("uid-" + strconv.Itoa(i)), ResourceVersion: strconv.Itoa(version),
		Labels: map[string]string{"app": "bench"},
	}}
}

// update sends a new version of the i-th object.
func (m *memory) update(i int) {
	m.version++
	m.events.Modify(configMap(i, m.version))
}

func (m *memory) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (m *memory) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return &corev1.ConfigMapList{
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(m.version)}, Items: slices.Clone(m.objects),
	}, nil
}

// Watch streams the list first, if requested, as client-go does by default.
func (m *memory) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil && *o.SendInitialEvents {
		for i := range m.objects {
			m.events.Add(&m.objects[i])
		}
		m.events.Action(watch.Bookmark, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(m.version),
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	return m.events, nil
}

// GetClient shows that this is not a fake: the receiver owns its objects, and
// need not copy them.
func (m *memory) GetClient() rest.Interface { return nil }

// GetNamespace shows that all namespaces are read: keys that no object has are
// of deleted objects.
func (m *memory) GetNamespace() string { return "" }

// A listWatch is m for client-go.
type listWatch struct{ *memory }

func (l listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.memory.List(context.Background(), o)
}

func (l listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.memory.Watch(context.Background(), o)
}

// cpu returns the processor time of this process, background work included. It
// is more precise than elapsed time on a shared machine.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
