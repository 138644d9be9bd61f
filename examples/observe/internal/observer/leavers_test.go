package observer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// inSelection runs f while ConfigMaps of namespace d with the label mine are
// observed, of a server that knows selectors.
func inSelection(t *testing.T, f func(w *world, maps typedcorev1.ConfigMapInterface)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{WithT: NewWithT(t), t: t}
		sim, err := apisim.New(nil)
		w.Expect(err).NotTo(HaveOccurred())
		maps := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
		o := observer.Options{Each: each, Delete: []string{"forget"}, Namespaced: true, MaxErrors: observer.NoLimit}
		o.Controller.Workers = 1
		made, err := observer.New(informer.For(maps, &informer.Options{LabelSelector: "mine"}),
			func(string) observer.Getter[*corev1.ConfigMap] { return maps }, w, observer.Progress{Out: w}, o)
		w.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		<-time.After(time.Second)
		f(w, maps)
		stop()
		w.Expect(<-ended).To(Succeed())
	})
}

func TestTheEndOfAnObjectThatHasLostItsLabelIsNotMissed(t *testing.T) {
	inSelection(t, func(w *world, maps typedcorev1.ConfigMapInterface) {
		ctx := w.t.Context()
		label := func(labels string) {
			_, err := maps.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		_, err := maps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"mine": "yes"}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		<-time.After(time.Second)
		w.Expect(w.ran()).To(Equal([]string{"run it d a"}))
		label("null")
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(BeEmpty(), "it exists")
		label(`{"mine":"yes"}`)
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(Equal([]string{"run it d a"}), "it is asked about no longer")
		label("null")
		<-time.After(time.Second)
		w.Expect(maps.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		<-time.After(3 * time.Second)
		w.Expect(w.ran()).To(Equal([]string{"forget d a"}))
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(BeEmpty(), "that is all")
	})
}

func TestAFailedDeleteKeepsItsBackOff(t *testing.T) {
	inSelection(t, func(w *world, maps typedcorev1.ConfigMapInterface) {
		_, err := maps.Create(w.t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"mine": "yes"}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		<-time.After(time.Second)
		w.Expect(w.ran()).To(Equal([]string{"run it d a"}))
		w.run = func(context.Context, command.Call) error { return &command.ExitError{Program: "forget", Code: 1} }
		w.Expect(maps.Delete(w.t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		<-time.After(time.Hour)
		w.Expect(len(w.ran())).To(BeNumerically("<", 100), "questions do not end its back-off: it would be 230")
	})
}
