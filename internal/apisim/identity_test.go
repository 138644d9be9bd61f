package apisim_test

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
)

// UIDs and generated names do not depend on earlier writes of other objects,
// because programs derive names from both.
func TestUIDsAndGeneratedNamesDependOnTheirObjectAlone(t *testing.T) {
	g := gomega.NewWithT(t)
	made := func(seed uint64, names ...string) map[string]string {
		sim, err := apisim.New(&apisim.Options{Seed: seed})
		g.Expect(err).NotTo(gomega.HaveOccurred())
		secrets := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().Secrets("d")
		all := map[string]string{}
		for _, name := range names {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if name[len(name)-1] == '-' {
				s.Name, s.GenerateName = "", name
			}
			s, err := secrets.Create(t.Context(), s, metav1.CreateOptions{})
			g.Expect(err).NotTo(gomega.HaveOccurred())
			if s.GenerateName == "" {
				all[name+" again"] = all[name]
				g.Expect(secrets.Delete(t.Context(), name, metav1.DeleteOptions{})).To(gomega.Succeed())
			}
			all[name] = s.Name + " " + string(s.UID)
			g.Expect(all[name+" again"]).NotTo(gomega.Equal(all[name]), "a recreated object is another")
		}
		return all
	}
	alone, beside := made(1, "a", "x-"), made(1, "b", "y-", "a", "x-")
	g.Expect(beside).To(gomega.HaveKeyWithValue("a", alone["a"]))
	g.Expect(beside).To(gomega.HaveKeyWithValue("x-", alone["x-"]))
	g.Expect(beside["b"]).NotTo(gomega.Equal(alone["a"]))
	g.Expect(made(2, "a")["a"]).NotTo(gomega.Equal(alone["a"]), "another seed")
	g.Expect(made(1, "a", "a")["a"]).To(gomega.Equal(made(1, "b", "a", "a")["a"]))
}
