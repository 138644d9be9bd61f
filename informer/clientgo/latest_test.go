package clientgo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
)

// lateWatch lists a pod in its newest state, and watches it late.
type lateWatch struct {
	newest *corev1.Pod
	err    error
	events *watch.FakeWatcher
}

func newLateWatch(newest *corev1.Pod) *lateWatch {
	return &lateWatch{newest: newest, events: watch.NewFake()}
}

func (l *lateWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (l *lateWatch) List(metav1.ListOptions) (runtime.Object, error) {
	if l.err != nil {
		return nil, l.err
	}
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: l.newest.ResourceVersion}, Items: []corev1.Pod{*l.newest}}, nil
}

func (l *lateWatch) Watch(metav1.ListOptions) (watch.Interface, error) { return l.events, nil }

func podAt(rv string) *corev1.Pod {
	p := pod("a", "1")
	p.UID, p.ResourceVersion = "1", rv
	return p
}

// waiting calls WaitForLatest in the background.
func waiting(by *clientgo.Informers, ctx context.Context) <-chan error { //nolint:revive // by is the subject
	done := make(chan error, 1)
	go func() { done <- by.WaitForLatest(ctx) }()
	synctest.Wait()
	return done
}

func TestALeaderWaitsUntilItsCachesAreAsNewAsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var by clientgo.Informers
		late, failing := newLateWatch(podAt("1")), newLateWatch(podAt("1"))
		failing.err = errors.New("nobody may list them")
		for _, lw := range []cache.ListerWatcher{late, failing} {
			start(t, newKnown(&by, lw))
		}
		g.Expect(waiting(&by, t.Context())).To(Receive(BeNil()), "the cache has what the server has")

		late.newest = podAt("2")
		done := waiting(&by, t.Context())
		<-time.After(time.Minute)
		g.Expect(done).NotTo(Receive())
		late.events.Modify(podAt("2"))
		<-time.After(time.Second)
		g.Expect(done).To(Receive(BeNil()))
	})
}

func TestAnInformerThatStopsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var by clientgo.Informers
		late := newLateWatch(podAt("1"))
		stop := start(t, newKnown(&by, late))
		late.newest = podAt("2")
		ctx, cancel := context.WithCancel(t.Context())
		ended, stopped := waiting(&by, ctx), waiting(&by, t.Context())
		cancel()
		synctest.Wait()
		g.Expect(ended).To(Receive(And(MatchError(context.Canceled), MatchError(ContainSubstring("pods")))))
		stop()
		<-time.After(time.Second)
		g.Expect(stopped).To(Receive(BeNil()))
	})
}
