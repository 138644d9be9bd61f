package observer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/informer"
)

func TestADeleteThatFailsIsRetriedUntilItSucceeds(t *testing.T) {
	inWorld(t, func(w *world) {
		failures := 0
		w.run = func(_ context.Context, c command.Call) error {
			if c.Argv[0] == "forget" && failures < 2 {
				failures++
				return &command.ExitError{Program: "forget", Code: 9}
			}
			return nil
		}
		o, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
		w.progress()
		w.delete("d", "a")
		<-time.After(time.Hour)
		w.Expect(w.progress()).To(Equal([]string{"Deleted 1\tforget d a", "Deleted 1\tforget d a", "Deleted 1\tforget d a"}))
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 1, Runs: 4, Failures: 2, Retries: 2, Deletions: 1}))
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestADeleteWhoseNameLooksLikeAFlagIsRefusedOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		o, end := w.start(observer.Options{Each: []string{"run", "--"}, Delete: []string{"forget"}})
		w.ran()
		w.delete("d", "--rm")
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 1, Runs: 1, Failures: 1}))
		w.Expect(o.Controller.Stats()).To(HaveField("Failing", 1), "and shown on the status page")
		w.put(service("--rm", 2))
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 1, Runs: 2, Failures: 1, Retries: 1}))
		w.Expect(end()).To(Succeed())
	}, service("--rm", 1))
}

func TestTheFirstPassIsOverWhenEachObjectHasBeenTried(t *testing.T) {
	inWorld(t, func(w *world) {
		release := make(chan struct{})
		w.run = func(_ context.Context, c command.Call) error {
			if c.Argv[len(c.Argv)-1] == "slow" {
				<-release
				return nil
			}
			return &command.ExitError{Program: "run", Code: 1}
		}
		o := observer.Options{Each: each}
		o.Controller.Workers = 2
		_, end := w.start(o)
		<-time.After(time.Minute)
		w.Expect(w.progress()).To(And(ContainElement("Sync 1\trun it d failing"), Not(ContainElement("Sync ended"))), "however often one fails")
		close(release)
		w.Expect(w.progress()).To(Equal([]string{"Sync ended"}))
		w.Expect(end()).To(Succeed())
	}, service("failing", 1), service("slow", 1))
}

func TestAnObjectThatLeavesTheSelectionIsAskedAboutSoonAndThenMoreRarely(t *testing.T) {
	inWorld(t, func(w *world) {
		var left time.Time
		var asked []time.Duration
		w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked = append(asked, time.Since(left))
			return true, service("a", 2), nil
		})
		_, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
		for version := range 2 { // a second time it begins again
			left, asked = time.Now(), nil
			w.delete("d", "a") // for the watch, it has lost its label
			<-time.After(10 * time.Second)
			synctest.Wait()
			w.Expect(asked).To(Equal([]time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}))
			w.Expect(w.logged("the object exists outside of the selection")).To(Equal(version+1), "once each time")
			w.put(service("a", 3+version))
		}
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestANameOfAnObjectOutOfTheSelectionIsLeftToTheSweeps(t *testing.T) {
	inWorld(t, func(w *world) {
		var asked, read atomic.Int32
		w.client.PrependReactor("list", "services", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if list, ok := a.(clienttesting.ListAction); ok && list.GetListRestrictions().Fields.String() ==
				"metadata.name=other,metadata.namespace=d" {
				asked.Add(1)
			}
			return false, nil, nil
		})
		w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			read.Add(1)
			return false, nil, nil
		})
		made := w.made(observer.Options{Each: each, Delete: []string{"forget"}, Names: listing("d/other\n"), MaxErrors: -1},
			&informer.Options{LabelSelector: "app=web"})
		w.Expect(made.HasSynced()).To(BeFalse())
		ctx, stop := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- made.Run(ctx) }()
		<-time.After(time.Hour)
		w.Expect(made.HasSynced()).To(BeTrue())
		w.Expect(asked.Load()).To(And(BeNumerically(">", 1), BeEquivalentTo(made.Controller.Sweep().Stats().Sweeps)), "once in a sweep")
		w.Expect(read.Load()).To(BeZero(), "the observer does not hear of it")
		w.Expect(w.ran()).To(BeEmpty())
		w.delete("d", "other")
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(HaveEach("forget d other"), "the next sweep finds that it is gone")
		stop()
		w.Expect(<-ended).To(Succeed())
		w.Expect(made.Run(w.t.Context())).To(MatchError(ContainSubstring("it has run already")))
	}, service("other", 3))
}

func TestTheObjectIsPassedInTheRequestedWay(t *testing.T) {
	for name, c := range map[string]struct {
		options       observer.Options
		stdin, object types.GomegaMatcher
	}{
		"neither":    {observer.Options{}, BeEmpty(), BeEmpty()},
		"stdin":      {observer.Options{Stdin: true}, Not(BeEmpty()), BeEmpty()},
		"a variable": {observer.Options{ObjectVariable: "OBJECT"}, BeEmpty(), Not(BeEmpty())},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c.options.Each = each
				_, end := w.start(c.options)
				synctest.Wait()
				w.Expect(w.calls).To(HaveLen(1))
				w.Expect(w.calls[0].Stdin).To(c.stdin)
				w.Expect(w.calls[0].Env).To(c.object)
				w.Expect(end()).To(Succeed())
			}, service("a", 1))
		})
	}
}
