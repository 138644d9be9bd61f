package shard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

// cutting starts a replica with a request in flight that the API server does
// not answer. The request is cut off when a slot ends because of cause.
func (x *fixture) cutting(identity string, l *leaseapi.Link, cause error, o *shard.Options) (stop func()) {
	s := newShards(x.T, l, identity, o)
	return x.Run(func(ctx context.Context) error {
		return s.Run(ctx, func(ctx context.Context, slot int) error {
			x.Take(slot, identity)
			defer x.Leave(slot)
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), cause) {
				asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Nanosecond)
				defer cancel()
				_, _ = through(asking, s, "http://api", deaf, http.MethodPut, "/api/v1/x")
				x.Add("cut off")
			}
			return nil
		})
	})
}

// The last writes of a stopping member may arrive until its Lease would have
// expired.
func TestAStopThatCutsRequestsOffKeepsItsSlots(t *testing.T) {
	inBubble(t, func(x *fixture) {
		stop := x.cutting("a", x.API.Link(1), leader.ErrStopping, nil)
		b := x.shards("b", nil)
		pass(time.Minute)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		stop()
		x.Expect(x.Read()).To(HaveLen(32))
		pass(10 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"b": 32}))
		pass(20 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"b": 64}))
		b.end()
	})
}

// If the member rejoined under a new name, it would free the slots of its old
// name.
func TestAFencedMemberDoesNotRejoinWhileItsLastWritesMayArrive(t *testing.T) {
	inBubble(t, func(x *fixture) {
		l := x.API.Link(1)
		s := newShards(x.T, l, "a", nil)
		stop := x.Run(func(ctx context.Context) error { return s.Run(ctx, x.Work("a", 0)) })
		b := x.shards("b", nil)
		pass(time.Minute)
		open := make(chan struct{})
		l.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = open, open })
		wait := background(func() error {
			_, err := through(x.T.Context(), s, "http://api", deaf, http.MethodPut, "/api/v1/x")
			return err
		})
		pass(10500 * time.Millisecond)
		x.Expect(wait()).To(MatchError(leader.ErrFenced))
		l.Set(func(l *leaseapi.Link) { l.Cut, l.Stall = nil, nil })
		close(open)
		pass(2400 * time.Millisecond)
		x.Expect(x.Shares()).To(Equal(map[string]int{"b": 32}))
		pass(30 * time.Second)
		x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
		stop()
		b.end()
	})
}

// The next owner itself waits until the last requests can no longer arrive, so
// that a change of the last owner or of the record in the meantime does not
// matter.
func TestASlotIsTakenWhenItsLastRequestsCanNotArriveAnyMore(t *testing.T) {
	for name, meanwhile := range map[string]func(x *fixture, a *leaseapi.Link){
		"while its last owner lives": func(*fixture, *leaseapi.Link) {},
		"when its last owner dies": func(_ *fixture, a *leaseapi.Link) {
			a.Set(func(l *leaseapi.Link) { l.Fail = errors.New("dead") })
		},
		"when another client deletes the record": func(x *fixture, _ *leaseapi.Link) {
			for slot := range 64 {
				if name := fmt.Sprint("test-slot-", slot); x.Free(name) {
					x.API.Delete(name)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(x *fixture) {
				l := x.API.Link(1)
				stop := x.cutting("a", l, shard.ErrMoved, nil)
				pass(10 * time.Second)
				b := x.shards("b", nil)
				pass(17 * time.Second) // five until the wait begins, and up to twelve of waiting
				x.Expect(x.Read()).To(HaveLen(32), "they are cut off")
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32}))
				meanwhile(x, l)
				pass(500 * time.Millisecond)
				x.Expect(b.Status().Count(shard.Unavailable)).To(Equal(32))
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32}))
				pass(5500 * time.Millisecond)
				x.Expect(x.Shares()).To(Equal(map[string]int{"a": 32, "b": 32}))
				stop()
				b.end()
			})
		})
	}
}

// The member counts the wait from when it first saw the slots, and the other
// members take them before that.
func TestAMemberThatHasJustStartedIsNotSkippedForItsWait(t *testing.T) {
	for _, after := range []time.Duration{28 * time.Second, 30 * time.Second} {
		inBubble(t, func(x *fixture) {
			o := &shard.Options{Settle: 20 * time.Second}
			stop := x.cutting("a", x.API.Link(1), shard.ErrMoved, o)
			pass(10 * time.Second)
			b := x.shards("b", o)
			pass(after)
			c := x.shards("c", o)
			pass(3 * time.Minute)
			x.Expect(x.Shares()).To(And(HaveLen(3), HaveEach(BeNumerically(">=", 21))))
			stop()
			b.end()
			c.end()
		})
	}
}
