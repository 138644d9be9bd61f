package informer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer"
)

// A lender retains the objects that it returns.
type lender struct {
	informer.Client[*corev1.ConfigMap, *corev1.ConfigMapList]
	list *corev1.ConfigMapList
	live *watch.FakeWatcher
}

func (l lender) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return l.list, nil
}

func (l lender) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return l.live, nil
}

func (lender) IsWatchListSemanticsUnSupported() bool { return true }

func lent(name string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
	c.Namespace, c.Name, c.UID, c.ResourceVersion = "d", name, "1", "1"
	c.ManagedFields = make([]metav1.ManagedFieldsEntry, 1, 100) // sharing clips the spare capacity
	return c
}

// Neither sharing nor an option writes to an object that a client may still
// hold.
func TestObjectsOfOtherClientsAreNotWrittenTo(t *testing.T) {
	g := NewWithT(t)
	listed, watched := lent("listed"), lent("watched")
	l := lender{
		list: &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.ConfigMap{*listed}},
		live: watch.NewFake(),
	}
	in := informer.For[*corev1.ConfigMap](l, &informer.Options{
		Transform: func(o informer.Object) { o.SetLabels(map[string]string{"edited": "yes"}) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	l.live.Add(watched)
	g.Eventually(func() int { return in.Snapshot().Len() }, time.Minute).Should(Equal(2))
	cancel()
	g.Expect(<-ended).To(Succeed())
	for cached := range in.Snapshot().All() {
		g.Expect(cached.Labels).To(HaveKey("edited"))
	}
	for _, own := range []*corev1.ConfigMap{&l.list.Items[0], watched} {
		g.Expect(own.Labels).To(BeEmpty())
		g.Expect(own.ManagedFields).To(HaveCap(100))
	}
}

type podLender struct {
	informer.Client[*corev1.Pod, *corev1.PodList]
	live *watch.FakeWatcher
}

func (podLender) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (l podLender) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return l.live, nil
}

func (podLender) IsWatchListSemanticsUnSupported() bool { return true }

func limited(n, version int) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			SizeLimit: resource.NewQuantity(1<<30, resource.BinarySI), // the quantity has not cached its text yet
		}},
	}}}}
	p.Spec.Overhead = corev1.ResourceList{"memory": resource.MustParse("100000000000000000000000")}
	p.Namespace, p.Name, p.UID, p.ResourceVersion = "d", fmt.Sprint("p-", n), "1", fmt.Sprint(version)
	return p
}

// readAll reads a Pod in the ways that write to a quantity.
func readAll(p *corev1.Pod) error {
	_ = p.Spec.Volumes[0].EmptyDir.SizeLimit.String()
	_ = p.DeepCopy()
	if _, err := p.Marshal(); err != nil {
		return fmt.Errorf("encoding in protobuf: %w", err)
	}
	_, err := json.Marshal(p)
	return err
}

// Each state of each Pod is read by its own goroutine, while other Pods are
// shared, updated, measured and checked for mutations. The race detector finds
// conflicts.
func TestReadersOfDifferentPodsDoNotMeet(t *testing.T) {
	const pods, rounds = 6, 10
	g := NewWithT(t)
	client := podLender{live: watch.NewFake()}
	in := informer.For[*corev1.Pod](client, &informer.Options{MutationCheck: "always"})
	var readers sync.WaitGroup
	faults := make(chan error, pods*rounds)
	read := make(chan struct{}, pods*rounds)
	in.Handle(func(e informer.Event[*corev1.Pod]) {
		readers.Go(func() { faults <- readAll(e.New) })
		read <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	for round := range rounds {
		for n := range pods {
			if round == 0 {
				client.live.Add(limited(n, n+10))
			} else {
				client.live.Modify(limited(n, (round+1)*100+n))
			}
			<-read
		}
		_ = in.Status()
		g.Expect(in.CheckMutations()).To(Succeed())
	}
	readers.Wait()
	cancel()
	g.Expect(<-ended).To(Succeed())
	close(faults)
	for err := range faults {
		g.Expect(err).NotTo(HaveOccurred())
	}
}
