package reconciletest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// deaf does not notice that its leadership has ended, and writes.
func deaf(replica int) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if p.Annotations["by"] != "" {
			return nil
		}
		return b.Annotate(context.WithoutCancel(ctx), p, "by", strconv.Itoa(replica))
	}
}

// handOver is long enough for another replica to take the Lease.
const handOver = 30 * time.Second

func TestTwoReplicasHandOver(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run, c.Replicas = breeding.Led(true, breeding.Right), 2
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: time.Second, Rest: handOver})
	t.Log(report)
	g.Expect(report.Failure).To(gomega.BeEmpty())
	g.Expect(report.Runs).To(gomega.BeNumerically(">", 2))
}

func TestZombieWriteIsFound(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = func(env *reconciletest.Env) error { return breeding.Led(false, deaf(env.Replica()))(env) }
	c.Replicas, c.Goal, c.Ignore = 2, nil, []string{"metadata.annotations.by"}
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: breeding.Budget, Rest: handOver})
	t.Logf("%d runs\n%s", report.Runs, report.Failure)
	g.Expect(report.Failure).To(gomega.ContainSubstring("the holder of the Lease is"))
	g.Expect(report.Reason).To(gomega.Equal("not-leader"))
}
