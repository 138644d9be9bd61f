package shard_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// answered is a client whose requests are answered by a proxy with status 200
// while it is switched on. client-go makes an object from such an answer.
type answered struct {
	coordinationclient.LeaseInterface
	reads, writes atomic.Pointer[coordinationv1.Lease]
}

func (c *answered) Leases(string) coordinationclient.LeaseInterface { return c }

func (c *answered) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	if wrong := c.reads.Load(); wrong != nil {
		return wrong.DeepCopy(), nil
	}
	return c.LeaseInterface.Get(ctx, name, o)
}

func (c *answered) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	if wrong := c.reads.Load(); wrong != nil {
		return &coordinationv1.LeaseList{TypeMeta: wrong.TypeMeta}, nil
	}
	return c.LeaseInterface.List(ctx, o)
}

func (c *answered) Create(
	ctx context.Context, l *coordinationv1.Lease, o metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	if wrong := c.writes.Load(); wrong != nil {
		return wrong.DeepCopy(), nil
	}
	return c.LeaseInterface.Create(ctx, l, o)
}

func (c *answered) Update(
	ctx context.Context, l *coordinationv1.Lease, o metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	if wrong := c.writes.Load(); wrong != nil {
		return wrong.DeepCopy(), nil
	}
	return c.LeaseInterface.Update(ctx, l, o)
}

// A proxy tells both replicas, at the start or later, that their requests have
// succeeded, although none has. No slot gets two owners, which the fixture
// checks, and the replicas recover.
func TestSuccessesThatAreNotTheServersMakeNoOwner(t *testing.T) {
	wrongs := map[string]*coordinationv1.Lease{
		"{}":            {},
		"a Status":      {TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}},
		"another kind":  {TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1"}},
		"another Lease": {ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "default", UID: "u", ResourceVersion: "1"}},
	}
	for name, wrong := range wrongs {
		for when, start := range map[string]bool{"at the start": true, "later": false} {
			t.Run(name+" "+when, func(t *testing.T) {
				inBubble(t, func(x *fixture) {
					clients := []*answered{{LeaseInterface: x.API.Link(1)}, {LeaseInterface: x.API.Link(2)}}
					set := func(reads, writes *coordinationv1.Lease) {
						for _, c := range clients {
							c.reads.Store(reads)
							c.writes.Store(writes)
						}
					}
					if start {
						set(wrong, wrong)
					}
					a, b := x.runBy(clients[0], "a"), x.runBy(clients[1], "b")
					pass(time.Minute)
					if start {
						x.Expect(x.Owned()).To(BeEmpty())
						x.Expect(a.Ready()).NotTo(Succeed())
					}
					set(nil, wrong)
					pass(time.Minute)
					x.Expect(x.Owned()).To(BeEmpty(), "no membership has been renewed")
					set(nil, nil)
					pass(time.Minute)
					x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
					set(wrong, nil)
					pass(time.Minute)
					x.Expect(x.Owned()).To(HaveLen(64), "what cannot be read is not lost")
					set(nil, nil)
					pass(time.Minute)
					x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
					x.Expect(a.Ready()).To(Succeed())
					a.end()
					b.end()
				})
			})
		}
	}
}

// partial is a client behind something that lists the records without the
// record of a member, and whose watches deliver nothing.
type partial struct {
	coordinationclient.LeaseInterface
	without string
}

func (c *partial) Leases(string) coordinationclient.LeaseInterface { return c }

func (c *partial) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list, err := c.LeaseInterface.List(ctx, o)
	if err == nil {
		list.Items = slices.DeleteFunc(list.Items, func(l coordinationv1.Lease) bool { return l.Name == c.without })
	}
	return list, err
}

func (c *partial) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewFake(), nil
}

// No compare-and-swap of a record that is not listed can prove that its member
// has ended. No slot gets two owners, which the fixture checks.
func TestAMemberWhoseRecordIsNotListedKeepsItsSlots(t *testing.T) {
	inBubble(t, func(x *fixture) {
		a := x.shards("a", nil)
		pass(time.Minute)
		b := x.runBy(&partial{x.API.Link(2), "test-member-a"}, "b")
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 64}))
		x.Expect(b.Ready()).To(MatchError(ContainSubstring("test-member-a")))
		a.end()
		pass(time.Minute)
		b.end()
	})
}
