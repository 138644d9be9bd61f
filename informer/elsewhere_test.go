package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	v1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
)

// The program's function returns a client of another namespace than the one
// that it was called with.
func TestAClientOfAnotherNamespaceProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		sim, err := apisim.New(nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sim.Load(configMap("a", "lives"), configMap("b", "x"))).To(Succeed())
		client := kubernetes.NewForConfigOrDie(sim.Config("c")).CoreV1()
		in := informer.ForNamespaces(func(string) v1.ConfigMapInterface { return client.ConfigMaps("b") },
			&informer.Options{Namespaces: []string{"a"}})
		ended := make(chan error, 1)
		go func() { ended <- in.Run(t.Context()) }()
		pass(time.Minute)
		for range 20 {
			g.Expect(in.IsDeleted(t.Context(), types.NamespacedName{Namespace: "a", Name: "lives"})).To(BeFalse(), "it lives")
		}
		g.Expect(in.HasSynced()).To(BeFalse(), "it is an error of Run")
		g.Expect(<-ended).To(MatchError(And(ContainSubstring(`"a"`), ContainSubstring(`"b"`))))
	})
}
