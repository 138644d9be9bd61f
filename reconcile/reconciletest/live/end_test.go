package live_test

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/live"
)

// parting is the case of a program that writes when it is told to stop, and
// does not wait for the answer.
func parting(made metav1.ObjectMeta) *reconciletest.Case {
	return &reconciletest.Case{Run: func(env *reconciletest.Env) error {
		<-env.Context().Done()
		go func() { _, _ = put(context.WithoutCancel(env.Context()), env.Client(), made) }()
		<-time.After(time.Second) // the write is in flight
		return nil
	}}
}

// A write before the last start is not blamed on that start, even if its answer
// came later.
func TestSmokeBlamesTheStartThatWrote(t *testing.T) {
	smokeIn(t, parting(named("late")), 20*time.Second)
}

// A write at the end of the last start counts and is cleaned up, even if its
// answer arrives later.
func TestSmokeHearsTheLastAnswer(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	made := metav1.ObjectMeta{GenerateName: "n-", Labels: map[string]string{"late": ""}}
	r, err := playedOn(t, func() *fixture { w = newFixture(t); w.slow = late(20 * time.Second); return w }, parting(made), nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(r.Failure).To(gomega.ContainSubstring("all was done, and a restart wrote again: create configmaps default/n-*"))
	g.Expect(w.objects("configmaps")).To(gomega.BeEmpty())
}

// Events are cleaned up as everything else.
func TestSmokeCleansUpEvents(t *testing.T) {
	g := gomega.NewWithT(t)
	var w *fixture
	_, err := playedOn(t, func() *fixture { w = newFixture(t); return w },
		scripted(func(ctx context.Context, client kubernetes.Interface) {
			e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}
			_, err := client.CoreV1().Events("default").Create(ctx, e, metav1.CreateOptions{})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(w.objects("events")).NotTo(gomega.BeEmpty())
		}), nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(w.objects("events")).To(gomega.BeEmpty())
}

// interrupted is a test whose context ends early.
type interrupted struct {
	testing.TB
	ctx context.Context //nolint:containedctx // it is the test's
}

func (t interrupted) Context() context.Context { return t.ctx }

func TestSmokeCleansUpWhenItIsInterrupted(t *testing.T) {
	virtually(t, func(t *testing.T) {
		g, w := gomega.NewWithT(t), newFixture(t).collect(t)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		made := false
		_, err := live.Try(interrupted{t, ctx}, scripted(func(ctx context.Context, client kubernetes.Interface) {
			news, _ := put(ctx, client, named("n"))
			made = made || news
			interrupt()
		}), w.config(), nil)
		g.Expect(err).To(gomega.MatchError("context canceled"), "and there was nothing else")
		g.Expect(made).To(gomega.BeTrue())
		g.Expect(w.objects("configmaps")).To(gomega.BeEmpty())
	})
}
