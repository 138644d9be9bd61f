package apisim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

func TestAFrozenCacheShowsThePast(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	cms := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
	g.Expect(sim.Load(configMap("a"))).To(gomega.Succeed())
	past := sim.Version()
	g.Expect(sim.Load(configMap("b"))).To(gomega.Succeed())
	g.Expect(cms.Delete(t.Context(), "a", metav1.DeleteOptions{})).To(gomega.Succeed())
	sim.Freeze("c", past)

	names := func(o metav1.ListOptions) string {
		list, err := cms.List(t.Context(), o)
		if err != nil {
			return string(apierrors.ReasonForError(err))
		}
		var text string
		for _, i := range list.Items {
			text += i.Name
		}
		return text
	}
	anyVersion := metav1.ListOptions{ResourceVersion: "0"}
	newest := fmt.Sprint(sim.Version())
	g.Expect(names(anyVersion)).To(gomega.Equal("a"))
	g.Expect(names(metav1.ListOptions{})).To(gomega.Equal("b"), "the newest state is not of the cache")
	g.Expect(names(metav1.ListOptions{ResourceVersion: newest})).To(gomega.Equal("Timeout"))
	_, err = cms.Get(t.Context(), "a", metav1.GetOptions{ResourceVersion: "0"})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = cms.Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue())

	w, err := cms.Watch(t.Context(), anyVersion)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	// A is added, b is added, and a is deleted.
	for _, want := range []watch.EventType{watch.Added, watch.Added, watch.Deleted} {
		g.Expect((<-w.ResultChan()).Type).To(gomega.Equal(want))
	}
	w.Stop()

	sim.Thaw("c")
	g.Expect(names(anyVersion)).To(gomega.Equal("b"))
}

func TestADuplicatedEventComesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		sched := sim.Schedule(0)
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			w, err := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d").
				Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				return
			}
			for e := range w.ResultChan() {
				got = append(got, string(e.Type))
			}
		}()
		sched.Step(sched.Enabled()[0], apisim.NoFault)
		g.Expect(sim.Load(configMap("a"))).To(gomega.Succeed())
		g.Expect(sim.Load(configMap("b"))).To(gomega.Succeed())
		sched.Step(sched.Enabled()[0], apisim.Duplicated)
		g.Expect(sched.Enabled()[0].Kind).To(gomega.Equal(apisim.Deliver))
		g.Expect(got).To(gomega.HaveLen(1), "the second is a step of its own: what the program does with both would be a race")
		sched.Run(apisim.Benign{}, apisim.Limits{Steps: 10, Horizon: time.Second})
		g.Expect(got).To(gomega.Equal([]string{"ADDED", "ADDED", "ADDED"}))
		sched.Stop()
		<-done
	})
}
