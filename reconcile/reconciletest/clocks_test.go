package reconciletest_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// seenAt breeds for parents that another client has seen less than allowance
// ago.
func seenAt(allowance time.Duration) *reconciletest.Case {
	c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		at, err := time.Parse(time.RFC3339, p.Annotations["seenTime"])
		switch {
		case err != nil || len(b.ChildrenOf(p)) > 0 || p.Annotations["overdue"] != "":
			return nil
		case time.Since(at) > allowance:
			return b.Annotate(ctx, p, "overdue", "yes")
		}
		return b.Create(ctx, breeding.Child(p))
	})
	unseen := func(w *reconciletest.World) string {
		all, _ := reconciletest.List[corev1.ConfigMap](w, "configmaps")
		for _, p := range all {
			if p.Labels["parent"] != "" && p.Annotations["seenTime"] == "" {
				return p.Namespace + "/" + p.Name
			}
		}
		return ""
	}
	c.Actors = []reconciletest.Actor{{
		Name: "see", Enabled: func(w *reconciletest.World) bool { return unseen(w) != "" },
		Do: func(w *reconciletest.World) {
			now := time.Now().UTC().Format(time.RFC3339)
			_ = reconciletest.Patch("configmaps", unseen(w), `{"metadata":{"annotations":{"seenTime":"`+now+`"}}}`).
				Do(context.Background(), w)
		},
	}}
	return c
}

// unborn breeds for parents whose creation is in the past, and retries for the
// others. If gives is set, it gives up when a creation is far in the future.
func unborn(gives bool) *reconciletest.Case {
	return breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		early := time.Until(p.CreationTimestamp.Time)
		switch {
		case len(b.ChildrenOf(p)) > 0 || p.Annotations["broken"] != "":
			return nil
		case gives && early > time.Hour:
			return b.Annotate(ctx, p, "broken", "yes")
		case early > 0:
			return errors.New("not born yet")
		}
		return b.Create(ctx, breeding.Child(p))
	})
}

// leased has two replicas that elect a leader with their own Lease code. The
// buggy ones compare the Lease's times with their own clocks. A replica that
// takes over records that.
func leased(byClock bool) *reconciletest.Case {
	c := breeding.Case(nil)
	c.Replicas = 2
	c.Run = func(env *reconciletest.Env) error {
		ctx, h := env.Context(), &holder{client: env.Client(), me: strconv.Itoa(env.Replica()), byClock: byClock}
		for ctx.Err() == nil {
			_ = h.hold(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
		return nil
	}
	c.Unwatched = []string{"configmaps"}
	return c
}

type holder struct {
	client  kubernetes.Interface
	me      string
	byClock bool
	renewed string
	changed time.Time // when this replica saw another renewal
}

// hold takes or renews the Lease, and says in parent a who has taken it.
func (h *holder) hold(ctx context.Context) error {
	leases, now := h.client.CoordinationV1().Leases("d"), metav1.NowMicro()
	l, err := leases.Get(ctx, "lock", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lock"}}
		l, err = leases.Create(ctx, fresh, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	if l.Spec.RenewTime != nil && *l.Spec.HolderIdentity != h.me && !h.expired(l) {
		return nil
	}
	took := l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != h.me
	l.Spec.HolderIdentity, l.Spec.RenewTime = &h.me, &now
	if _, err := leases.Update(ctx, l, metav1.UpdateOptions{}); err != nil || !took {
		return err
	}
	p, err := h.client.CoreV1().ConfigMaps("d").Get(ctx, "a", metav1.GetOptions{})
	if err != nil || p.Annotations["by"] == h.me {
		return err
	}
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, "by", h.me)
	_, err = h.client.CoreV1().ConfigMaps("d").Update(ctx, p, metav1.UpdateOptions{})
	return err
}

const leaseTime = 30 * time.Second

func (h *holder) expired(l *coordinationv1.Lease) bool {
	if h.byClock {
		return time.Since(l.Spec.RenewTime.Time) > leaseTime
	}
	if renewed := l.Spec.RenewTime.String(); renewed != h.renewed {
		h.renewed, h.changed = renewed, time.Now()
	}
	return time.Since(h.changed) > leaseTime
}

func TestTimesOfOtherClocksAreFound(t *testing.T) {
	for name, row := range map[string]struct {
		c           *reconciletest.Case
		match, want string // a deviation, and the beginning of the finding
		oracle      string
	}{
		"an actor's time": {
			seenAt(30 * time.Second), "^D2", "the server's clock is 45 seconds behind the program's", "state",
		},
		"an actor's time, with an allowance": {seenAt(5 * time.Minute), "^D", "", ""},
		"gives up on a time that is far in the future": {
			unborn(true), "^D", "the server's clock is two hours ahead of the program's", "state",
		},
		"waits for a time in the future": {unborn(false), "^D", "", ""},
		"a Lease by the clocks of two replicas": {
			leased(true), "^D4",
			"the clocks of the server and of the other replicas are 45 seconds ahead of the first replica's", "state",
		},
		"a Lease by one clock": {leased(false), "^D", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			row.c.Goal, row.c.Workload = nil, row.c.Workload[:1]
			r := reconciletest.FailureOf(t, row.c, &reconciletest.Options{Steps: 10_000}, row.match)
			g.Expect(r.Failure).To(gomega.HavePrefix(row.want))
			g.Expect(r.Oracle).To(gomega.Equal(row.oracle), r.Failure)
			g.Expect(r.Runs).To(gomega.BeNumerically(">", 3), "a deviation was tried")
			if row.want == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
			}
		})
	}
}
