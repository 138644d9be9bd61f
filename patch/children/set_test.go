package children_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

var (
	ours   = map[string]string{"ours": "yes"}
	marked = &children.Options{Mark: ours}
)

func TestEnsureKeepsExactlyTheWantedChildren(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		got, err := w.set.Ensure(w.t.Context(), w.owner, wants("b", "a")...)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(got).To(HaveExactElements(HaveField("Name", "b"), HaveField("Name", "a")), "in their order")
		for _, s := range got {
			w.Expect(s.UID).NotTo(BeEmpty())
			w.Expect(s.OwnerReferences).To(Equal([]metav1.OwnerReference{*metav1.NewControllerRef(w.owner, ownerKind)}))
			w.Expect(s.Namespace).To(Equal("d"))
		}
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.requests()
		w.Expect(w.ensure("b", "c")).To(Succeed())
		w.Expect(w.has()).To(Equal([]string{"b", "c"}))
		w.Expect(w.requests()).To(Equal([]string{"POST secrets", "GET configmaps/site", "DELETE secrets/a"}))
		w.edit("b", func(s *corev1.Secret) { s.Data["is"] = []byte("tampered") })
		w.Expect(w.ensure("b", "c")).To(Succeed())
		w.Expect(w.secret("b").Data).To(Equal(map[string][]byte{"is": []byte("b")}))
		w.Expect(w.ensure()).To(Succeed())
		w.Expect(w.has()).To(BeEmpty())
	})
}

func sendsNothing(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("a", "b", "c")).To(Succeed())
		w.create("theirs", nil, w.newOwner("other"))
		w.requests()
		for range 3 {
			w.Expect(w.ensure("a", "b", "c")).To(Succeed())
		}
		w.Expect(w.requests()).To(BeEmpty())
	})
}

func ensureRefusesWhatWouldBePunished(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		for why, c := range punished {
			if c.namespace == "" { // means the owner's namespace
				continue
			}
			one := wants("s")[0]
			one.Namespace = c.namespace
			_, err := w.set.Ensure(w.t.Context(), c.owner, one)
			w.Expect(err).To(MatchError(ContainSubstring(why)))
			w.Expect(terminal.Is(err)).To(BeTrue())
		}
		w.Expect(w.requests()).To(BeEmpty())
		w.Expect(w.has()).To(BeEmpty())
	})
}

func TestAnOwnerInANamespaceHasNoClusterScopedChildren(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets,
			patch.ClusterScoped(w.client.CoreV1().Secrets("")), nil)
		_, err := set.Ensure(w.t.Context(), w.owner, wants("a")...)
		w.Expect(err).To(MatchError(ContainSubstring(`no client for namespace "d"`)))
		w.Expect(w.requests()).To(BeEmpty())
	})
}

func foreignChildrenAreLeftAlone(t *testing.T) {
	for _, cached := range []bool{true, false} {
		inFixture(t, marked, func(w *fixture) {
			other := w.newOwner("other")
			if !cached {
				w.freeze()
			}
			before := w.create("a", ours, other)
			w.create("unwanted", ours, other)
			err := w.ensure("a", "b")
			w.Expect(err).To(MatchError(And(ContainSubstring(`ensuring the children of ConfigMap "d/site"`),
				ContainSubstring(`writing a child: Secret "d/a"`), ContainSubstring(`ConfigMap "other" with UID`))))
			w.Expect(terminal.Is(err)).To(BeFalse())
			w.Expect(w.secret("a")).To(Equal(before))
			w.Expect(w.has()).To(Equal([]string{"a", "b", "unwanted"}))
		})
	}
}

// An owner was deleted and recreated. Its children are still there, and the
// garbage collector has not come yet.
func TestTheChildrenOfADeletedOwnerOfTheSameNameAreNotTaken(t *testing.T) {
	inFixture(t, marked, func(w *fixture) {
		w.Expect(w.ensure("a", "old")).To(Succeed())
		w.Expect(w.user.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "site", metav1.DeleteOptions{})).To(Succeed())
		before := w.secret("a")
		w.owner = w.newOwner("site")
		err := w.ensure("a")
		w.Expect(err).To(MatchError(ContainSubstring(`a deleted ConfigMap "d/site" of that name`)))
		w.Expect(w.secret("a")).To(Equal(before))
		w.Expect(w.has()).To(Equal([]string{"a", "old"}), "it is not its child, either")
		w.delete("a")
		w.Expect(w.ensure("a")).To(Succeed())
	})
}

func TestAnEditCannotGiveTheChildAnotherController(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		other := metav1.NewControllerRef(w.newOwner("other"), ownerKind)
		more := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "2"}
		for range 2 { // new, and cached
			got, err := w.set.Ensure(w.t.Context(), w.owner, child{Name: "a", Edit: func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{*other, more}
			}})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(got[0].OwnerReferences).To(ConsistOf(*metav1.NewControllerRef(w.owner, ownerKind), more))
			w.Expect(w.ensure("a")).To(Succeed())
		}
	})
}

func TestWrongArgumentsAreTerminal(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		secrets, owners := w.client.CoreV1().Secrets, w.client.CoreV1().ConfigMaps
		with := func(o children.Options) *children.Set[*corev1.Secret] {
			return children.New(ownerKind, owners, w.secrets, secrets, &o)
		}
		for why, try := range map[string]func() ([]*corev1.Secret, error){
			"must have a name": func() ([]*corev1.Secret, error) { return w.set.Ensure(w.t.Context(), w.owner, wants("")...) },
			"and an Edit": func() ([]*corev1.Secret, error) {
				return w.set.Ensure(w.t.Context(), w.owner, child{Name: "a"})
			},
			"must not be passed twice": func() ([]*corev1.Secret, error) { return w.set.Ensure(w.t.Context(), w.owner, wants("a", "a")...) },
			"must not be nil": func() ([]*corev1.Secret, error) {
				return children.New(ownerKind, owners, nil, secrets, nil).Ensure(w.t.Context(), w.owner, wants("a")...)
			},
			"must have a version and a kind": func() ([]*corev1.Secret, error) {
				return children.New(corev1.SchemeGroupVersion.WithKind(""), owners, w.secrets, secrets, nil).
					Ensure(t.Context(), w.owner)
			},
			"a ConfigMap: the owner is nil": func() ([]*corev1.Secret, error) {
				return w.set.Ensure(w.t.Context(), (*corev1.ConfigMap)(nil))
			},
			`reading the owner: there is no client for namespace "d"`: func() ([]*corev1.Secret, error) {
				return children.New(ownerKind, patch.ClusterScoped(owners("")), w.secrets, secrets, nil).Ensure(w.t.Context(), w.owner)
			},
			"Options.Mark is map[a b:c]: must be labels: ": func() ([]*corev1.Secret, error) {
				return with(children.Options{Mark: map[string]string{"a b": "c"}}).Ensure(w.t.Context(), w.owner)
			},
			"Options.MaxCount is -1: must not be negative": func() ([]*corev1.Secret, error) {
				return with(children.Options{MaxCount: -1}).Ensure(w.t.Context(), w.owner)
			},
			"Options.MaxShare is 2: must be more than 0 and at most 1": func() ([]*corev1.Secret, error) {
				return with(children.Options{MaxShare: 2}).Ensure(w.t.Context(), w.owner)
			},
			"Options.MaxShare is NaN": func() ([]*corev1.Secret, error) {
				return with(children.Options{MaxShare: math.NaN()}).Ensure(w.t.Context(), w.owner)
			},
		} {
			_, err := try()
			w.Expect(err).To(MatchError(ContainSubstring(why)))
			w.Expect(terminal.Is(err)).To(BeTrue(), why)
		}
		w.Expect(w.requests()).To(BeEmpty())
	})
}

func dyingOwnersGetNothing(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		now := metav1.Now()
		w.owner.DeletionTimestamp = &now
		err := w.ensure("a")
		w.Expect(err).To(MatchError(ContainSubstring(`ConfigMap "d/site": the owner is being deleted`)))
		w.Expect(terminal.Is(err)).To(BeTrue())
		w.Expect(w.requests()).To(BeEmpty())
	})
}

func TestAFailureIsReportedAndTheOthersAreWritten(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.create("b", nil, w.newOwner("other"))
		w.create("d", nil)
		got, err := w.set.Ensure(w.t.Context(), w.owner, wants("a", "b", "c", "d", "e")...)
		w.Expect(err).To(MatchError(And(ContainSubstring(`"d/b"`), ContainSubstring(`"d/d"`))), "all failures")
		w.Expect(got).To(BeNil())
		w.Expect(w.has()).To(Equal([]string{"a", "b", "c", "d", "e"}))
	})
}

// A conflict is repeated by itself, and must not hide a failure.
func TestAConflictBesideAFailureIsAFailure(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("gone")).To(Succeed())
		w.freeze()
		w.delete("gone")
		broken := wants("gone")
		broken[0].Edit = func(s *corev1.Secret) { s.Labels = ours }
		_, err := w.set.Ensure(w.t.Context(), w.owner, broken...)
		w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
		w.create("theirs", nil)
		_, err = w.set.Ensure(w.t.Context(), w.owner, append(broken, wants("theirs")...)...)
		w.Expect(err).To(MatchError(ContainSubstring("theirs")))
		w.Expect(patch.IsStale(err)).To(BeFalse(), "%v", err)
	})
}

func wantedComeFirst(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("old")).To(Succeed())
		w.create("new", nil)
		w.Expect(w.ensure("new")).NotTo(Succeed())
		w.Expect(w.has()).To(ContainElement("old"))
		w.delete("new")
		w.requests()
		w.Expect(w.ensure("new")).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"POST secrets", "GET configmaps/site", "DELETE secrets/old"}))
	})
}

func orphansAreLeftAlone(t *testing.T) {
	for _, cached := range []bool{true, false} {
		inFixture(t, marked, func(w *fixture) {
			if !cached {
				w.freeze()
			}
			before := w.create("a", map[string]string{"ours": "no"})
			w.create("unwanted", ours)
			w.Expect(w.ensure("a")).To(MatchError(ContainSubstring("has no owner: delete it, give it the labels")))
			w.Expect(w.secret("a")).To(Equal(before))
			w.Expect(w.ensure("b")).To(Succeed())
			w.Expect(w.has()).To(Equal([]string{"a", "b", "unwanted"}))
		})
	}
	inFixture(t, nil, func(w *fixture) {
		w.create("a", nil)
		w.Expect(w.ensure("a")).To(MatchError(ContainSubstring("has no owner")), "without a mark there is none to adopt")
	})
}

func TestAMarkedOrphanIsAdopted(t *testing.T) {
	inFixture(t, marked, func(w *fixture) {
		orphan := w.create("a", ours)
		w.Expect(w.ensure("a")).To(Succeed())
		adopted := w.secret("a")
		w.Expect(adopted.UID).To(Equal(orphan.UID))
		w.Expect(metav1.IsControlledBy(adopted, w.owner)).To(BeTrue())
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site", "PATCH secrets/a"}))
	})
}

func TestEveryChildGetsTheMark(t *testing.T) {
	inFixture(t, marked, func(w *fixture) {
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.secret("a").Labels).To(Equal(ours))
		w.edit("a", func(s *corev1.Secret) { s.Labels = map[string]string{"theirs": "yes"} })
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.secret("a").Labels).To(Equal(map[string]string{"ours": "yes", "theirs": "yes"}))
	})
}

func TestAnOrphanThatTheCacheDoesNotHaveIsAdoptedToo(t *testing.T) {
	inFixture(t, marked, func(w *fixture) {
		w.freeze()
		w.create("a", ours)
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(metav1.IsControlledBy(w.secret("a"), w.owner)).To(BeTrue())
		w.Expect(w.requests()).To(Equal([]string{
			"POST secrets", "GET secrets/a", "GET configmaps/site", "PATCH secrets/a",
		}))
	})
}

// An object that has no owner in the cache has got an owner since.
func TestAnOrphanIsNotTakenFromItsNewOwner(t *testing.T) {
	inFixture(t, marked, func(w *fixture) {
		w.create("a", ours)
		w.freeze()
		other := w.newOwner("other")
		w.edit("a", func(s *corev1.Secret) {
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, ownerKind)}
		})
		err := w.ensure("a")
		w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
		w.Expect(metav1.IsControlledBy(w.secret("a"), other)).To(BeTrue())
	})
}

// The process ends after each of its requests, answered or not. The next
// process continues.
func TestACrashBetweenTwoRequestsIsMended(t *testing.T) {
	const requests = 5 // two creations, the owner, two deletions
	for survived := range requests {
		for _, lost := range []bool{false, true} {
			inFixture(t, nil, func(w *fixture) {
				w.Expect(w.ensure("a", "b", "c")).To(Succeed())
				w.requests()
				ctx, crash := context.WithCancel(w.t.Context())
				w.fault = func(n int) (before, after error) {
					if n <= survived {
						return nil, nil
					}
					crash()
					if lost {
						return nil, ctx.Err()
					}
					return ctx.Err(), nil
				}
				_, err := w.set.Ensure(ctx, w.owner, wants("c", "d", "e")...)
				w.Expect(err).To(MatchError(context.Canceled))
				w.Expect(w.requests()).To(HaveLen(survived + 1))
				w.fault = nil
				synctest.Wait()
				w.Expect(w.ensure("c", "d", "e")).To(Succeed())
				w.Expect(w.has()).To(Equal([]string{"c", "d", "e"}))
				w.requests()
				w.Expect(w.ensure("c", "d", "e")).To(Succeed())
				w.Expect(w.requests()).To(BeEmpty())
			})
		}
	}
}

// The answer to a creation is lost, and the cache does not have the child yet.
func TestAChildThatTheCacheDoesNotHaveYetIsNotMadeTwice(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.freeze()
		w.Expect(w.ensure("a")).To(Succeed())
		w.requests()
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"POST secrets", "GET secrets/a"}))
	})
}

// An unstructured object needs its kind.
func TestUnstructuredChildren(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		resource := w.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("secrets"))
		for kind, why := range map[string]string{"Secret": "", "": "set informer.Options.Kind"} {
			in := informer.For(informer.Untyped(resource), &informer.Options{Kind: kind})
			set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, in, patch.Dynamic(resource), nil)
			got, err := set.Ensure(w.t.Context(), w.owner, children.Child[*unstructured.Unstructured]{
				Name: "u", Edit: func(u *unstructured.Unstructured) { u.SetLabels(ours) },
			})
			if why != "" {
				w.Expect(err).To(MatchError(ContainSubstring(why)))
				continue
			}
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(metav1.IsControlledBy(got[0], w.owner)).To(BeTrue())
			w.Expect(got[0].GetLabels()).To(Equal(ours))
		}
	})
}

// Fakes give objects neither a UID nor a resourceVersion.
func TestChildrenOfAFakeClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		owner := configMap("d", "site", "1")
		client := fake.NewClientset(owner)
		in := informer.For(client.CoreV1().Secrets(""), nil)
		set := children.New(ownerKind, client.CoreV1().ConfigMaps, in, client.CoreV1().Secrets, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		for _, names := range [][]string{{"a", "b"}, {"b", "c"}, {"b", "c"}} {
			synctest.Wait()
			_, err := set.Ensure(ctx, owner, wants(names...)...)
			g.Expect(err).NotTo(HaveOccurred())
		}
		all, err := client.CoreV1().Secrets("d").List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(all.Items).To(HaveExactElements(HaveField("Name", "b"), HaveField("Name", "c")))
		stop()
		g.Expect(<-ended).To(Succeed())
	})
}
