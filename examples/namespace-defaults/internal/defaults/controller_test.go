package defaults_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestAnEligibleNamespaceGetsEverything(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.create()
		w.Expect(w.Writes()).To(Equal([]string{owned, quotaCreated, limitsCreated}))
		w.Expect(w.namespace().Annotations).To(HaveKeyWithValue(defaults.OwnerKey, "platform-team"))
		quota, err := w.User.CoreV1().ResourceQuotas("team").Get(t.Context(), defaults.Name, metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(quota.Spec.Hard.Pods().Value()).To(Equal(int64(100)))
		limits, err := w.User.CoreV1().LimitRanges("team").Get(t.Context(), defaults.Name, metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(limits.Spec.Limits).To(HaveLen(1))
		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty())
		stop()
	})
}

func TestAnOwnerIsNeverOverwritten(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.create(ownedBy("alice"))
		w.Expect(w.Writes()).To(Equal([]string{quotaCreated, limitsCreated}))
		w.edit(ownedBy("bob"))
		w.Expect(w.Writes()).To(BeEmpty())
		w.edit(func(n *corev1.Namespace) { delete(n.Annotations, defaults.OwnerKey) })
		w.Expect(w.Writes()).To(Equal([]string{owned}))
		stop()
	})
}

// The user names an owner after the controller has looked, and before its
// patch arrives.
func TestTheUserWinsTheRace(t *testing.T) {
	inWorld(t, func(w *world) {
		raced := false
		w.Tap.Before = func(r *http.Request) *http.Response {
			if !raced && r.Method == http.MethodPatch && r.URL.Path == "/api/v1/namespaces/team" {
				raced = true
				w.edit(ownedBy("alice"))
			}
			return nil
		}
		stop := w.start()
		w.create()
		w.Pass(time.Minute)
		w.Expect(raced).To(BeTrue())
		w.Expect(w.Writes()).To(Equal([]string{quotaCreated, limitsCreated}))
		w.Expect(w.namespace().Annotations).To(HaveKeyWithValue(defaults.OwnerKey, "alice"))
		stop()
	})
}

// tampering is an edit of an output by another client, and the repair that must
// follow.
func tampering() map[string]struct {
	do     func(w *world)
	follow []string
} {
	return map[string]struct {
		do     func(w *world)
		follow []string
	}{
		"quota deleted": {func(w *world) {
			w.Expect(w.User.CoreV1().ResourceQuotas("team").Delete(w.T.Context(), defaults.Name, metav1.DeleteOptions{})).To(Succeed())
		}, []string{quotaCreated}},
		"limits deleted": {func(w *world) {
			w.Expect(w.User.CoreV1().LimitRanges("team").Delete(w.T.Context(), defaults.Name, metav1.DeleteOptions{})).To(Succeed())
		}, []string{limitsCreated}},
		"quota raised": {func(w *world) {
			quota, err := w.User.CoreV1().ResourceQuotas("team").Get(w.T.Context(), defaults.Name, metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			quota.Spec.Hard["pods"] = resource.MustParse("100000")
			_, err = w.User.CoreV1().ResourceQuotas("team").Update(w.T.Context(), quota, metav1.UpdateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}, []string{quotaPatched}},
		"limits raised": {func(w *world) {
			limits, err := w.User.CoreV1().LimitRanges("team").Get(w.T.Context(), defaults.Name, metav1.GetOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			limits.Spec.Limits[0].Max["cpu"] = resource.MustParse("100")
			_, err = w.User.CoreV1().LimitRanges("team").Update(w.T.Context(), limits, metav1.UpdateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}, []string{limitsPatched}},
	}
}

func TestTamperedOutputsAreRestored(t *testing.T) {
	for name, c := range tampering() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				stop := w.start()
				w.create()
				w.Expect(w.Writes()).To(HaveLen(3))
				c.do(w)
				w.Expect(w.Writes()).To(Equal(c.follow))
				stop()
			})
		})
	}
}

func TestWithoutTheWatchesOfItsOutputsNothingIsRestored(t *testing.T) {
	for name, c := range tampering() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create()
				w.start()()
				w.Expect(w.Writes()).To(HaveLen(3))
				quotas, limits := wiretap.Mute("/api/v1/resourcequotas"), wiretap.Mute("/api/v1/limitranges")
				w.Tap.Before = func(r *http.Request) *http.Response {
					if silence := quotas(r); silence != nil {
						return silence
					}
					return limits(r)
				}
				stop := w.start()
				c.do(w)
				w.Pass(time.Minute)
				w.Expect(w.Writes()).To(BeEmpty())
				stop()
			})
		})
	}
}

// An answer that is not the server's proves neither a child nor a deleted
// namespace.
func TestAPageIsNoAnswerAboutAChild(t *testing.T) {
	pages := absenttest.Pages(corev1.Resource("namespaces"), "team")
	for _, page := range append(pages, absenttest.Conflicts()...) {
		t.Run(page.Name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var answered atomic.Bool // by the server
				w.Tap.Before = func(r *http.Request) *http.Response {
					if !answered.Load() && r.Method == http.MethodPost && r.URL.Path == quotas {
						return page.Response(r)
					}
					return nil
				}
				run := w.Start(makerOf(w.policy))
				w.create()
				w.Pass(time.Minute)
				w.Expect(run.Status(1).Keys[0].Failure).To(ContainSubstring("creating ResourceQuota"))
				answered.Store(true)
				w.Writes()
				w.Pass(5 * time.Minute)
				w.Expect(w.Writes()).To(ContainElement(quotaCreated))
				w.Expect(run.Stop()).To(Succeed())
			})
		})
	}
}

// The real server derives defaults from limits when a LimitRange is written.
func TestWhatTheServerDerivesIsNoDifference(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create()
		stop := w.start()
		w.Expect(w.Writes()).To(HaveLen(3))
		limits, err := w.User.CoreV1().LimitRanges("team").Get(t.Context(), defaults.Name, metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		limits.Spec.Limits[0].Default["cpu"] = resource.MustParse("8")
		_, err = w.User.CoreV1().LimitRanges("team").Update(t.Context(), limits, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.Writes()).To(BeEmpty())
		stop()
	})
}

func TestExemptNamespacesAreLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.create(exempt)
		_, err := w.User.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.Writes()).To(BeEmpty())
		w.edit(func(n *corev1.Namespace) { n.Labels = nil })
		w.Expect(w.Writes()).To(Equal([]string{owned, quotaCreated, limitsCreated}))
		stop()
	})
}

func TestWhatChangesWhileItIsDown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		follow []string
	}{
		"nothing":                  {func(*world) {}, nil},
		"the namespace is exempt":  {func(w *world) { w.edit(exempt) }, []string{quotaDeleted, limitsDeleted}},
		"the policy's quota":       {func(w *world) { w.policy.Quota["pods"] = resource.MustParse("7") }, []string{quotaPatched}},
		"the policy's limits grow": {func(w *world) { w.policy.Limits[0].Max["cpu"] = resource.MustParse("9") }, []string{limitsPatched}},
		"the policy's limits shrink": {func(w *world) {
			w.policy.Limits[0].DefaultRequest = nil
		}, []string{limitsPatched}},
		"the policy's owner: only for those who have none": {func(w *world) { w.policy.Owner = "others" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.create()
				w.start()()
				w.Expect(w.Writes()).To(HaveLen(3))
				c.change(w)
				stop := w.start()
				w.Expect(w.Writes()).To(Equal(c.follow))
				w.Pass(time.Hour)
				w.Expect(w.Writes()).To(BeEmpty())
				stop()
			})
		})
	}
}

func TestATerminatingNamespaceIsSkipped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create(func(n *corev1.Namespace) { n.Finalizers = []string{"example.com/wait"} })
		w.Expect(w.User.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{})).To(Succeed())
		stop := w.start()
		w.Pass(time.Minute)
		w.Expect(w.Writes()).To(BeEmpty())
		stop()
	})
}

func TestForeignOutputsAreLeftAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create()
		_, err := w.User.CoreV1().ResourceQuotas("team").Create(t.Context(), &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: defaults.Name},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("1")}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.start()
		w.Expect(w.Writes()).To(Equal([]string{owned, limitsCreated}))
		w.Expect(w.Events.Events).To(Receive(And(ContainSubstring("NameTaken"), ContainSubstring("ResourceQuota"))))
		w.edit(exempt)
		w.Expect(w.Writes()).To(Equal([]string{limitsDeleted}))
		stop()
	})
}

func TestACrashAfterEveryWriteLosesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.create()
		var all []string
		for range 10 {
			w.Sim.Fence("controller")
			struck := false
			w.Tap.Committed = func(*http.Request) {
				if !struck {
					struck = true
					w.Sim.Fence("controller")
				}
			}
			stop := w.start()
			w.Pass(time.Second)
			all = append(all, w.Writes()...)
			stop()
			if !struck {
				break
			}
		}
		w.Expect(all).To(ConsistOf(owned, quotaCreated, limitsCreated))
	})
}
