package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

// logged runs an elector until stop is called. The diary has its log lines that
// contain the text.
func (x *fixture) logged(e *leader.Elector, text string) (stop func()) {
	logger := funcr.New(func(_, line string) {
		if strings.Contains(line, text) {
			x.Add("%s", line)
		}
	}, funcr.Options{})
	return x.Run(func(ctx context.Context) error {
		return e.Run(logr.NewContext(ctx, logger), func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		})
	})
}

// A replica cannot lead while a client that is not a replica renews the Lease,
// and no replica of the program says so unless the standby does. It must stay
// ready, because a rollout waits for ready replicas.
func TestAForeignHolderOfTheLeaseIsNamedWithAWayOut(t *testing.T) {
	inBubble(t, func(x *fixture) {
		e := x.elector("a")
		stop := x.logged(e, "another client")
		pass(time.Second)
		x.Expect(e.Warning()).To(Succeed())
		x.hold("stranger")
		pass(5 * time.Second)
		who := `^no replica of this program leads: "stranger", which is not the name of one, holds lease "default/test"; ` +
			`this replica has seen it since ` + moment + `, for `
		x.Expect(e.Warning()).To(MatchError(MatchRegexp(who + `[3-5]s, and has seen no renewal; a replica takes the lease at ` + moment +
			", unless it is renewed; `kubectl -n default get lease test -o yaml --show-managed-fields` shows its managers, which " +
			"are the clients that have written it$")))
		x.Expect(e.Ready()).To(Succeed())
		for range 12 {
			x.hold("stranger")
			pass(5 * time.Second)
		}
		x.Expect(e.Warning()).To(MatchError(MatchRegexp(who + `1m[0-5]s, and sees that it is renewed; stop that client, which is one of the ` +
			"managers that `kubectl -n default get lease test -o yaml --show-managed-fields` shows; a replica takes the lease 15s after the last renewal$")))
		x.Expect(e.Ready()).To(Succeed())
		x.Expect(x.Read()).To(HaveExactElements(
			MatchRegexp(`"another client holds the lease, waiting".*"holder"="stranger"`),
			MatchRegexp(`"another client holds the lease".*"error"=.*stranger.*"remedy"="stop that client`),
		))
		pass(time.Minute)
		x.Expect(e.Warning()).To(Succeed(), "it leads")
		x.Expect(e.Status().Leading).To(BeTrue())
		stop()
	})
}

// The log must not suggest that the Lease can be renewed because it can be
// read.
func TestTheLogSaysWhichRequestForTheLeaseSucceedsAgain(t *testing.T) {
	inBubble(t, func(x *fixture) {
		full := errors.New("etcdserver: mvcc: database space exceeded")
		writes := func(l *leaseapi.Link, err error) { l.Set(func(l *leaseapi.Link) { l.Full = err }) }
		link := x.API.Link(1)
		e := newElector(x.T, leaseOf(link, "a"), nil)
		stop := x.logged(e, "succeeds again")
		pass(10 * time.Second)
		writes(link, full)
		pass(5 * time.Second)
		writes(link, nil)
		pass(5 * time.Second)
		writes(link, full)
		pass(5 * time.Minute)
		x.Expect(e.Ready()).To(MatchError(ContainSubstring("taking lease")))
		x.Expect(x.Count("succeeds again")).To(Equal(1), "reading it has succeeded all the time")
		writes(link, nil)
		pass(time.Minute)
		x.Expect(x.Read()).To(HaveExactElements(
			MatchRegexp(`"lease request succeeds again" "request"="renewing"`),
			MatchRegexp(`"lease request succeeds again" "request"="taking"`),
		))
		stop()
	})
}
