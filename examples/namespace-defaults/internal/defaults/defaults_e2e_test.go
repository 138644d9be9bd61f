//go:build e2e

package defaults_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

// complete is the state of an eligible namespace under the shipped policy.
var complete = state{Owner: "platform-team", Pods: "100", MaxCPU: "8"}

func newTeam(ctx context.Context, edits ...func(*corev1.Namespace)) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "team-"}}
	for _, edit := range edits {
		edit(namespace)
	}
	created, err := cluster.User.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return created.Name
}

// mergeNamespace patches a namespace as a user does.
func mergeNamespace(ctx context.Context, name, patch string) {
	GinkgoHelper()
	_, err := cluster.User.CoreV1().Namespaces().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("namespace-defaults", func() {
	It("completes every namespace, restores what is deleted, and is quiet although the server derives defaults",
		func(ctx SpecContext) {
			tap := &wiretap.Tap{}
			startReal(shippedPolicy(), tap)
			team, bobs := newTeam(ctx), newTeam(ctx, ownedBy("bob"))
			Eventually(ctx, stateOf(ctx, team), stage.Patience).Should(Equal(complete))
			Eventually(ctx, stateOf(ctx, bobs), stage.Patience).Should(Equal(state{Owner: "bob", Pods: "100", MaxCPU: "8"}))
			limits, err := cluster.User.CoreV1().LimitRanges(team).Get(ctx, defaults.Name, metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(limits.Spec.Limits[0].Default).To(HaveKey(corev1.ResourceCPU), "derived by the server from max")

			Expect(cluster.User.CoreV1().ResourceQuotas(team).Delete(ctx, defaults.Name, metav1.DeleteOptions{})).To(Succeed())
			Expect(cluster.User.CoreV1().LimitRanges(team).Delete(ctx, defaults.Name, metav1.DeleteOptions{})).To(Succeed())
			Eventually(ctx, stateOf(ctx, team), stage.Patience).Should(Equal(complete))
			mergeNamespace(ctx, team, `{"metadata":{"annotations":{"`+defaults.OwnerKey+`":null}}}`)
			Eventually(ctx, stateOf(ctx, team), stage.Patience).Should(Equal(complete))
			tap.Writes()
			Consistently(ctx, tap.Writes, 10*time.Second).Should(BeEmpty())
		}, SpecTimeout(3*time.Minute))

	It("lets the user win the race for the owner", func(ctx SpecContext) {
		var raced atomic.Bool
		tap := &wiretap.Tap{}
		tap.Before = func(r *http.Request) *http.Response {
			name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/")
			isTeam := ok && strings.HasPrefix(name, "team-") && !strings.Contains(name, "/")
			if isTeam && r.Method == http.MethodPatch && raced.CompareAndSwap(false, true) {
				mergeNamespace(r.Context(), name, `{"metadata":{"annotations":{"`+defaults.OwnerKey+`":"alice"}}}`)
			}
			return nil
		}
		startReal(shippedPolicy(), tap)
		team := newTeam(ctx)
		alices := state{Owner: "alice", Pods: "100", MaxCPU: "8"}
		Eventually(ctx, stateOf(ctx, team), stage.Patience).Should(Equal(alices))
		Consistently(ctx, stateOf(ctx, team), 5*time.Second).Should(Equal(alices))
		Expect(raced.Load()).To(BeTrue())
	}, SpecTimeout(3*time.Minute))

	It("follows an exemption and a policy that changed while it was down", func(ctx SpecContext) {
		stop := startReal(shippedPolicy(), &wiretap.Tap{})
		first, second := newTeam(ctx), newTeam(ctx)
		for _, team := range []string{first, second} {
			Eventually(ctx, stateOf(ctx, team), stage.Patience).Should(Equal(complete))
		}
		stop()
		mergeNamespace(ctx, first, `{"metadata":{"labels":{"`+defaults.ExemptKey+`":"true"}}}`)
		policy := shippedPolicy()
		policy.Quota[corev1.ResourcePods] = resource.MustParse("7")
		policy.Limits[0].Max[corev1.ResourceCPU] = resource.MustParse("3")
		stop = startReal(policy, &wiretap.Tap{})
		Eventually(ctx, stateOf(ctx, first), stage.Patience).Should(Equal(state{Owner: "platform-team"}))
		Eventually(ctx, stateOf(ctx, second), stage.Patience).Should(Equal(state{Owner: "platform-team", Pods: "7", MaxCPU: "3"}))
		stop()
	}, SpecTimeout(3*time.Minute))

	It("skips namespaces that terminate", func(ctx SpecContext) {
		team := newTeam(ctx)
		_, err := cluster.User.CoreV1().ConfigMaps(team).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "holds", Finalizers: []string{"example.com/wait"},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cluster.User.CoreV1().Namespaces().Delete(ctx, team, metav1.DeleteOptions{})).To(Succeed())
		tap := &wiretap.Tap{}
		startReal(shippedPolicy(), tap)
		other := newTeam(ctx)
		Eventually(ctx, stateOf(ctx, other), stage.Patience).Should(Equal(complete))
		Consistently(ctx, stateOf(ctx, team), 5*time.Second).Should(Equal(state{}))
		_, err = cluster.User.CoreV1().ConfigMaps(team).Patch(ctx, "holds", types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
	}, SpecTimeout(3*time.Minute))
})
