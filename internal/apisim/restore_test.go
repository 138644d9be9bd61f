package apisim_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

func TestARestoredServerIsAsItWas(t *testing.T) {
	g := gomega.NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	cms := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1().ConfigMaps("d")
	create := func(name string) *corev1.ConfigMap {
		made, err := cms.Create(t.Context(), configMap(name), metav1.CreateOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		return made
	}
	a, b := create("a"), create("b")
	backup := sim.Version()
	a.Data = map[string]string{"k": "later"}
	_, err = cms.Update(t.Context(), a, metav1.UpdateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(cms.Delete(t.Context(), "b", metav1.DeleteOptions{})).To(gomega.Succeed())
	lost := create("c")
	w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: lost.ResourceVersion})
	g.Expect(err).NotTo(gomega.HaveOccurred())

	g.Expect(sim.Restore(backup)).To(gomega.Succeed())
	for range w.ResultChan() {
		t.Error("nothing has been written before its end")
	}
	list, err := cms.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(list.Items).To(gomega.HaveLen(2))
	g.Expect(list.Items[0].Data).To(gomega.BeEmpty())
	g.Expect(list.Items[1].UID).To(gomega.Equal(b.UID))
	g.Expect(sim.Version()).To(gomega.Equal(backup))

	w, err = cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: lost.ResourceVersion})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	defer w.Stop()
	again := create("c")
	g.Expect(again.UID).NotTo(gomega.Equal(lost.UID))
	for again.ResourceVersion != lost.ResourceVersion {
		again = create("x" + again.ResourceVersion)
	}
	last := create("y")
	g.Expect(<-w.ResultChan()).To(gomega.HaveField("Object.Name", last.Name), "as if nothing had been before")

	g.Expect(sim.Restore(sim.Version() + 1)).NotTo(gomega.Succeed())
	sim.Compact("")
	g.Expect(sim.Restore(backup)).NotTo(gomega.Succeed())
}
