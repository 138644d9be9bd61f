//go:build e2e

package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// On a real server, with a cache that is half a second late: five ConfigMaps,
// each of which wants exactly one Secret of a generated name and is touched all
// the time.
func TestE2EAControllerReadsItsOwnWrites(t *testing.T) {
	g := NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	client, err := kubernetes.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())

	for name, c := range map[string]struct {
		report  func(context.Context, metav1.Object)
		secrets types.GomegaMatcher // in all
	}{
		"with the report":    {reconcile.Wrote, Equal(5)},
		"without the report": {func(context.Context, metav1.Object) {}, BeNumerically(">", 5)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace, err := cluster.Namespace(t.Context(), "freshness")
			g.Expect(err).NotTo(HaveOccurred())
			made := secretsOfTouchedMaps(t, client, namespace, c.report)
			g.Expect(made).To(HaveLen(5))
			all := 0
			for _, n := range made {
				all += n
			}
			g.Expect(all).To(c.secrets)
		})
	}
}

// secretsOfTouchedMaps runs the controller and returns how many Secrets each
// ConfigMap has got.
func secretsOfTouchedMaps(
	t *testing.T, client kubernetes.Interface, namespace string, report func(context.Context, metav1.Object),
) map[string]int {
	t.Helper()
	g := NewWithT(t)
	maps, secrets := client.CoreV1().ConfigMaps(namespace), client.CoreV1().Secrets(namespace)
	late := informer.For(lateSecrets{secrets, time.Second / 2}, nil)
	c, err := reconcile.New("test", informer.For(maps, &informer.Options{LabelSelector: "mine"}),
		reconcile.Func[*configMap](func(ctx context.Context, r request) (reconcile.Result, error) {
			for s := range late.Snapshot().All() {
				if s.Labels["of"] == r.Key.Name {
					return nothing, nil
				}
			}
			s, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				GenerateName: r.Key.Name + "-", Labels: map[string]string{"of": r.Key.Name},
			}}, metav1.CreateOptions{})
			if err == nil {
				report(ctx, s)
			}
			return nothing, err
		}), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Owned(late)}})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()

	g.Eventually(c.Phase, time.Minute).Should(Equal(inspect.Working))
	for round := range 20 {
		for i := range 5 {
			object := &configMap{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"mine": "yes"},
			}, Data: map[string]string{"round": fmt.Sprint(round)}}
			if round == 0 {
				_, err = maps.Create(ctx, object, metav1.CreateOptions{})
			} else {
				_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
			}
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	made := func() map[string]int {
		list, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: "of"})
		g.Expect(err).NotTo(HaveOccurred())
		each := map[string]int{}
		for _, s := range list.Items {
			each[s.Labels["of"]]++
		}
		return each
	}
	g.Eventually(made, time.Minute).Should(HaveLen(5))
	g.Eventually(func() int { return len(c.Status(10).Keys) }, time.Minute).Should(BeZero(), "nothing waits")
	stop()
	g.Expect(<-ended).To(Succeed())
	ctx = t.Context()
	return made()
}
