package samplecontroller_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/examples/interop/samplecontroller"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/queue"
)

// fixture is a program on a fake clientset, in a bubble of virtual time.
type fixture struct {
	*WithT
	t       *testing.T
	client  *fake.Clientset
	program *samplecontroller.Program
}

func inBubble(t *testing.T, f func(x *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{WithT: NewWithT(t), t: t, client: fake.NewClientset()}
		elector, err := leader.New(leader.Lease{
			Client: x.client.CoordinationV1(), Namespace: "shop", Name: "shouter", Identity: "a",
		}, nil)
		x.Expect(err).NotTo(HaveOccurred())
		x.program = &samplecontroller.Program{
			Client: x.client, Factory: informers.NewSharedInformerFactory(x.client, 0), Elector: elector,
		}
		f(x)
		x.program.Factory.Shutdown()
	})
}

// run runs f until stop is called, which returns its error.
func (x *fixture) run(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(x.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// create makes a ConfigMap and returns its shouted text after three seconds.
func (x *fixture) create(name string) string {
	x.t.Helper()
	maps := x.client.CoreV1().ConfigMaps("shop")
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Data: map[string]string{"text": name}}
	_, err := maps.Create(x.t.Context(), m, metav1.CreateOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	pass(3 * time.Second)
	m, err = maps.Get(x.t.Context(), name, metav1.GetOptions{})
	x.Expect(err).NotTo(HaveOccurred())
	return m.Annotations["example.com/shouted"]
}

// lose takes the Lease away.
func (x *fixture) lose() {
	x.t.Helper()
	x.Expect(x.client.CoordinationV1().Leases("shop").Delete(x.t.Context(), "shouter", metav1.DeleteOptions{})).To(Succeed())
	pass(3 * time.Second)
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestAControllerRunsOnOurQueue(t *testing.T) {
	inBubble(t, func(x *fixture) {
		keys, err := queue.New[cache.ObjectName](nil)
		x.Expect(err).NotTo(HaveOccurred())
		c, err := samplecontroller.NewController(x.client, x.program.Factory.Core().V1().ConfigMaps(), keys)
		x.Expect(err).NotTo(HaveOccurred())
		refusals := 2
		x.client.PrependReactor("update", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
			refusals--
			return refusals >= 0, nil, errors.New("not now")
		})
		stop := x.run(func(ctx context.Context) error {
			x.program.Factory.StartWithContext(ctx)
			return c.Run(ctx, 2)
		})
		x.Expect(x.create("hello")).To(Equal("HELLO"), "after two retries")
		x.Expect(keys.Stats().Began).To(BeEquivalentTo(4), "the addition, two retries, and what the controller wrote")
		x.Expect(stop()).To(Succeed())
		x.Expect(c.Run(x.t.Context(), 2)).To(MatchError(ContainSubstring("create a new one")))
	})
}

func TestALostLeadershipEndsTheProgram(t *testing.T) {
	inBubble(t, func(x *fixture) {
		stop := x.run(x.program.Run)
		pass(time.Second)
		x.Expect(x.create("first")).To(Equal("FIRST"))
		x.lose()
		x.Expect(stop()).To(MatchError(leader.ErrLost))
		x.Expect(x.create("second")).To(BeEmpty())
	})
}

func TestTheSecondTermWorks(t *testing.T) {
	inBubble(t, func(x *fixture) {
		stop := x.run(x.program.Campaign)
		pass(time.Second)
		x.Expect(x.create("first")).To(Equal("FIRST"))
		x.lose()
		pass(20 * time.Second)
		x.Expect(x.program.Elector.Status().Leading).To(BeTrue())
		x.Expect(x.create("second")).To(Equal("SECOND"))
		x.Expect(stop()).To(Succeed())
		x.Expect(x.create("third")).To(BeEmpty(), "it has stopped")
	})
}
