package children_test

import (
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/mark"
)

// copyTo copies the child in a to a namespace with its labels and annotations,
// as kubectl get and apply do, or a program that keeps Secrets in step.
func (w *fixture) copyTo(namespace string) {
	w.t.Helper()
	original := w.copyIn("a")
	w.createIn(namespace, func(s *corev1.Secret) {
		s.Labels, s.Annotations, s.Data = original.Labels, original.Annotations, original.Data
	})
}

func TestACopyOfAChildIsNotDeleted(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.copyTo("theirs")
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a", "theirs"}))
		w.deleteOwner()
		synctest.Wait()
		w.Expect(w.set.DeleteOrphans(w.t.Context(), key("site"))).To(Succeed())
		synctest.Wait()
		w.Expect(w.where()).To(Equal([]string{"theirs"}))
	})
}

func TestDeleteAllLeavesCopiesOfAChild(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.copyTo("theirs")
		now := metav1.Now()
		w.owner.DeletionTimestamp = &now
		w.Expect(w.set.DeleteAll(w.t.Context(), w.owner)).To(Succeed())
		synctest.Wait()
		w.Expect(w.where()).To(Equal([]string{"theirs"}))
	})
}

func TestACopyInThePlaceOfAWantedChildBecomesIt(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.copyTo("b")
		w.Expect(w.ensureIn("a", "b")).To(Succeed())
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a"}))
	})
}

func TestAChildOfAnOlderVersionIsDeletedAsBefore(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.createIn("old", func(s *corev1.Secret) {
			markOf(w.owner).Put(s)
			delete(s.Annotations, mark.ChildAnnotation) // older versions did not write it
		})
		w.Expect(w.ensureIn("a")).To(Succeed())
		w.Expect(w.where()).To(Equal([]string{"a"}))
	})
}
