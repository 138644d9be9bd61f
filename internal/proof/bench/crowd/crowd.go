// Package crowd fills an API server with as many objects as a reported cluster
// had, in which an operator was killed because of its memory use. It also reads
// from /proc how much memory and processor time a process uses.
//
// https://github.com/k8ssandra/cass-operator/issues/947
package crowd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

// These are the numbers of objects in the cluster.
const (
	Namespaces = 286
	Nodes      = 100
	Pods       = 6554
	ConfigMaps = 2845
	Services   = 2561
	Events     = 27_000
	// Secrets is the number of Secrets. The first SmallSecrets of them have 4 KB
	// each, and the others 500 KB.
	Secrets      = 5000
	SmallSecrets = 4600
)

const (
	writers  = 16
	attempts = 10 // the number of attempts to create an object
)

// Namespace returns the name of the namespace of object n.
func Namespace(n int) string { return fmt.Sprintf("tenant-%03d", n%Namespaces) }

// Share is the fraction of the Pods and Events to create. For example, 0.1
// creates the first tenth of them.
type Share struct{ Pods, Events float64 }

// Fill creates the namespaces, the nodes and their objects. It skips objects
// that exist.
func Fill(ctx context.Context, client kubernetes.Interface, share Share) error {
	core := client.CoreV1()
	kinds := []struct {
		count  int
		create func(ctx context.Context, n int) error
	}{
		{Namespaces, func(ctx context.Context, n int) error {
			object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace(n)}}
			_, err := core.Namespaces().Create(ctx, object, metav1.CreateOptions{})
			return err
		}},
		{Nodes, func(ctx context.Context, n int) error {
			_, err := core.Nodes().Create(ctx, node(n), metav1.CreateOptions{})
			return err
		}},
		{Secrets, func(ctx context.Context, n int) error {
			bytes := 4 << 10
			if n >= SmallSecrets {
				bytes = 500 << 10
			}
			object := &corev1.Secret{ObjectMeta: named("s-", n), Data: map[string][]byte{"v": Noise(bytes)}}
			_, err := core.Secrets(Namespace(n)).Create(ctx, object, metav1.CreateOptions{})
			return err
		}},
		{ConfigMaps, func(ctx context.Context, n int) error {
			object := &corev1.ConfigMap{ObjectMeta: named("c-", n), BinaryData: map[string][]byte{"v": Noise(4 << 10)}}
			_, err := core.ConfigMaps(Namespace(n)).Create(ctx, object, metav1.CreateOptions{})
			return err
		}},
		{Services, func(ctx context.Context, n int) error {
			spec := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}
			object := &corev1.Service{ObjectMeta: named("v-", n), Spec: spec}
			_, err := core.Services(Namespace(n)).Create(ctx, object, metav1.CreateOptions{})
			return err
		}},
		{int(Pods * share.Pods), func(ctx context.Context, n int) error { return createPod(ctx, client, n) }},
		{int(Events * share.Events), func(ctx context.Context, n int) error {
			_, err := core.Events(Namespace(n)).Create(ctx, event(n), metav1.CreateOptions{})
			return err
		}},
	}
	for _, k := range kinds {
		if err := ForEach(ctx, k.count, k.create); err != nil {
			return err
		}
	}
	return nil
}

func named(prefix string, n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: fmt.Sprint(prefix, n)}
}

// node returns a node that is ready. The server keeps the status of a new node.
func node(n int) *corev1.Node {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: load.Node(n)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}},
	}
}

// createPod creates Pod n with the status that a kubelet writes.
func createPod(ctx context.Context, client kubernetes.Interface, n int) error {
	p := load.Plain(n)
	p.Namespace, p.UID, p.ResourceVersion, p.Generation, p.ManagedFields = Namespace(n), "", "", 0, nil
	p.Spec.NodeName = load.Node(n % Nodes)
	status := p.Status
	pods := client.CoreV1().Pods(p.Namespace)
	created, err := pods.Create(ctx, p, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		created, err = pods.Get(ctx, p.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	created.Status = status
	_, err = pods.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	return err
}

func event(n int) *corev1.Event {
	return &corev1.Event{
		ObjectMeta:     named("e-", n),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: Namespace(n), Name: fmt.Sprint("p-", n)},
		Reason:         "Unhealthy", Type: "Warning",
		Message: "Readiness probe failed: HTTP probe failed with statuscode: 503",
	}
}

// Noise returns random bytes. They differ from call to call.
func Noise(bytes int) []byte {
	data := make([]byte, bytes)
	for i := range data {
		data[i] = byte(rand.IntN(256))
	}
	return data
}

// ForEach calls do with all numbers below n, several of them at the same time.
// It repeats a call that fails, because etcd is too slow at times on a busy
// machine. If a call fails again and again, ForEach starts no further calls,
// and returns the error. It is not an error if an object already exists.
func ForEach(ctx context.Context, n int, do func(ctx context.Context, n int) error) error {
	var doing sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range writers {
		doing.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := retry(ctx, i, do); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	doing.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func retry(ctx context.Context, n int, do func(ctx context.Context, n int) error) (err error) {
	for range attempts {
		if err = do(ctx, n); err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return err
}
