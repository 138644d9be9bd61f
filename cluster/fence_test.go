package cluster_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/reconcile"
)

// A fence may be put around the config of a cluster, or a cluster around a
// fenced config. Writes are fenced and seen in both cases.
func TestAFenceAndAClusterComposeInEitherOrder(t *testing.T) {
	for _, fenceOutside := range []bool{false, true} {
		inFixture(t, true, nil, func(x *fixture) {
			elector, err := leader.New(leader.Lease{
				Client: x.admin.CoordinationV1(), Namespace: "d", Name: "l", Identity: "me",
			}, nil)
			x.Expect(err).NotTo(HaveOccurred())
			inner := x.config
			if !fenceOutside {
				inner = elector.Fence(inner)
			}
			c, err := cluster.New(inner, nil)
			x.Expect(err).NotTo(HaveOccurred())
			outer := c.Config()
			if fenceOutside {
				outer = elector.Fence(outer)
			}
			x.generated = kubernetes.NewForConfigOrDie(outer)
			create := func(ctx context.Context) error {
				_, err := x.generated.CoreV1().Secrets("d").Create(ctx,
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}, metav1.CreateOptions{})
				return err
			}
			x.Expect(create(x.t.Context())).To(MatchError(leader.ErrFenced), "not leading yet")
			in := x.secrets(nil)
			acts := 0
			x.run(&reconcile.Options{Triggers: ofSecrets(in), Leader: elector}, func(ctx context.Context) error {
				if in.Snapshot().Len() > 0 {
					return nil
				}
				acts++
				return create(ctx)
			})
			x.Expect(acts).To(Equal(1))
			x.Expect(create(x.t.Context())).To(MatchError(leader.ErrFenced), "not leading any more")
		})
	}
}

// A fence below refuses the write before it is sent. If the write might have
// been sent, the key would wait for it for five seconds.
func TestAWriteThatAFenceRefusesDelaysNoKey(t *testing.T) {
	inFixture(t, true, nil, func(x *fixture) {
		elector, err := leader.New(leader.Lease{
			Client: x.admin.CoordinationV1(), Namespace: "d", Name: "l", Identity: "me",
		}, nil)
		x.Expect(err).NotTo(HaveOccurred())
		c, err := cluster.New(elector.Fence(x.config), nil)
		x.Expect(err).NotTo(HaveOccurred())
		x.generated = kubernetes.NewForConfigOrDie(c.Config())
		in := x.secrets(nil)
		n := reconciles(x, in, func(ctx context.Context) error {
			x.createSecret("other", nil)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{GenerateName: "s-"}}
			_, err := x.generated.CoreV1().Secrets("d").Create(ctx, secret, metav1.CreateOptions{})
			x.Expect(err).To(MatchError(leader.ErrFenced))
			return nil
		})
		x.Expect(n).To(BeNumerically(">=", 59))
	})
}
