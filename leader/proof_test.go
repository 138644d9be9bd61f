package leader_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// pages are the errors that a client makes of answers by others than the
// server.
func (x *fixture) pages() map[string]error {
	all := x.Pages("test")
	all["a status 409"] = apierrors.NewGenericServerResponse(http.StatusConflict, "update", schema.GroupResource{}, "test", "", 0, true)
	return all
}

func TestAPageForARenewalIsNoLossBeforeTheDeadline(t *testing.T) {
	inBubble(t, func(x *fixture) {
		link := x.API.Link(1)
		e := newElector(x.T, leaseOf(link, "a"), nil)
		stop := x.campaign(e, "a")
		for name, page := range x.pages() {
			pass(3 * time.Second) // it renews
			link.Set(func(l *leaseapi.Link) { l.Fail = page })
			pass(5 * time.Second)
			link.Set(func(l *leaseapi.Link) { l.Fail = nil })
			x.Expect(x.Read()).To(Equal([]string{"a leads"}), name)
		}
		link.Set(func(l *leaseapi.Link) { l.Fail = x.pages()["HTML"] })
		pass(15 * time.Second)
		x.Expect(x.Read()).To(Equal([]string{"a leads", "a ends: fenced"}), "the deadline stays")
		link.Set(func(l *leaseapi.Link) { l.Fail = nil })
		stop()
	})
}

// To take the Lease, a candidate must know that no replica holds it.
func TestAPageIsNoFreeLease(t *testing.T) {
	inBubble(t, func(x *fixture) {
		for name, page := range x.pages() {
			link := x.API.Link(1)
			link.Set(func(l *leaseapi.Link) { l.FailGet = page })
			e := newElector(x.T, leaseOf(link, "a"), nil)
			stop := x.campaign(e, "a")
			pass(time.Minute)
			x.Expect(x.Read()).To(BeEmpty(), name)
			x.Expect(e.Ready()).To(MatchError(And(ContainSubstring("reading lease"), Not(ContainSubstring("must exist")))), name)
			stop()
		}
	})
}

// A proxy that answers instead of the server is not asked again at once, nor by
// all candidates at the same time.
func TestAfterAPageACandidateWaitsForTheRetryPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, retry := NewWithT(t), 3*time.Second
		for _, page := range absenttest.Pages(coordinationv1.Resource("leases"), "test") {
			var asked []time.Time
			client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://proxy", Transport: transport(
				func(req *http.Request) (*http.Response, error) {
					asked = append(asked, time.Now())
					return page.Response(req), nil
				})}).CoordinationV1()
			e := newElector(t, leader.Lease{Client: client, Namespace: "default", Name: "test", Identity: "a"},
				&leader.Options{RetryPeriod: retry})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			g.Expect(e.Run(ctx, func(context.Context) error { return nil })).To(Succeed())
			cancel()
			g.Expect(len(asked)).To(BeNumerically(">", 10), page.Name)
			different := map[time.Duration]bool{}
			for i, at := range asked[1:] {
				gap := at.Sub(asked[i])
				different[gap] = true
				g.Expect(gap).To(And(BeNumerically(">=", retry), BeNumerically("<=", retry*6/5)), page.Name)
			}
			g.Expect(len(different)).To(BeNumerically(">", 1), page.Name)
		}
	})
}

// A conflict of the server's own means that another replica was faster. If
// another sender, such as an admission webhook, has sent the conflict, the
// error says so.
func TestAConflictThatIsNotTheServersIsNamed(t *testing.T) {
	for _, page := range absenttest.Conflicts() {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			server, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			config := absenttest.Intercept(server.Config("a"), func(r *http.Request) *absenttest.Page {
				if r.Method == http.MethodGet {
					return nil
				}
				return &page
			})
			client := kubernetes.NewForConfigOrDie(config).CoordinationV1()
			e := newElector(t, leader.Lease{Client: client, Namespace: "default", Name: "test", Identity: "a"}, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			time.AfterFunc(time.Minute-time.Second, func() {
				g.Expect(e.Ready()).To(MatchError(And(ContainSubstring("taking lease"), Not(ContainSubstring("not found")))), page.Name)
			})
			g.Expect(e.Run(ctx, func(context.Context) error { return errors.New("it leads") })).To(Succeed(), page.Name)
		})
	}
}
