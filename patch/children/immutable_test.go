package children_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// strict refuses changes of the data of Secrets, as servers do of immutable
// ones, and of the label "own".
type strict struct{ typedcorev1.SecretInterface }

func (s strict) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string,
) (*corev1.Secret, error) {
	if strings.Contains(string(data), `"own"`) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, name, field.ErrorList{
			field.Forbidden(field.NewPath("metadata", "labels"), "may not be changed"),
		})
	}
	if strings.Contains(string(data), `"data"`) {
		errs := field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")}
		if strings.Contains(string(data), `"wrong"`) {
			errs = append(errs, field.Invalid(field.NewPath("type"), "wrong", "must be known"))
		}
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, name, errs)
	}
	return s.SecretInterface.Patch(ctx, name, pt, data, o, sub...)
}

// inStrict makes children, and a set whose server does not let their data be
// changed.
func inStrict(t *testing.T, o *children.Options, test func(w *fixture, ensure func(wanted ...child) error)) {
	t.Helper()
	inFixture(t, o, func(w *fixture) {
		w.Expect(w.ensure("a", "b", "c")).To(Succeed())
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets,
			func(namespace string) strict { return strict{w.client.CoreV1().Secrets(namespace)} }, inOrder(o))
		synctest.Wait()
		w.requests()
		test(w, func(wanted ...child) error { return ensureAll(w, wanted...) })
	})
}

func ensureAll(w *fixture, wanted ...child) error {
	w.t.Helper()
	_, err := w.set.Ensure(w.t.Context(), w.owner, wanted...)
	synctest.Wait()
	return err
}

// relabelled are children with other data, and a label.
func relabelled(names ...string) []child {
	all := wants(names...)
	for i := range all {
		all[i].Edit = func(s *corev1.Secret) {
			s.Data = map[string][]byte{"is": []byte("changed")}
			s.Labels = map[string]string{"seen": "yes"}
		}
	}
	return all
}

func TestAnImmutableFieldIsNamedAndTheRestIsWritten(t *testing.T) {
	inStrict(t, nil, func(w *fixture, ensure func(wanted ...child) error) {
		err := ensure(append(relabelled("a"), wants("b", "c", "d")...)...)
		w.Expect(err).To(MatchError(And(ContainSubstring("the child's fields data are immutable"), ContainSubstring(`"d/a"`),
			ContainSubstring("MaxRecreate"))))
		w.Expect(patch.IsStale(err)).To(BeFalse())
		w.Expect(w.secret("a").Labels).To(HaveKeyWithValue("seen", "yes"))
		w.Expect(w.secret("a").Data).To(HaveKeyWithValue("is", []byte("a")))
		w.Expect(w.has()).To(ContainElement("d"), "the others are written")
	})
}

func TestAtMostMaxRecreateChildrenAreCreatedAgain(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 2}, func(w *fixture, ensure func(wanted ...child) error) {
		old := w.secret("a").UID
		err := ensure(relabelled("a", "b", "c")...)
		w.Expect(err).To(MatchError(ContainSubstring("the child's fields data are immutable")))
		w.Expect(w.has()).To(Equal([]string{"c"}))
		w.Expect(count(w.requests(), "DELETE")).To(Equal(2))
		w.Expect(ensure(relabelled("a", "b")...)).To(Succeed())
		w.Expect(w.secret("a").UID).NotTo(Equal(old))
		w.Expect(w.secret("a").Data).To(HaveKeyWithValue("is", []byte("changed")))
	})
	inStrict(t, &children.Options{MaxRecreate: 3}, func(w *fixture, ensure func(wanted ...child) error) {
		w.Expect(ensure(relabelled("a", "b", "c")...)).To(MatchError(patch.IsStale, "IsStale"), "the next reconcile creates them")
		w.Expect(ensure(relabelled("a", "b", "c")...)).To(Succeed())
		w.Expect(w.has()).To(HaveLen(3))
	})
}

// A late cache must not have its children deleted.
func TestALateOwnerRecreatesNothing(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 2}, func(w *fixture, ensure func(wanted ...child) error) {
		_, err := w.user.CoreV1().ConfigMaps("d").Patch(t.Context(), "site", types.MergePatchType,
			[]byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(ensure(relabelled("a", "b", "c")...)).To(MatchError(patch.IsStale, "IsStale"))
		w.Expect(w.has()).To(HaveLen(3))
	})
}

// A client that has changed the child since may have made it as the owner wants
// it.
func TestAChildThatWasChangedIsNotRecreated(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 1}, func(w *fixture, ensure func(wanted ...child) error) {
		w.freeze()
		w.edit("a", func(s *corev1.Secret) { s.Annotations = map[string]string{"theirs": "yes"} })
		w.Expect(ensure(append(relabelled("a"), wants("b", "c")...)...)).To(MatchError(patch.IsStale, "IsStale"))
		w.Expect(w.has()).To(HaveLen(3))
	})
}

// A value that is wrong is no immutable field, and another object would have it
// as well.
func TestAWrongValueBesideAnImmutableFieldRecreatesNothing(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 1}, func(w *fixture, ensure func(wanted ...child) error) {
		all := relabelled("a")
		all[0].Edit = func(s *corev1.Secret) {
			s.Data = map[string][]byte{"is": []byte("changed")}
			s.Type = "wrong"
		}
		err := ensure(append(all, wants("b", "c")...)...)
		w.Expect(err).To(MatchError(And(ContainSubstring("field is immutable"), ContainSubstring("type: Invalid value"))))
		w.Expect(patch.IsStale(err)).To(BeFalse())
		w.Expect(w.has()).To(HaveLen(3))
	})
}

// Another object of the same metadata is refused as well.
func TestForImmutableMetadataNothingIsRecreated(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 1}, func(w *fixture, ensure func(wanted ...child) error) {
		all := wants("a", "b", "c")
		all[0].Edit = func(s *corev1.Secret) { s.Labels = map[string]string{"own": "yes"} }
		err := ensure(all...)
		w.Expect(err).To(MatchError(ContainSubstring("metadata.labels: Forbidden: may not be changed")))
		w.Expect(patch.IsStale(err)).To(BeFalse())
		w.Expect(w.has()).To(HaveLen(3))
	})
}

// What an owner has created instead of the children that it no longer wants
// makes no room for their deletion.
func TestAllChildrenRenamedAreTooMany(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		var was, is []string
		for _, name := range named(40) {
			was, is = append(was, "old-"+name), append(is, "new-"+name)
		}
		w.Expect(w.ensure(was...)).To(Succeed())
		for range 3 {
			err := w.ensure(is...)
			w.Expect(err).To(MatchError(children.ErrLimit))
			w.Expect(err).To(MatchError(ContainSubstring("40 of 40 children are no longer wanted")))
			w.Expect(w.has()).To(HaveLen(80))
		}
		w.Expect(w.ensure(append(is, was[20:]...)...)).To(Succeed(), "half of them is a share")
		w.Expect(w.ensure(append(is, was[20:]...)...)).To(Succeed())
		w.Expect(w.has()).To(HaveLen(60))
	})
}

// A child whose finalizer keeps it cannot be created again yet. Until then no
// other child is deleted to be recreated.
func TestAChildThatItsFinalizerKeepsCountsAsRecreated(t *testing.T) {
	inStrict(t, &children.Options{MaxRecreate: 1}, func(w *fixture, ensure func(wanted ...child) error) {
		w.edit("c", func(s *corev1.Secret) { s.Finalizers = []string{"example.com/f"} })
		w.requests()
		_ = ensure(append(wants("a", "b"), relabelled("c")...)...)
		w.Expect(w.secret("c").DeletionTimestamp).NotTo(BeNil())
		for range 5 {
			w.Expect(ensure(relabelled("a", "b", "c")...)).To(MatchError(ContainSubstring(
				`child "d/c" is being deleted, and will be created again once its finalizers [example.com/f] are removed`)))
		}
		w.Expect(count(w.requests(), "DELETE")).To(Equal(1))
		w.Expect(w.has()).To(Equal([]string{"a", "b", "c"}))
		w.Expect(w.secret("b").DeletionTimestamp).To(BeNil())
		w.Expect(w.secret("b").Labels).To(HaveKeyWithValue("seen", "yes"), "the rest is written")

		w.edit("c", func(s *corev1.Secret) { s.Finalizers = nil })
		for range 6 {
			_ = ensure(relabelled("a", "b", "c")...)
		}
		w.Expect(ensure(relabelled("a", "b", "c")...)).To(Succeed(), "one after the other")
		w.Expect(w.secret("a").Data).To(HaveKeyWithValue("is", []byte("changed")))
		w.Expect(w.secret("c").Data).To(HaveKeyWithValue("is", []byte("changed")))
	})
}
