package leader_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
)

// pages are the errors that a client makes of answers by others than the server.
func (x *fixture) pages() map[string]error {
	all := map[string]error{}
	for _, page := range absenttest.Pages(coordinationv1.Resource("leases"), "test") {
		all[page.Name] = page.Err(x.t.Context(), coordinationv1.SchemeGroupVersion.WithResource("leases"), "test")
		x.Expect(all[page.Name]).To(HaveOccurred())
	}
	all["a status 409"] = apierrors.NewGenericServerResponse(http.StatusConflict, "update", schema.GroupResource{}, "test", "", 0, true)
	return all
}

func TestAPageForARenewalIsNoLossBeforeTheDeadline(t *testing.T) {
	inBubble(t, func(x *fixture) {
		link := x.api.Link(1)
		e := newElector(x.t, leaseOf(link, "a"), nil)
		stop := x.campaign(e, "a")
		for name, page := range x.pages() {
			pass(3 * time.Second) // it renews
			link.Set(func(l *leaseapi.Link) { l.Fail = page })
			pass(5 * time.Second)
			link.Set(func(l *leaseapi.Link) { l.Fail = nil })
			x.Expect(x.read()).To(Equal([]string{"a leads"}), name)
		}
		link.Set(func(l *leaseapi.Link) { l.Fail = x.pages()["HTML"] })
		pass(15 * time.Second)
		x.Expect(x.read()).To(Equal([]string{"a leads", "a ends: fenced"}), "the deadline stays")
		link.Set(func(l *leaseapi.Link) { l.Fail = nil })
		stop()
	})
}

// To take the Lease, a candidate must know that nobody has it.
func TestAPageIsNoFreeLease(t *testing.T) {
	inBubble(t, func(x *fixture) {
		for name, page := range x.pages() {
			link := x.api.Link(1)
			link.Set(func(l *leaseapi.Link) { l.FailGet = page })
			e := newElector(x.t, leaseOf(link, "a"), nil)
			stop := x.campaign(e, "a")
			pass(time.Minute)
			x.Expect(x.read()).To(BeEmpty(), name)
			x.Expect(e.Ready()).To(MatchError(And(ContainSubstring("reading lease"), Not(ContainSubstring("must exist")))), name)
			stop()
		}
	})
}
