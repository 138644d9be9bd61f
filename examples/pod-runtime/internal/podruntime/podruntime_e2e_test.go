//go:build e2e

package podruntime_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestE2EPodRuntime(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "pod-runtime on the real server")
}

var cluster *stage.Cluster

var _ = BeforeSuite(func(ctx SpecContext) {
	cluster = stage.Open(ctx, nil)
	cluster.Deploy(ctx, podruntime.Name, "../../deploy")
})

// run runs a controller with the shipped rights until the end of the spec.
func run(tap *wiretap.Tap) *stage.Run {
	GinkgoHelper()
	return cluster.Start(cluster.Account, tap, maker(time.Second))
}

// kubelet makes a Pod that started some time ago.
func kubelet(ctx context.Context, namespace, name string, ago time.Duration) {
	GinkgoHelper()
	_, err := cluster.User.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "none"}},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	setStatus(ctx, namespace, name, started(time.Now().Add(-ago)))
}

func setStatus(ctx context.Context, namespace, name, status string) {
	GinkgoHelper()
	_, err := cluster.User.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

func remove(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Expect(cluster.User.CoreV1().Pods(namespace).Delete(ctx, name, *metav1.NewDeleteOptions(0))).To(Succeed())
}

// ledgerOf returns a function that returns the ledger of a namespace.
func ledgerOf(namespace string) func(ctx context.Context) (podruntime.Ledger, error) {
	return func(ctx context.Context) (podruntime.Ledger, error) {
		got, err := cluster.User.CoreV1().ConfigMaps(namespace).Get(ctx, podruntime.Name, metav1.GetOptions{})
		if err != nil {
			return podruntime.Ledger{}, err
		}
		return podruntime.Parse(got.Data)
	}
}

var _ = Describe("pod-runtime", func() {
	var (
		namespace string
		ledger    func(ctx context.Context) (podruntime.Ledger, error)
	)

	BeforeEach(func(ctx SpecContext) {
		namespace = cluster.TemporaryNamespace(ctx)
		ledger = ledgerOf(namespace)
	})

	It("counts nothing twice when it crashes after every write, and nothing that is closed when it restarts",
		func(ctx SpecContext) {
			end := time.Now().Add(-time.Hour).Truncate(time.Second)
			for _, name := range []string{"a", "b"} {
				kubelet(ctx, namespace, name, 2*time.Hour)
			}
			crash := func() {
				tap, struck := &wiretap.Tap{}, make(chan struct{}, 100)
				tap.Committed = func(*http.Request) {
					tap.Kill()
					struck <- struct{}{}
				}
				incarnation := run(tap)
				Eventually(ctx, struck, stage.Patience).Should(Receive())
				_ = incarnation.Stop() // a killed process says nothing
			}
			crash()
			setStatus(ctx, namespace, "a", succeeded(end))
			crash()
			remove(ctx, namespace, "a")
			crash()
			l, err := ledger(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(l.Closed).To(BeNumerically("~", 3600, 60))
			Expect(l.Pods).To(HaveLen(1))
			setStatus(ctx, namespace, "b", succeeded(end))
			crash()
			remove(ctx, namespace, "b")
			crash()
			for range 2 {
				last := run(&wiretap.Tap{})
				Eventually(ctx, last.Idle, stage.Patience).Should(BeTrue())
				Expect(last.Stop()).To(Succeed())
			}
			l, err = ledger(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(l.Closed).To(BeNumerically("~", 7200, 60))
			Expect(l.Total).To(BeNumerically("~", 14400, 60), "it never goes down: at first both seemed to go on")
			Expect(l.Pods).To(BeEmpty())
		}, SpecTimeout(3*time.Minute))

	It("closes what vanished while it was down as an estimate", func(ctx SpecContext) {
		kubelet(ctx, namespace, "a", 0)
		first := run(&wiretap.Tap{})
		Eventually(ctx, ledger, stage.Patience).Should(HaveField("Total", BeNumerically(">", 0)))
		Expect(first.Stop()).To(Succeed())
		before, err := ledger(ctx)
		Expect(err).NotTo(HaveOccurred())
		remove(ctx, namespace, "a")
		Eventually(ctx, time.Now, stage.Patience).Should(BeTemporally(">", time.Unix(before.At+3, 0)), "more than two periods")
		second := run(&wiretap.Tap{})
		Eventually(ctx, ledger, stage.Patience).Should(And(
			HaveField("Pods", BeEmpty()), HaveField("Estimated", 1), HaveField("Total", before.Total),
		))
		Expect(second.Stop()).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("restores a ledger that is deleted", func(ctx SpecContext) {
		kubelet(ctx, namespace, "a", time.Hour)
		run(&wiretap.Tap{})
		Eventually(ctx, ledger, stage.Patience).Should(HaveField("Total", BeNumerically(">=", 3600)))
		remove(ctx, namespace, "a")
		Eventually(ctx, ledger, stage.Patience).Should(HaveField("Pods", BeEmpty()))
		before, err := ledger(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.User.CoreV1().ConfigMaps(namespace).Delete(ctx, podruntime.Name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, ledger, stage.Patience).Should(Equal(before))
	}, SpecTimeout(3*time.Minute))
})
