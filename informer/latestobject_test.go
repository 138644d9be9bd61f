package informer_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// waitFor waits for the latest state of one node and returns how long that took.
func (w *latestWorld) waitFor(name string) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.Expect(w.nodes.WaitForObject(w.t.Context(), types.NamespacedName{Name: name})).To(Succeed())
	return time.Since(began)
}

func TestTheLatestStateOfOneObjectDoesNotWaitForOthers(t *testing.T) {
	const late = 3 * time.Second
	for name, change := range map[string]func(*latestWorld){
		"something new": func(w *latestWorld) { w.create("n") },
		"a change":      func(w *latestWorld) { w.label("n") },
		"a departure":   func(w *latestWorld) { w.remove("n") },
		"a replacement": func(w *latestWorld) { w.remove("n"); w.create("n") },
	} {
		t.Run(name, func(t *testing.T) {
			inLatestWorld(t, late, 3, func(w *latestWorld) {
				if name != "something new" {
					w.create("n")
					<-time.After(2 * late)
				}
				change(w)
				w.Expect(w.waitFor("n0001")).To(BeZero(), "another object")
				w.Expect(w.waitFor("none")).To(BeZero(), "no object")
				w.Expect(w.waitFor("n")).To(And(BeNumerically(">", late/2), BeNumerically("<", 3*late)))
				cached, there := w.nodes.Get(types.NamespacedName{Name: "n"})
				now, err := w.other.Get(w.t.Context(), "n", metav1.GetOptions{})
				w.Expect(there).To(Equal(err == nil))
				if there {
					w.Expect(cached.ResourceVersion).To(Equal(now.ResourceVersion))
				}
				w.Expect(w.client.lists.Load()).To(Equal(int64(3)), "one request for each")
			})
		})
	}
}

func TestTheLatestStateOfAnObjectOutOfScopeIsThatThereIsNone(t *testing.T) {
	inLatestWorld(t, 3*time.Second, 1, func(w *latestWorld) {
		w.nodes = informer.For(w.client, &informer.Options{LabelSelector: "new!=yes", FieldSelector: "metadata.name!=x"})
		stop := running(w.t.Context(), w.nodes)
		defer stop()
		w.Expect(w.nodes.WaitForSync(w.t.Context())).To(Succeed())
		w.label("n0000")
		w.waitFor("n0000")
		w.Expect(w.nodes.Snapshot().Len()).To(BeZero())
	})
}

func TestTheLatestStateOfOneObjectRepeatsRequestsThatFail(t *testing.T) {
	inLatestWorld(t, 0, 3, func(w *latestWorld) {
		w.client.faulty.Store(2)
		w.waitFor("n0001")
		w.Expect(w.client.lists.Load()).To(Equal(int64(3)))
		w.client.faulty.Store(1000)
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		w.Expect(w.nodes.WaitForObject(ctx, types.NamespacedName{Name: "n0001"})).
			To(MatchError(And(ContainSubstring("no list today"), ContainSubstring("deadline exceeded"))))
	})
}

func TestTheLatestStateOfAnObjectOfAFake(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	nodes := informer.For(client.CoreV1().Nodes(), nil)
	defer running(t.Context(), nodes)()
	g.Expect(nodes.WaitForObject(t.Context(), types.NamespacedName{Name: "a"})).To(Succeed())
	g.Expect(nodes.WaitForObject(t.Context(), types.NamespacedName{Namespace: "d", Name: "a"})).To(Succeed())
}
