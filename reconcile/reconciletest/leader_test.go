package reconciletest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// led is a breeder that works while it leads.
func led(fenced bool, t turn) func(env *reconciletest.Env) error {
	return func(env *reconciletest.Env) error {
		elector, err := leader.New(leader.Lease{
			Client: env.Client().CoordinationV1(), Namespace: "d", Name: "breeder", Identity: "r" + strconv.Itoa(env.Replica()),
		}, nil)
		if err != nil {
			return err
		}
		client := env.Client()
		if fenced {
			client = kubernetes.NewForConfigOrDie(elector.Fence(env.Config()))
		}
		parents := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "parent"})
		b := &breeder{client: client, children: informer.For(client.CoreV1().Secrets(""), nil), turn: t}
		c, err := reconcile.New("breeder", parents, b, &reconcile.Options{
			Leader: elector, Triggers: []reconcile.Trigger{reconcile.Owned(b.children)},
		})
		if err != nil {
			return err
		}
		return c.Run(env.Context())
	}
}

// deaf does not hear that its leadership is over, and its write makes a difference.
func deaf(replica int) turn {
	return func(ctx context.Context, b *breeder, p *corev1.ConfigMap) error {
		if p.Annotations["by"] != "" {
			return nil
		}
		return annotate(context.WithoutCancel(ctx), b, p, "by", strconv.Itoa(replica))
	}
}

// handOver is long enough for another replica to take the Lease.
const handOver = 30 * time.Second

func TestTwoReplicasHandOver(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding(nil)
	c.Run, c.Replicas = led(true, right), 2
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: time.Second, Rest: handOver})
	t.Log(report)
	g.Expect(report.Failure).To(gomega.BeEmpty())
	g.Expect(report.Runs).To(gomega.BeNumerically(">", 2))
}

func TestZombieWriteIsFound(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding(nil)
	c.Run = func(env *reconciletest.Env) error { return led(false, deaf(env.Replica()))(env) }
	c.Replicas, c.Goal, c.Ignore = 2, nil, []string{"metadata.annotations.by"}
	report := reconciletest.Search(t, c, &reconciletest.Options{Budget: testBudget, Rest: handOver})
	t.Logf("%d runs\n%s", report.Runs, report.Failure)
	g.Expect(report.Failure).To(gomega.ContainSubstring("the Lease is of"))
}
