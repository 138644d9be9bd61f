//go:build e2e

package cluster_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/reconcile"
)

// This runs the cases of TestEveryWriteIsSeen with a real server, which answers
// generated clients in protobuf, and with a cache that is five seconds late.
func TestE2EEveryWriteIsSeen(t *testing.T) {
	g := NewWithT(t)
	server, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(server.Stop()).To(Succeed()) }()
	t.Run("cases", func(t *testing.T) {
		for name, c := range seenCases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				actOnce(t, server, c)
			})
		}
	})
}

// actOnce runs the controller of a case for longer than the cache is late, and
// expects it to act once.
func actOnce(t *testing.T, server *e2e.Cluster, c seenCase) {
	t.Helper()
	g := NewWithT(t)
	namespace, err := server.Namespace(t.Context(), "seen")
	g.Expect(err).NotTo(HaveOccurred())
	config := server.Config()
	if c.wrap != nil {
		config.Wrap(c.wrap)
	}
	reached, err := cluster.New(config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	x := &fixture{WithT: g, t: t, namespace: namespace, config: reached.Config()}
	x.admin = kubernetes.NewForConfigOrDie(server.Config())
	x.generated = kubernetes.NewForConfigOrDie(x.config)
	x.dynamic = dynamic.NewForConfigOrDie(x.config)
	x.metadata = metadata.NewForConfigOrDie(x.config)
	_, err = x.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"key": "yes"}}},
		metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	if c.prepare != nil {
		c.prepare(x)
	}
	in := x.secrets(c.options)
	acts := 0
	keys := informer.For(x.generated.CoreV1().ConfigMaps(namespace), &informer.Options{LabelSelector: "key=yes"})
	controller, err := reconcile.New("test", keys, reconcile.Func[*corev1.ConfigMap](
		func(ctx context.Context, _ request) (result, error) {
			if !c.todo(in) {
				return reconcile.After(100 * time.Millisecond), nil
			}
			acts++
			return reconcile.After(100 * time.Millisecond), c.act(ctx, x)
		}), &reconcile.Options{Triggers: ofSecrets(in), Workers: 1})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithTimeout(t.Context(), 3*late)
	defer stop()
	g.Expect(controller.Run(ctx)).To(Succeed())
	g.Expect(acts).To(Equal(1))
}
