package children_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// named returns n names.
func named(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("child-%03d", i))
	}
	return names
}

func TestTheLimitOfAHundredChildren(t *testing.T) {
	const n = 100
	for name, c := range map[string]struct {
		options *children.Options
		most    int // as many may be deleted
	}{
		"by default half of them": {nil, 50},
		"or ten, if that is more": {&children.Options{MaxShare: 0.01}, 10},
		"a share":                 {&children.Options{MaxShare: 0.2}, 20},
		"a number":                {&children.Options{MaxCount: 99}, 99},
		"no limit":                {&children.Options{MaxShare: 1}, n},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, c.options, func(w *fixture) {
				names := named(n)
				w.Expect(w.ensure(names...)).To(Succeed())
				w.requests()
				if c.most < n {
					got, err := w.set.Ensure(w.t.Context(), w.owner, wants(names[c.most+1:]...)...)
					w.Expect(err).To(MatchError(children.ErrLimit))
					w.Expect(err).To(MatchError(And(ContainSubstring(`ConfigMap "d/site"`),
						ContainSubstring("%d of 100 children are no longer wanted (such as d/child-000)", c.most+1),
						ContainSubstring("Options.MaxCount"))))
					w.Expect(terminal.Is(err)).To(BeTrue())
					w.Expect(got).To(HaveLen(n-c.most-1), "the wanted ones are there")
					w.Expect(w.requests()).To(BeEmpty())
				}
				w.Expect(w.ensure(names[c.most:]...)).To(Succeed())
				w.Expect(w.has()).To(HaveLen(n - c.most))
				w.Expect(count(w.requests(), "GET configmaps/site")).To(Equal(1), "it is confirmed once")
			})
		})
	}
}

func TestChildrenThatAreBeingDeletedDoNotCount(t *testing.T) {
	inFixture(t, &children.Options{MaxCount: 1}, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.edit("a", func(s *corev1.Secret) { s.Finalizers = []string{"example.com/slow"} })
		w.delete("a")
		w.requests()
		w.Expect(w.ensure()).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site", "DELETE secrets/b"}))
	})
}

// late are ways in which the cached owner is not what the server has.
var late = map[string]func(w *fixture){
	"changed": func(w *fixture) {
		owner := w.owner.DeepCopy()
		owner.Data = map[string]string{"wants": "more"}
		_, err := w.user.CoreV1().ConfigMaps("d").Update(w.t.Context(), owner, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
	},
	"deleted": func(w *fixture) {
		w.Expect(w.user.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "site", metav1.DeleteOptions{})).To(Succeed())
	},
	"recreated": func(w *fixture) {
		w.Expect(w.user.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "site", metav1.DeleteOptions{})).To(Succeed())
		w.newOwner("site")
	},
}

func TestALateOwnerDeletesNothing(t *testing.T) {
	for how, change := range late {
		t.Run(how, func(t *testing.T) {
			inFixture(t, nil, func(w *fixture) {
				w.Expect(w.ensure("a", "b")).To(Succeed())
				change(w)
				err := w.ensure("a")
				w.Expect(err).To(MatchError(And(ContainSubstring(how+" since it was read"), ContainSubstring(`"d/site"`))))
				w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
				w.Expect(w.has()).To(Equal([]string{"a", "b"}))
			})
		})
	}
}

func TestALateOwnerAdoptsNothing(t *testing.T) {
	for how, change := range late {
		for _, cached := range []bool{true, false} {
			inFixture(t, marked, func(w *fixture) {
				if !cached {
					w.freeze()
				}
				before := w.create("a", ours)
				change(w)
				err := w.ensure("a")
				w.Expect(err).To(MatchError(ContainSubstring(how + " since it was read")))
				w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
				w.Expect(w.secret("a")).To(Equal(before), "a dead owner would have it deleted")
			})
		}
	}
}

func TestAChildIsDeletedAsItWasCached(t *testing.T) {
	for what, change := range map[string]func(w *fixture){
		"changed": func(w *fixture) { w.edit("old", func(s *corev1.Secret) { s.Labels = ours }) },
		"released": func(w *fixture) {
			w.edit("old", func(s *corev1.Secret) { s.OwnerReferences = nil })
		},
		"taken over": func(w *fixture) {
			other := w.newOwner("other")
			w.edit("old", func(s *corev1.Secret) {
				s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, ownerKind)}
			})
		},
		"recreated": func(w *fixture) {
			w.delete("old")
			w.create("old", nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			inFixture(t, nil, func(w *fixture) {
				w.Expect(w.ensure("old", "older")).To(Succeed())
				w.freeze()
				change(w)
				before := w.secret("old")
				err := w.ensure()
				w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
				w.Expect(w.secret("old")).To(Equal(before))
				w.Expect(w.has()).To(Equal([]string{"old"}), "the others are deleted")
			})
		})
	}
}

func TestAChildThatWasDeletedMeanwhileIsNoError(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("old")).To(Succeed())
		w.freeze()
		w.delete("old")
		w.Expect(w.ensure()).To(Succeed())
	})
}

// It would be there neither under its old name nor under its new one.
func TestNothingIsDeletedWhileAWantedChildIsBeingDeleted(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("a", "old")).To(Succeed())
		w.edit("a", func(s *corev1.Secret) { s.Finalizers = []string{"example.com/slow"} })
		w.delete("a")
		w.requests()
		got, err := w.set.Ensure(w.t.Context(), w.owner, wants("a")...)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(got).To(HaveExactElements(HaveField("DeletionTimestamp", Not(BeNil()))))
		w.Expect(w.requests()).To(BeEmpty())
		w.edit("a", func(s *corev1.Secret) { s.Finalizers = nil })
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"POST secrets", "GET configmaps/site", "DELETE secrets/old"}))
	})
}

// The context ends between two children that need no request, and so no answer
// shows it.
func TestAContextThatEndsDeletesNothing(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("a", "b", "old")).To(Succeed())
		w.requests()
		ctx, end := context.WithCancel(w.t.Context())
		wanted := wants("a", "b")
		content := wanted[0].Edit
		wanted[0].Edit = func(s *corev1.Secret) {
			content(s)
			end()
		}
		got, err := w.set.Ensure(ctx, w.owner, wanted...)
		w.Expect(err).To(MatchError(context.Canceled))
		w.Expect(err).To(MatchError(ContainSubstring("stopping before all children are written: ")))
		w.Expect(got).To(BeNil(), "not a part of what is wanted")
		w.Expect(w.requests()).To(BeEmpty())
	})
}

// endsAfterDelete is a client after whose first deletion the context ends.
type endsAfterDelete struct {
	typedcorev1.SecretInterface
	end func()
}

func (c endsAfterDelete) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	defer c.end()
	return c.SecretInterface.Delete(ctx, name, o)
}

func TestAContextThatEndsBetweenDeletionsIsAnError(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		ctx, end := context.WithCancel(w.t.Context())
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, func(namespace string) endsAfterDelete {
			return endsAfterDelete{w.client.CoreV1().Secrets(namespace), end}
		}, inOrder(nil))
		_, err := set.Ensure(ctx, w.owner)
		w.Expect(err).To(MatchError(context.Canceled))
		w.Expect(err).To(MatchError(ContainSubstring("stopping before all children are deleted: ")))
		w.Expect(w.has()).To(HaveLen(1))
	})
}
