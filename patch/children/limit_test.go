package children_test

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch/children"
)

// touch changes the owner on the server and in the cache.
func (w *fixture) touch(edit func(*corev1.ConfigMap)) {
	w.t.Helper()
	owner, err := w.user.CoreV1().ConfigMaps("d").Get(w.t.Context(), "site", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	edit(owner)
	generation := owner.Generation
	w.owner, err = w.user.CoreV1().ConfigMaps("d").Update(w.t.Context(), owner, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.owner.Generation = generation
}

// generation sets the generation of an owner whose spec has changed n times.
// ConfigMaps do not have a generation of their own.
func (w *fixture) generation(n int64) {
	w.owner.Generation, w.owner.Data = n, map[string]string{"generation": fmt.Sprint(n)}
}

func TestAChangedSpecMayWantFewerChildren(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		names := named(100)
		w.generation(3)
		w.Expect(w.ensure(names...)).To(Succeed())
		w.Expect(w.ensure(names...)).To(Succeed())
		w.Expect(w.ensure(names[:5]...)).To(MatchError(children.ErrLimit), "the listing of the names has shrunken")
		w.Expect(w.ensure()).To(MatchError(children.ErrLimit), "or is empty")
		w.Expect(w.has()).To(HaveLen(100))
		w.generation(4)
		w.Expect(w.ensure(names[:50]...)).To(Succeed())
		w.Expect(w.has()).To(HaveLen(50))
		w.Expect(w.ensure(names[:50]...)).To(Succeed())
		w.Expect(w.ensure(names[:1]...)).To(MatchError(children.ErrLimit), "that change is done")
		w.generation(5)
		w.Expect(w.ensure(names[:1]...)).To(Succeed())
		w.Expect(w.has()).To(HaveLen(1))
	})
}

// Without a status subresource, a write of the status increases the generation,
// too. A server that was restored may decrease it.
func TestAGenerationAloneIsNoChangeOfTheSpec(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		names := named(100)
		w.generation(3)
		w.Expect(w.ensure(names...)).To(Succeed())
		w.Expect(w.ensure(names...)).To(Succeed())
		for _, generation := range []int64{4, 2} {
			w.owner.Generation = generation
			w.Expect(w.ensure()).To(MatchError(children.ErrLimit), "generation %d", generation)
		}
		w.Expect(w.has()).To(HaveLen(100))
		w.generation(5)
		w.Expect(w.ensure()).To(Succeed())
		w.Expect(w.has()).To(BeEmpty())
	})
}

// site is an owner whose state is beside its spec, in a member that is not
// called status.
type site struct {
	*corev1.ConfigMap

	Spec   map[string]string `json:"spec"`
	Result string            `json:"result,omitempty"`
}

func TestAMemberBesideTheSpecIsNoChangeOfTheSpec(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		owner := &site{ConfigMap: w.owner, Spec: map[string]string{"children": "many"}}
		ensure := func(names ...string) error {
			_, err := w.set.Ensure(t.Context(), owner, wants(names...)...)
			synctest.Wait()
			return err
		}
		owner.Generation = 3
		w.Expect(ensure(named(100)...)).To(Succeed())
		w.Expect(ensure(named(100)...)).To(Succeed())
		owner.Generation, owner.Result = 4, "all are there"
		w.Expect(ensure()).To(MatchError(children.ErrLimit))
		w.Expect(w.has()).To(HaveLen(100))
		owner.Generation, owner.Spec["children"] = 5, "none"
		w.Expect(ensure()).To(Succeed())
		w.Expect(w.has()).To(BeEmpty())
	})
}

// A program that has just started does not know whether the owner's spec has
// changed.
func TestAfterARestartNoChangeOfTheSpecIsKnown(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		names := named(100)
		w.generation(3)
		w.Expect(w.ensure(names...)).To(Succeed())
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, nil)
		w.generation(4)
		for range 2 {
			w.Expect(w.ensure(names[:5]...)).To(MatchError(children.ErrLimit))
		}
		w.Expect(w.has()).To(HaveLen(100))
	})
}

var confirmation = regexp.MustCompile(`annotate the owner with (\S+)=(\w+)`)

func TestAnAnnotationOfTheOwnerConfirmsTheDeletionsThatTheErrorIsAbout(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		names := named(100)
		w.Expect(w.ensure(names...)).To(Succeed())
		err := w.ensure(names[:5]...)
		w.Expect(err).To(MatchError(children.ErrLimit))
		w.Expect(terminal.Is(err)).To(BeTrue())
		found := confirmation.FindStringSubmatch(err.Error())
		w.Expect(found).To(HaveLen(3))
		w.Expect(found[1]).To(Equal(children.ConfirmAnnotation))
		w.touch(func(owner *corev1.ConfigMap) { owner.Annotations = map[string]string{found[1]: found[2]} })
		w.Expect(w.ensure(names[:4]...)).To(MatchError(children.ErrLimit), "other deletions")
		w.Expect(w.has()).To(HaveLen(100))
		w.Expect(w.ensure(names[:5]...)).To(Succeed())
		w.Expect(w.has()).To(HaveLen(5))
		w.Expect(w.ensure(names...)).To(Succeed())
		w.Expect(w.ensure(names[:5]...)).To(MatchError(children.ErrLimit), "these are other objects, of other UIDs")
	})
}

func TestOwnersWithoutChildrenAreForgotten(t *testing.T) {
	inFixture(t, &children.Options{MaxCount: 1}, func(w *fixture) {
		for i := range 40 {
			w.owner = w.newOwner(fmt.Sprint("owner-", i))
			w.generation(1)
			name := []string{fmt.Sprint("a-", i), fmt.Sprint("b-", i)}
			w.Expect(w.ensure(name...)).To(Succeed())
			w.Expect(children.Notes(w.set)).To(BeNumerically(">", 0))
			w.delete(name[0])
			w.delete(name[1])
		}
		w.Expect(children.Notes(w.set)).To(BeNumerically("<=", 20))
	})
	inFixture(t, &children.Options{MaxCount: 2}, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.Expect(children.Notes(w.set)).To(BeZero(), "the limit is not about few")
	})
}

// An owner that the server does not return is not confirmed.
func TestAnOwnerThatCannotBeReadDeletesNothing(t *testing.T) {
	inFixture(t, nil, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.requests()
		w.fault = func(n int) (before, after error) { return errors.New("refused"), nil }
		w.Expect(w.ensure("a")).To(MatchError(ContainSubstring("confirming that the owner has not changed")))
		w.Expect(w.requests()).To(Equal([]string{"GET configmaps/site"}))
		w.Expect(w.has()).To(HaveLen(2))
	})
}
