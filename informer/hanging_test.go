package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

// A function of the program that blocks stops its informer. It is named, with
// the object, until it returns.
func TestAFunctionThatHangsIsNamedUntilItReturns(t *testing.T) {
	for what, use := range map[string]func(o *informer.Options, hang func(name string)) func(*informer.Informer[*corev1.Pod]){
		"informer.Options.Transform": func(o *informer.Options, hang func(string)) func(*informer.Informer[*corev1.Pod]) {
			o.Transform = func(object informer.Object) { hang(object.GetName()) }
			return func(*informer.Informer[*corev1.Pod]) {}
		},
		"the function of an index": func(_ *informer.Options, hang func(string)) func(*informer.Informer[*corev1.Pod]) {
			return func(pods *informer.Informer[*corev1.Pod]) {
				informer.NewIndex(pods, func(p *corev1.Pod) []string {
					hang(p.Name)
					return nil
				})
			}
		},
		"the handler github.com/homeostat/homeostat/informer_test": func(
			_ *informer.Options, hang func(string),
		) func(*informer.Informer[*corev1.Pod]) {
			return func(pods *informer.Informer[*corev1.Pod]) {
				pods.Handle(func(e informer.Event[*corev1.Pod]) { hang(e.New.Name) })
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				client := fake.NewClientset()
				released := make(chan struct{})
				o := &informer.Options{}
				prepare := use(o, func(name string) {
					if name == "bad" {
						<-released
					}
				})
				pods := informer.For(client.CoreV1().Pods("a"), o)
				prepare(pods)
				log := gbytes.NewBuffer()
				ctx, stop := context.WithCancel(logr.NewContext(t.Context(),
					funcr.New(func(_, args string) { _, _ = log.Write([]byte(args + "\n")) }, funcr.Options{})))
				ended := make(chan error, 1)
				go func() { ended <- pods.Run(ctx) }()
				g.Expect(pods.WaitForSync(ctx)).To(Succeed())
				for _, name := range []string{"good", "bad", "after"} {
					_, err := client.CoreV1().Pods("a").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
					g.Expect(err).NotTo(HaveOccurred())
				}
				<-time.After(59 * time.Second)
				g.Expect(pods.Status().Problems).To(BeEmpty())
				<-time.After(2 * time.Second)
				problems := pods.Status().Problems
				g.Expect(problems).To(HaveLen(1))
				g.Expect(problems[0].Cause).To(Equal("stuck call"))
				g.Expect(problems[0].String()).To(And(HavePrefix(`Pod "a/bad": `+what), ContainSubstring("has not returned for a minute")))
				g.Expect(string(log.Contents())).To(And(ContainSubstring(what), ContainSubstring(`"bad"`)))

				close(released)
				synctest.Wait()
				g.Expect(pods.Status().Problems).To(BeEmpty())
				g.Expect(pods.Snapshot().Len()).To(Equal(3))
				stop()
				g.Expect(<-ended).To(Succeed())
			})
		})
	}
}
