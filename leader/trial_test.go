package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/homeostat/homeostat/leader"
)

// A trial is an API for leases, what happened in order, and who had which slot,
// in a bubble of virtual time.
type trial struct {
	*WithT
	*diary
	*owners
	t     *testing.T
	api   *leaseAPI
	links int64 // seeds of the electors' links
}

// inTrial runs f, after which no slot may have had two owners at once.
func inTrial(t *testing.T, f func(w *trial)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &trial{WithT: NewWithT(t), diary: &diary{}, owners: newOwners(), t: t, api: newLeaseAPI(t)}
		f(w)
		w.Expect(w.fault).To(BeEmpty())
	})
}

// run runs f until stop is called, which wants it to have no error.
func (w *trial) run(f func(context.Context) error) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	wait := background(func() error { return f(ctx) })
	return func() {
		w.t.Helper()
		cancel()
		w.Expect(wait()).To(Succeed())
	}
}

// campaign runs e until stop is called. The diary tells when it leads.
func (w *trial) campaign(e *leader.Elector, name string) (stop func()) {
	w.t.Helper()
	return w.run(func(ctx context.Context) error { return e.Run(ctx, untilDone(w.diary, name)) })
}

// elector returns one with a link of its own.
func (w *trial) elector(identity string) *leader.Elector {
	w.t.Helper()
	w.links++
	return newElector(w.t, leaseOf(w.api.link(w.links), identity), nil)
}

// released wants the lease to be nobody's, and returns it.
func (w *trial) released(name string) *coordinationv1.Lease {
	w.t.Helper()
	l, err := w.api.get(name)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(l.Spec.HolderIdentity).To(BeNil())
	return l
}

// A shardReplica is one that runs. The trial knows which slots are its.
type shardReplica struct {
	*leader.Shards
	trial *trial
	link  *link
	stop  context.CancelFunc
	wait  func() error
}

func (w *trial) shards(identity string, o *leader.ShardOptions) *shardReplica {
	w.t.Helper()
	l := w.api.link(int64(len(identity)))
	r := &shardReplica{Shards: newShards(w.t, l, identity, o), trial: w, link: l}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(w.t.Context())
	r.wait = background(func() error { return r.Run(ctx, w.work(identity, time.Second)) })
	return r
}

func (r *shardReplica) end() {
	r.trial.t.Helper()
	r.stop()
	r.trial.Expect(r.wait()).To(Succeed())
}

// die is kill -9: nothing of it reaches the API any more.
func (r *shardReplica) die() {
	r.link.set(func(l *link) { l.fail = errors.New("dead") })
	r.stop()
	_ = r.wait()
}

// pass lets virtual time go by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
