package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

// inNarrow is inFixture with a cache of only those Secrets that have the mark.
func inNarrow(t *testing.T, o *children.Options, f func(w *fixture)) {
	t.Helper()
	o.Mark = ours
	inFixture(t, o, func(w *fixture) {
		w.freeze()
		w.secrets = informer.For(w.user.CoreV1().Secrets(""), &informer.Options{LabelSelector: "ours=yes"})
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, inOrder(o))
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.secrets.Run(ctx) }()
		synctest.Wait()
		f(w)
		stop()
		w.Expect(<-ended).To(Succeed())
	})
}

func (w *fixture) caches(name string) bool {
	_, ok := w.secrets.Get(types.NamespacedName{Namespace: "d", Name: name})
	return ok
}

func TestAChildThatHasLostTheLabelOfItsCacheIsFoundByTheRefusalAndGetsItBack(t *testing.T) {
	inNarrow(t, &children.Options{}, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.Expect(w.caches("a")).To(BeTrue())
		w.requests()
		w.edit("a", func(s *corev1.Secret) { s.Labels = nil })
		w.Expect(w.caches("a")).To(BeFalse())
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.Expect(w.requests()).To(Equal([]string{"POST secrets", "GET secrets/a", "PATCH secrets/a"}))
		w.Expect(w.secret("a").Labels).To(Equal(ours))
		w.Expect(w.caches("a")).To(BeTrue())
	})
}

func TestAnObjectOutsideOfANarrowCacheIsRefusedOrAdoptedAsOneInside(t *testing.T) {
	other := func(metav1.Object) bool { return true }
	for name, c := range map[string]struct {
		adopt   func(metav1.Object) bool
		owned   bool
		refused bool
	}{
		"nobody's":         {nil, false, true},
		"nobody's, wanted": {other, false, false},
		"another's":        {other, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			inNarrow(t, &children.Options{Adopt: c.adopt}, func(w *fixture) {
				var owners []*corev1.ConfigMap
				if c.owned {
					owners = append(owners, w.newOwner("other"))
				}
				before := w.create("a", map[string]string{"theirs": "yes"}, owners...)
				err := w.ensure("a")
				after := w.secret("a")
				if c.refused {
					w.Expect(err).To(MatchError(children.ErrForeign))
					w.Expect(after).To(Equal(before), "it is not written")
					return
				}
				w.Expect(err).NotTo(HaveOccurred())
				w.Expect(after.Labels).To(Equal(map[string]string{"theirs": "yes", "ours": "yes"}))
				w.Expect(metav1.IsControlledBy(after, w.owner)).To(BeTrue())
				w.Expect(w.caches("a")).To(BeTrue())
			})
		})
	}
}
