package shard

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/leader/internal/record"
)

// sighting is what the watch tells the keeper: a list, an event or an error.
type sighting struct {
	list    []coordinationv1.Lease
	event   *coordinationv1.Lease
	deleted bool
	err     error
}

// watch lists and watches the records until ctx ends, and lists again whenever
// the watch ends or again is sent. There are few records, so that a list is
// cheaper than the care that a watch over its own gaps needs.
func (s *Shards) watch(ctx context.Context, tell chan<- sighting, again <-chan struct{}) {
	for ctx.Err() == nil {
		if err := s.watchOnce(ctx, tell, again); err != nil {
			send(ctx, tell, sighting{err: err})
			record.Sleep(ctx, s.member.Timing.Clock, s.member.Timing.RetryPeriod)
			continue
		}
		record.Sleep(ctx, s.member.Timing.Clock, s.member.Timing.RetryPeriod/10) // a server that ends each watch at once
	}
}

func (s *Shards) watchOnce(ctx context.Context, tell chan<- sighting, again <-chan struct{}) error {
	client := s.records.leases()
	options := metav1.ListOptions{LabelSelector: s.records.selector()}
	asking, end := s.request(ctx)
	list, err := client.List(asking, options)
	end()
	if err != nil {
		return s.records.explain("listing the records of", err)
	}
	send(ctx, tell, sighting{list: list.Items})
	options.ResourceVersion = list.ResourceVersion
	w, err := client.Watch(ctx, options)
	if err != nil {
		return s.records.explain("watching the records of", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			return nil
		case event, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := s.pass(ctx, tell, event); err != nil {
				return err
			}
		}
	}
}

func (s *Shards) pass(ctx context.Context, tell chan<- sighting, event watch.Event) error {
	switch lease, ok := event.Object.(*coordinationv1.Lease); {
	case event.Type == watch.Error:
		return fmt.Errorf("watching the records of lease %q: %w", s.records.key(), apierrors.FromObject(event.Object))
	case ok && event.Type != watch.Bookmark:
		send(ctx, tell, sighting{event: lease, deleted: event.Type == watch.Deleted})
	}
	return nil
}

func send(ctx context.Context, tell chan<- sighting, s sighting) {
	select {
	case <-ctx.Done():
	case tell <- s:
	}
}

// stale tells whether the watch has not shown our own renewals for so long that
// it must be broken.
func (v *view) stale(own string, now time.Time) bool {
	o, ok := v.members[own]
	return ok && now.Sub(o.Since) >= v.duration
}
