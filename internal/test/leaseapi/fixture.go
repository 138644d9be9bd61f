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
var ErrDead = errors.New("dead")

// ErrForbidden is the error of clients without permission.
var ErrForbidden = errors.New("forbidden")

// Fixture has an API for Leases, a record of events in order, and the owners of
// the slots, in a bubble of virtual time.
type Fixture struct {
	*gomega.WithT
	*Diary
	*Owners

	T   *testing.T
	API *API
}

// InBubble runs f, and then expects that no slot has had two owners at once.
func InBubble(t *testing.T, f func(x *Fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		x := &Fixture{WithT: gomega.NewWithT(t), Diary: &Diary{}, Owners: newOwners(), T: t, API: New(t)}
		f(x)
		x.Expect(x.conflict()).To(gomega.BeEmpty())
	})
}

// Run runs f until stop is called. stop expects that f returns no error.
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

// Released expects that the Lease has no holder, and returns the Lease.
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

// Touch edits an annotation of a Lease every ten seconds, as some tools do that
// stamp objects.
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

// Pages returns the errors of a client for answers that are not the server's
// own, such as error pages of proxies, by the name of the answer.
func (x *Fixture) Pages(name string) map[string]error {
	x.T.Helper()
	errs := map[string]error{}
	for _, page := range absenttest.Pages(coordinationv1.Resource("leases"), name) {
		errs[page.Name] = page.Err(x.T.Context(), coordinationv1.SchemeGroupVersion.WithResource("leases"), name)
		x.Expect(errs[page.Name]).To(gomega.HaveOccurred())
	}
	return errs
}

// LeaseOf returns the Lease that the replicas of a test share, for a replica
// with a link.
func LeaseOf(l *Link, identity string) leader.Lease {
	return leader.Lease{Client: l, Namespace: "default", Name: "test", Identity: identity}
}

// Background runs f and returns a function that waits for its error.
func Background(f func() error) (wait func() error) {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return func() error { return <-result }
}

// Pass lets virtual time pass.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
