package children_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/mark"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

var byLabel = &children.Options{ByLabel: true}

// in are children of the name "copy", one in each namespace.
func in(namespaces ...string) []child {
	var all []child
	for _, namespace := range namespaces {
		all = append(all, child{Namespace: namespace, Name: "copy", Edit: func(s *corev1.Secret) {
			s.Data = map[string][]byte{"is": []byte("copied")}
		}})
	}
	return all
}

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "d", Name: name} }

// ensureIn calls Ensure, and returns when the cache has followed.
func (w *fixture) ensureIn(namespaces ...string) error {
	w.t.Helper()
	_, err := w.set.Ensure(w.t.Context(), w.owner, in(namespaces...)...)
	synctest.Wait()
	return err
}

// where are the namespaces of the Secrets of the server.
func (w *fixture) where() []string {
	w.t.Helper()
	all, err := w.user.CoreV1().Secrets("").List(w.t.Context(), metav1.ListOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	var namespaces []string
	for i := range all.Items {
		namespaces = append(namespaces, all.Items[i].Namespace)
	}
	return namespaces
}

func (w *fixture) copyIn(namespace string) *corev1.Secret {
	w.t.Helper()
	got, err := w.user.CoreV1().Secrets(namespace).Get(w.t.Context(), "copy", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return got
}

// createIn creates a copy as another client.
func (w *fixture) createIn(namespace string, edit func(*corev1.Secret)) *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "copy"}}
	edit(s)
	s, err := w.user.CoreV1().Secrets(namespace).Create(w.t.Context(), s, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
	return s
}

// markOf is the mark of the children of a ConfigMap.
func markOf(owner *corev1.ConfigMap) mark.Owner {
	m := mark.Owner{GroupKind: ownerKind.GroupKind(), UID: owner.UID}
	m.Namespace, m.Name = owner.Namespace, owner.Name
	return m
}

func (w *fixture) deleteOwner() {
	w.t.Helper()
	w.Expect(w.user.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "site", metav1.DeleteOptions{})).To(Succeed())
}

func TestAMarkOwnsAcrossNamespaces(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a", "b", "d")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "b", "d"}))
		got := w.copyIn("a")
		w.Expect(got.OwnerReferences).To(BeEmpty(), "the garbage collector would delete it")
		w.Expect(got.Labels).To(HaveKeyWithValue("homeostat.dev/owner-kind", "ConfigMap"))
		w.Expect(got.Labels).To(HaveKeyWithValue("homeostat.dev/owner-name", "site"))
		w.Expect(got.Labels).To(HaveKeyWithValue("homeostat.dev/owner-uid", string(w.owner.UID)))
		w.requests()
		w.Expect(w.ensureIn("a", "b", "d")).To(Succeed())
		w.Expect(w.requests()).To(BeEmpty())
		w.Expect(w.ensureIn("b")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"b"}))
	})
}

func TestANamespacedOwnerHasClusterScopedChildrenByLabel(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		roles := informer.For(w.client.RbacV1().ClusterRoles(), nil)
		set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, roles,
			patch.ClusterScoped(w.client.RbacV1().ClusterRoles()), byLabel)
		one := children.Child[*rbacv1.ClusterRole]{Name: "reader", Edit: func(*rbacv1.ClusterRole) {}}
		got, err := set.Ensure(w.t.Context(), w.owner, one)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(got).To(HaveExactElements(HaveField("Namespace", "")))
		w.requests()
		one.Namespace = "d"
		_, err = set.Ensure(w.t.Context(), w.owner, one)
		w.Expect(err).To(MatchError(ContainSubstring("the child's kind has no namespaces")))
		w.Expect(terminal.Is(err)).To(BeTrue())
		w.Expect(w.requests()).To(BeEmpty())
	})
}

// A server says only that an empty namespace may not be set.
func TestAChildWithoutANamespaceIsAnErrorThatSaysSo(t *testing.T) {
	for _, o := range []*children.Options{nil, byLabel} {
		inFixture(t, o, func(w *fixture) {
			_, err := w.set.Ensure(w.t.Context(), configMap("", "site", "1"), wants("a")...)
			w.Expect(err).To(MatchError(ContainSubstring(
				`setting the owner of "/a": the child and its owner have no namespace: set children.Child.Namespace`)))
			w.Expect(terminal.Is(err)).To(BeTrue())
			w.Expect(w.requests()).To(BeEmpty())
		})
	}
}

// foreigners are copies that are not the owner's, with whose they are.
var foreigners = map[string]func(w *fixture, s *corev1.Secret){
	"has no owner": func(*fixture, *corev1.Secret) {},
	`ConfigMap "d/other" owns it by its labels`: func(w *fixture, s *corev1.Secret) {
		markOf(w.newOwner("other")).Put(s)
	},
	`ConfigMap "site" with UID "another" controls it`: func(w *fixture, s *corev1.Secret) {
		markOf(w.owner).Put(s)
		s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(configMap("a", "site", "another"), ownerKind)}
	},
	"has no  owner": func(w *fixture, s *corev1.Secret) { // the mark without its UID
		markOf(w.owner).Put(s)
		delete(s.Labels, mark.UIDLabel)
	},
}

func TestWhatIsNotMarkedWithTheUIDIsNeitherWrittenNorDeleted(t *testing.T) {
	for whose, edit := range foreigners {
		for _, cached := range []bool{true, false} {
			t.Run(fmt.Sprint(whose, cached), func(t *testing.T) {
				inFixture(t, byLabel, func(w *fixture) {
					if !cached {
						w.freeze()
					}
					before := w.createIn("a", func(s *corev1.Secret) { edit(w, s) })
					err := w.ensureIn("a", "b")
					w.Expect(err).To(MatchError(children.ErrForeign))
					if !strings.Contains(err.Error(), "controls it") && !strings.Contains(err.Error(), "a deleted ConfigMap") {
						w.Expect(err).To(MatchError(ContainSubstring(strings.ReplaceAll(whose, "  ", " "))))
					}
					foreign, ok := errors.AsType[*patch.ForeignError](err)
					w.Expect(ok).To(BeTrue())
					w.Expect(foreign.Key.String()).To(Equal("a/copy"))
					w.Expect(w.copyIn("a")).To(Equal(before))
					w.Expect(w.where()).To(Equal([]string{"a", "b"}), "the other one is written")
					w.Expect(w.ensureIn("b")).To(Succeed())
					w.Expect(w.copyIn("a")).To(Equal(before), "not deleted, either")
					w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
					w.Expect(w.copyIn("a")).To(Equal(before))
				})
			})
		}
	}
}

func TestAdoptTakesOnlyObjectsWithoutAnOwner(t *testing.T) {
	adopt := &children.Options{ByLabel: true, Adopt: func(s metav1.Object) bool { return s.GetAnnotations()["old"] == "yes" }}
	inFixture(t, adopt, func(w *fixture) {
		old := map[string]string{"old": "yes"}
		w.createIn("a", func(s *corev1.Secret) { s.Annotations = old })
		w.createIn("b", func(*corev1.Secret) {})
		w.createIn("c", func(s *corev1.Secret) {
			s.Annotations = map[string]string{"old": "yes"}
			markOf(w.newOwner("other")).Put(s)
		})
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site", "PATCH /api/v1/namespaces/a/secrets/copy"}))
		w.Expect(w.copyIn("a").Labels).To(HaveKeyWithValue(mark.UIDLabel, string(w.owner.UID)))
		w.Expect(w.ensureIn("a", "b")).To(MatchError(children.ErrForeign))
		w.Expect(w.ensureIn("a", "c")).To(MatchError(children.ErrForeign))
	})
}

// The owner was deleted, and its children are still there.
func TestOrphansOfADeletedOwnerAreDeletedWhenTheServerSaysThatItIs(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		theirs := w.createIn("c", func(s *corev1.Secret) { markOf(w.newOwner("other")).Put(s) })
		w.requests()
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "b", "c"}), "it is alive")
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site"}))
		w.deleteOwner()
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		synctest.Wait()
		w.Expect(w.where()).To(Equal([]string{"c"}))
		w.Expect(w.copyIn("c")).To(Equal(theirs))
		w.requests()
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		w.Expect(w.requests()).To(BeEmpty())
	})
}

// A proxy answers 404, or the version is not served.
func TestAnAnswerThatProvesNothingDeletesNoOrphans(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.deleteOwner()
		for _, page := range absenttest.Pages(schema.GroupResource{Resource: "configmaps"}, "site") {
			config := page.Config()
			config.Host = "http://apisim" // as the children's
			proxy := kubernetes.NewForConfigOrDie(config)
			set := children.New(ownerKind, proxy.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, byLabel)
			err := set.DeleteOrphans(w.t.Context(), key("site"))
			w.Expect(err).To(MatchError(ContainSubstring("checking whether the owner was deleted")), page.Name)
			w.Expect(w.where()).To(Equal([]string{"a"}))
		}
	})
}

func TestTheOrphansOfARecreatedOwnerAreAdoptedOrDeleted(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		was := w.copyIn("a")
		w.deleteOwner()
		w.owner = w.newOwner("site")
		w.Expect(w.ensureIn("a", "c")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "c"}))
		w.Expect(w.copyIn("a").UID).To(Equal(was.UID), "it was not deleted in between")
		w.Expect(w.copyIn("a").Labels).To(HaveKeyWithValue(mark.UIDLabel, string(w.owner.UID)))
		w.requests()
		w.Expect(w.ensureIn("a", "c")).To(Succeed())
		w.Expect(w.requests()).To(BeEmpty())
	})
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		w.deleteOwner()
		w.newOwner("site")
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		w.Expect(w.where()).To(BeEmpty(), "the server has an owner of another UID")
	})
}

// The cached owner is the one that was deleted, and the children belong to the
// new one.
func TestADeletedOwnerDoesNotTakeTheChildrenOfTheNewOne(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		old := w.owner
		w.deleteOwner()
		w.owner = w.newOwner("site")
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		is := w.owner
		for _, namespaces := range [][]string{{"a"}, {"a", "b"}, nil} {
			w.owner = old
			err := w.ensureIn(namespaces...)
			w.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
			w.Expect(w.where()).To(Equal([]string{"a", "b"}))
			w.Expect(w.copyIn("a").Labels).To(HaveKeyWithValue(mark.UIDLabel, string(is.UID)))
		}
		now := metav1.Now()
		old.DeletionTimestamp = &now
		w.Expect(w.set.DeleteAll(w.t.Context(), old)).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "b"}))
	})
}

func TestDeleteAllDeletesTheChildrenOfAnOwnerThatIsBeingDeleted(t *testing.T) {
	for _, o := range []*children.Options{nil, byLabel} {
		inFixture(t, o, func(w *fixture) {
			w.Expect(w.ensureIn("d")).To(Succeed())
			err := w.set.DeleteAll(w.t.Context(), w.owner)
			w.Expect(err).To(MatchError(ContainSubstring("the owner is not being deleted")))
			w.Expect(terminal.Is(err)).To(BeTrue())
			now := metav1.Now()
			w.owner.DeletionTimestamp = &now
			w.Expect(w.set.DeleteAll(w.t.Context(), w.owner)).To(Succeed())
			w.Expect(w.where()).To(BeEmpty())
		})
	}
}

// A listing that may lack children is no proof that there are none.
func TestDeleteAllNeedsACompleteCache(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a")).To(Succeed())
		now := metav1.Now()
		w.owner.DeletionTimestamp = &now
		w.freeze()
		w.Expect(w.set.DeleteAll(w.t.Context(), w.owner)).To(MatchError(ContainSubstring("is not complete")))
		w.Expect(w.where()).To(Equal([]string{"a"}))
	})
}

// A tenant removes the annotation, or a program owned by reference before.
func TestAMarkIsRestored(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		ref := *metav1.NewControllerRef(w.owner, ownerKind)
		w.createIn("d", func(s *corev1.Secret) { s.OwnerReferences = []metav1.OwnerReference{ref} })
		w.createIn("a", func(s *corev1.Secret) {
			markOf(w.owner).Put(s)
			s.Annotations = nil
		})
		w.Expect(w.ensureIn("a", "d")).To(Succeed())
		for _, namespace := range []string{"a", "d"} {
			got, ok := mark.Of(w.copyIn(namespace))
			w.Expect(ok).To(BeTrue())
			w.Expect(got).To(Equal(markOf(w.owner)))
			w.Expect(w.copyIn(namespace).OwnerReferences).To(BeEmpty())
		}
	})
}

// A tenant's conflict must not keep Secrets in namespaces that have lost the
// right to them.
func TestAFailureInANamespaceKeepsTheChildrenOfThatNamespaceOnly(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a", "b", "c")).To(Succeed())
		second := in("a")[0]
		second.Name = "second"
		_, err := w.set.Ensure(w.t.Context(), w.owner, append(in("a", "b", "c"), second)...)
		w.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		blocked := in("a")[0]
		blocked.Name = "blocked"
		_, err = w.user.CoreV1().Secrets("a").Create(w.t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "blocked"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		_, err = w.set.Ensure(w.t.Context(), w.owner, append(in("a", "b"), blocked)...)
		synctest.Wait()
		w.Expect(err).To(MatchError(children.ErrForeign))
		w.Expect(terminal.Is(err)).To(BeFalse())
		w.Expect(w.where()).To(Equal([]string{"a", "a", "a", "b"}), "c is deleted, and the second one of a is not")
	})
}

// A mark names the owner of an object without an owner reference. This is true
// for a Set that owns by reference, too.
func TestASetThatOwnsByReferenceLeavesWhatAFormerOwnerHasMarked(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		former := w.owner.DeepCopy()
		former.UID = "former"
		before := w.createIn("d", func(s *corev1.Secret) { markOf(former).Put(s) })
		w.Expect(w.ensureIn("d")).To(MatchError(children.ErrForeign))
		w.Expect(w.copyIn("d")).To(Equal(before))
	})
}

// A child was created just before: the cache has been filled, and does not have
// it yet.
func TestDeleteAllWaitsUntilTheCacheIsAsNewAsTheServer(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		now := metav1.Now()
		w.owner.DeletionTimestamp = &now
		for range 20 {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "copy"}}
			markOf(w.owner).Put(s)
			_, err := w.user.CoreV1().Secrets("a").Create(w.t.Context(), s, metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
			w.Expect(w.set.DeleteAll(w.t.Context(), w.owner)).To(Succeed())
			w.Expect(w.where()).To(BeEmpty())
		}
	})
}
