package leaseapi

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/leader"
)

// ErrDead is the error of clients of a killed replica.
var ErrDead = errors.New("the replica is dead")

// ErrForbidden is the error of clients without permission.
var ErrForbidden = errors.New("the request is forbidden")

// Fixture is the environment of one test in a bubble of virtual time. It has an
// API for Leases, a diary of events in order, and a record of the owners of the
// slots.
type Fixture struct {
	*gomega.WithT
	*Diary
	*Owners

	T   *testing.T
	API *API
}

// InBubble runs f in a bubble of virtual time, and then fails the test if a
// slot ever had two owners at once.
func InBubble(t *testing.T, f func(x *Fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &Fixture{WithT: gomega.NewWithT(t), Diary: &Diary{}, Owners: newOwners(), T: t, API: New(t)}
		f(x)
		x.Expect(x.conflict()).To(gomega.BeEmpty())
	})
}

// Run runs f in a goroutine. stop ends the context of f, waits until f returns,
// and fails the test if f returns an error.
func (x *Fixture) Run(f func(context.Context) error) (stop func()) {
	x.T.Helper()
	ctx, cancel := context.WithCancel(x.T.Context())
	wait := Background(func() error { return f(ctx) })
	return func() {
		x.T.Helper()
		cancel()
		x.Expect(wait()).To(gomega.Succeed())
	}
}

// Released fails the test if the Lease with this name has a holder, and returns
// the Lease.
func (x *Fixture) Released(name string) *coordinationv1.Lease {
	x.T.Helper()
	l, err := x.API.Get(name)
	x.Expect(err).NotTo(gomega.HaveOccurred())
	x.Expect(l.Spec.HolderIdentity).To(gomega.BeNil())
	return l
}

// Free reports whether the Lease has no holder.
func (x *Fixture) Free(name string) bool {
	x.T.Helper()
	l, err := x.API.Get(name)
	x.Expect(err).NotTo(gomega.HaveOccurred())
	return l.Spec.HolderIdentity == nil
}

// Touch edits an annotation of a Lease every ten seconds until stop is called,
// like tools that write the time into objects.
func (x *Fixture) Touch(name string) (stop func()) {
	return x.Run(func(ctx context.Context) error {
		for n := 0; ctx.Err() == nil; n++ {
			if l, err := x.API.Get(name); err == nil {
				l.Annotations = map[string]string{"touched": fmt.Sprint(n)}
				_, _ = x.API.Update(l)
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
		return nil
	})
}

// Pages returns the errors that a client makes from answers that are not the
// server's own, such as error pages of proxies. The keys are the names of the
// answers.
func (x *Fixture) Pages(name string) map[string]error {
	x.T.Helper()
	errs := map[string]error{}
	for _, page := range absenttest.Pages(coordinationv1.Resource("leases"), name) {
		errs[page.Name] = page.Err(x.T.Context(), coordinationv1.SchemeGroupVersion.WithResource("leases"), name)
		x.Expect(errs[page.Name]).To(gomega.HaveOccurred())
	}
	return errs
}

// LeaseOf returns the Lease that the replicas of a test share. The replica with
// the given identity reaches it through l.
func LeaseOf(l *Link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

// Background runs f in a goroutine. The function wait waits until f has
// returned, and returns its error.
func Background(f func() error) (wait func() error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return func() error { return <-result }
}

// Pass lets the time d pass in the bubble, and then waits until all of its
// other goroutines are blocked.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
