package informer_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

// fixture is an informer that runs against a scripted server, and the events
// that its handler has received.
type fixture struct {
	*WithT
	t      *testing.T
	server *script
	nodes  *informer.Informer[*corev1.Node]
	told   *record
}

// with runs f in virtual time with an informer whose requests the steps answer.
func with(t *testing.T, f func(x *fixture), steps ...step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &fixture{WithT: NewWithT(t), t: t, told: &record{}}
		x.nodes, x.server = scripted(t, nil, steps...)
		x.nodes.Handle(x.told.hear)
		stop := running(t.Context(), x.nodes)
		defer stop()
		f(x)
	})
}

// sees waits until the informer has seen a resourceVersion. It then compares
// the events that the handler has received with told, and the requests with
// asked.
func (x *fixture) sees(resourceVersion string, told []string, asked ...string) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), 2*time.Minute)
	defer cancel()
	x.Expect(x.nodes.WaitFor(ctx, resourceVersion)).To(Succeed())
	x.Expect(x.told.heard()).To(Equal(told))
	if len(asked) > 0 {
		x.Expect(x.server.asked()).To(Equal(asked))
	}
}

// why returns the reason for which the informer has not synced.
func (x *fixture) why() error {
	ctx, cancel := context.WithCancel(x.t.Context())
	cancel()
	return x.nodes.WaitForSync(ctx)
}

// delayed waits for d and then answers as s does.
func delayed(d time.Duration, s step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			s(w, r)
		case <-r.Context().Done():
		}
	}
}

func TestAListIsStreamedAndGoesOnAsAWatch(t *testing.T) {
	with(t, func(x *fixture) {
		x.sees("20", []string{"known a/2", "known b/1", "updated b/1", "deleted a/2"}, "stream")
		x.Expect(x.nodes.LastResourceVersion()).To(Equal("20"))
	}, stream(hold, added(versioned("b", "1", "5")), added(versioned("a", "2", "7")), listEnd("10"),
		modified(versioned("b", "1", "11")), deleted(versioned("a", "2", "12")), bookmark("20")))
}

func TestAServerThatCannotStreamListsIsListed(t *testing.T) {
	with(t, func(x *fixture) {
		x.sees("11", []string{"known a/1", "updated a/1"}, "stream", "list 0", "watch 10")
	}, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
		list("10", versioned("a", "1", "5")), stream(hold, modified(versioned("a", "1", "11"))))
}

func TestAForbiddenListIsNamedAndRetried(t *testing.T) {
	forbidden := refuse(http.StatusForbidden, metav1.StatusReasonForbidden)
	with(t, func(x *fixture) {
		<-time.After(15 * time.Second)
		x.Expect(len(x.server.asked())).To(BeNumerically(">=", 3))
		x.Expect(x.why()).To(MatchError(And(ContainSubstring("first list of nodes"),
			ContainSubstring("Forbidden"), ContainSubstring("verbs list and watch"))))
		x.Expect(x.nodes.HasSynced()).To(BeFalse())
		x.sees("10", []string{"known a/1"})
	}, forbidden, forbidden, delayed(20*time.Second, forbidden), list("10", versioned("a", "1", "5")), hold)
}

func TestASlowListIsNamed(t *testing.T) {
	with(t, func(x *fixture) {
		<-time.After(time.Minute)
		x.Expect(x.why()).To(MatchError(ContainSubstring("listing: no answer for")))
		x.sees("10", []string{"known a/1"})
	}, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid),
		delayed(2*time.Minute, list("10", versioned("a", "1", "5"))), hold)
}

// The watch has expired meanwhile (410).
func TestARecreatedObjectIsDeletedAndThenAdded(t *testing.T) {
	expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
	with(t, func(x *fixture) {
		x.sees("21", []string{
			"known a/1", "known b/2", "known c/3",
			"deleted b/2", "deleted c/3", "added c/4", "added d/5", "updated a/1",
		}, "stream", "stream 10")
	}, stream(end, added(versioned("a", "1", "5")), added(versioned("b", "2", "6")), added(versioned("c", "3", "7")),
		listEnd("10"), expired),
		stream(hold, added(versioned("a", "1", "5")), added(versioned("c", "4", "15")), added(versioned("d", "5", "16")),
			listEnd("20"), modified(versioned("a", "1", "21"))))
}

func TestAWatchIsResumedWhereItWas(t *testing.T) {
	with(t, func(x *fixture) {
		x.sees("12", []string{"known a/1", "updated a/1", "deleted a/1"}, "stream", "watch 11")
	}, stream(drop, added(versioned("a", "1", "5")), listEnd("10"), modified(versioned("a", "1", "11"))),
		stream(hold, deleted(versioned("a", "1", "12"))))
}

func TestAResourceMayDisappearAndAppearAgain(t *testing.T) {
	gone := refuse(http.StatusNotFound, metav1.StatusReasonNotFound)
	expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
	with(t, func(x *fixture) {
		x.sees("30", []string{"known a/1", "deleted a/1", "added a/2"})
	}, gone, gone, gone, gone, stream(drop, added(versioned("a", "1", "5")), listEnd("10"), expired),
		gone, gone, stream(hold, added(versioned("a", "2", "30")), listEnd("30")))
}

// The watch has missed that the object was recreated, or the event is from
// another server. Only a list shows which.
func TestADeletionOfAnotherUIDIsFollowedByAList(t *testing.T) {
	for name, row := range map[string]struct {
		listed []any
		hears  []string
	}{
		"recreated": {[]any{listEnd("20")}, []string{"known a/1", "deleted a/1"}},
		"foreign":   {[]any{added(versioned("a", "1", "5")), listEnd("20")}, []string{"known a/1"}},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(x *fixture) {
				x.sees("20", row.hears, "stream", "stream")
			}, stream(hold, added(versioned("a", "1", "5")), listEnd("10"), deleted(versioned("a", "2", "20"))),
				stream(hold, row.listed...))
		})
	}
}

// If a server lets watches expire at once, the objects are not listed again
// without a pause.
func TestTheListAfterAnExpiredWatchComesAfterAPause(t *testing.T) {
	expired := event("ERROR", failure(http.StatusGone, metav1.StatusReasonExpired))
	began := time.Now()
	with(t, func(x *fixture) {
		began = time.Now()
		x.sees("20", nil)
		x.Expect(time.Since(began)).To(BeNumerically("~", 5*time.Second+1200*time.Millisecond, 400*time.Millisecond))
	}, stream(later(stream(end, expired)), listEnd("10")), stream(hold, listEnd("20")))
}
