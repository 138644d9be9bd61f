package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/reconcile"
)

// The other replica has cleaned up in the meantime: here the name belongs to
// the new object.
func TestANameThatWasTakenAgainIsForgottenWithItsSlot(t *testing.T) {
	inFixture(t, func(w *fixture) {
		_, err := w.client.CoreV1().ConfigMaps("d").Create(t.Context(), &configMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a", UID: "2"},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		var cleaned atomic.Bool
		lister := names.Func(func(context.Context) ([]names.Name, error) {
			if cleaned.Load() {
				return nil, nil
			}
			return []names.Name{{Key: key("a"), UID: "1"}}, nil
		})
		p, see := newParts(), w.recorder()
		o := &reconcile.Options{Shards: p, Known: lister}
		stop := w.start(o, func(ctx context.Context, r request) (reconcile.Result, error) {
			if _, ok := r.Object(); !ok && !cleaned.Load() {
				w.ran("failed")
				return nothing, errors.New("the zone is locked")
			}
			return see(ctx, r)
		})
		pass(time.Second)
		p.take('a')
		pass(time.Minute)
		w.Expect(w.reconciled()).To(ContainElements("object a2", "failed"))
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		cleaned.Store(true)
		pass(time.Hour)
		w.Expect(w.reconciled()).To(BeEmpty())
		p.take('a')
		pass(time.Hour)
		w.Expect(w.reconciled()).To(HaveEach("object a2"))
		w.Expect(stop()).To(Succeed())
	})
}
