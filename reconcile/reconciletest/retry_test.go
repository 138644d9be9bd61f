package reconciletest_test

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// hasty turns off the retries of its client, and tries again at once. With a
// generated name, the second attempt may create another child.
func hasty(generated bool) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) > 0 {
			return nil
		}
		s := breeding.Child(p)
		if generated {
			s.Name, s.GenerateName = "", p.Name+"-"
		}
		var err error
		for range 2 {
			err = b.Client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("secrets").Body(s).MaxRetries(0).
				Do(ctx).Error()
			if !apierrors.IsTooManyRequests(err) {
				break
			}
		}
		return err
	}
}

// Clients of client-go wait by themselves. There is no finding for right, which
// does not change that.
func TestAProgramThatDoesNotWaitAsToldIsFound(t *testing.T) {
	for _, b := range []struct {
		name, want string
		breed      breeding.Breed
	}{
		{"hasty", "(429, Retry-After: 1s): after 0s it repeats: create secrets d/a-child", hasty(false)},
		{"hasty, perhaps", "", hasty(true)},
		{"right", "", breeding.Right},
	} {
		t.Run(b.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(b.breed)
			c.Workload, c.Goal = nil, nil
			lines, found := reconciletest.TraceOf(t, c, nil, "c6.429")
			g.Expect(lines).To(gomega.ContainElement(gomega.ContainSubstring("create secrets")))
			g.Expect(lines).To(gomega.ContainElement(gomega.HaveSuffix("<<< 429")))
			if b.want == "" {
				g.Expect(found).To(gomega.BeEmpty())
			} else {
				g.Expect(found).To(gomega.ContainSubstring(b.want))
			}
		})
	}
}
