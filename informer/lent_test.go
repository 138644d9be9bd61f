package informer_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
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
	c.ManagedFields = make([]metav1.ManagedFieldsEntry, 1, 100) // which sharing clips
	return c
}

// What a client may still hold, neither sharing nor an option writes to.
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
