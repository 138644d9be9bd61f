package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader/shard"
)

// intercepted is a client that calls beforeWrite with each write, and counts
// lists.
type intercepted struct {
	coordinationclient.LeaseInterface
	beforeWrite func(l *coordinationv1.Lease) error

	mu    sync.Mutex // guards lists, and calls of beforeWrite
	lists int
}

func (c *intercepted) Leases(string) coordinationclient.LeaseInterface { return c }

func (c *intercepted) write(l *coordinationv1.Lease) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.beforeWrite(l)
}

func (c *intercepted) listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

func (c *intercepted) Create(
	ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if err := c.write(l); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Create(ctx, l, o)
}

func (c *intercepted) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if err := c.write(l); err != nil {
		return nil, err
	}
	return c.LeaseInterface.Update(ctx, l, o)
}

func (c *intercepted) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	c.mu.Lock()
	c.lists++
	c.mu.Unlock()
	return c.LeaseInterface.List(ctx, o)
}

// runBy starts a replica that uses client.
func (x *fixture) runBy(client coordinationclient.LeasesGetter, identity string) *shardReplica {
	x.T.Helper()
	lease := leaseOf(nil, identity)
	lease.Client = client
	s, err := shard.New(lease, nil)
	x.Expect(err).NotTo(HaveOccurred())
	r := &shardReplica{Shards: s, fixture: x}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(x.T.Context())
	r.wait = background(func() error { return r.Run(r.logs.Log(ctx), x.Work(identity, time.Second)) })
	return r
}

// If another client has changed or deleted a record in the meantime, the
// replica lists the records again and reports no problem. The answer of a proxy
// is a problem.
func TestAClaimThatIsTooLateListsTheRecords(t *testing.T) {
	page := apierrors.NewConflict(leaseapi.Leases, "test-slot-9", errors.New("a page"))
	page.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeUnexpectedServerResponse}}
	for name, c := range map[string]struct {
		err     error
		problem bool
	}{
		"conflict":                     {apierrors.NewConflict(leaseapi.Leases, "test-slot-9", errors.New("modified")), false},
		"exists":                       {apierrors.NewAlreadyExists(leaseapi.Leases, "test-slot-9"), false},
		"not found":                    {apierrors.NewNotFound(leaseapi.Leases, "test-slot-9"), false},
		"not found, of another record": {apierrors.NewNotFound(leaseapi.Leases, "test-slot-8"), true},
		"page":                         {page, true},
		"forbidden":                    {leaseapi.ErrForbidden, true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				refused := make(chan struct{})
				client := &intercepted{LeaseInterface: x.API.Link(1)}
				lists := 0
				client.beforeWrite = func(l *coordinationv1.Lease) error {
					if l.Name != "test-slot-9" || lists > 0 {
						return nil
					}
					lists = client.lists
					close(refused)
					return c.err
				}
				a := x.runBy(client, "a")
				<-refused
				pass(500 * time.Millisecond)
				x.Expect(client.listed() > lists).To(Equal(!c.problem))
				x.Expect(a.Ready() != nil).To(Equal(c.problem), "%v", a.Ready())
				pass(30 * time.Second)
				x.Expect(x.Owned()).To(HaveLen(64))
				x.Expect(a.Ready()).To(Succeed())
				a.end()
			})
		})
	}
}

// Another client edits the record of a slot while its owner releases it.
func TestAnEditedRecordIsReleasedAsWell(t *testing.T) {
	for name, other := range map[string]bool{"the owner stays": false, "another one has it": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				released := ""
				client := &intercepted{LeaseInterface: x.API.Link(1)}
				client.beforeWrite = func(l *coordinationv1.Lease) error {
					if !strings.HasPrefix(l.Name, "test-slot-") || ptr.Deref(l.Spec.HolderIdentity, "") != "" || released != "" {
						return nil
					}
					released = l.Name
					edited, err := x.API.Get(l.Name)
					if err != nil {
						return err
					}
					edited.Annotations = map[string]string{"by": "hand"}
					if other {
						edited.Spec.HolderIdentity = new("other_1.1")
					}
					_, err = x.API.Update(edited)
					return err
				}
				a := x.runBy(client, "a")
				pass(30 * time.Second)
				x.Expect(x.Owned()).To(HaveLen(64))
				a.end()
				x.Expect(released).NotTo(BeEmpty())
				record, err := x.API.Get(released)
				x.Expect(err).NotTo(HaveOccurred())
				holder := map[bool]string{false: "", true: "other_1.1"}[other]
				x.Expect(ptr.Deref(record.Spec.HolderIdentity, "")).To(Equal(holder))
			})
		})
	}
}

// While the configuration cannot be read, the replica cannot know whether it is
// recorded, and must not write it.
func TestTheConfigurationIsNotWrittenWhileItCannotBeRead(t *testing.T) {
	for name, err := range map[string]error{
		"forbidden": leaseapi.ErrForbidden, "another record": apierrors.NewNotFound(leaseapi.Leases, "other"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				link, writes := x.API.Link(1), atomic.Int64{}
				link.FailGet = err
				client := &intercepted{LeaseInterface: link, beforeWrite: func(*coordinationv1.Lease) error {
					writes.Add(1)
					return nil
				}}
				a := x.runBy(client, "a")
				pass(30 * time.Second)
				x.Expect(writes.Load()).To(BeZero())
				x.Expect(a.Ready()).To(MatchError(ContainSubstring(err.Error())))
				link.Set(func(l *leaseapi.Link) { l.FailGet = nil })
				pass(30 * time.Second)
				x.Expect(x.Owned()).To(HaveLen(64))
				a.end()
			})
		})
	}
}
