package observer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/examples/observe/internal/argument"
	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/names"
)

var each = []string{"run", "it"}

func address(t *testing.T) argument.List {
	t.Helper()
	list, err := argument.Parse("jsonpath", []string{"{.spec.clusterIP}"}, false)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return list
}

// without takes a field out of an object.
func without(s *unstructured.Unstructured, field string) *unstructured.Unstructured {
	unstructured.RemoveNestedField(s.Object, field)
	return s
}

func labelled(s *unstructured.Unstructured) *unstructured.Unstructured {
	s.SetLabels(map[string]string{"app": "web"})
	return s
}

func TestChangesAreReportedAndRun(t *testing.T) {
	inWorld(t, func(w *world) {
		o, end := w.start(observer.Options{Each: each, Delete: []string{"forget", "it"}, Arguments: address(t)})
		w.Expect(w.progress()).To(Equal([]string{
			"Sync started", "Sync 1\trun it d a 10.0.0.1", "Sync 2\trun it d b 10.0.0.2", "Sync ended",
		}))
		w.put(service("c", 3))
		w.put(service("a", 4))
		w.delete("d", "b")
		w.Expect(w.progress()).To(Equal([]string{
			"Added 3\trun it d c 10.0.0.3", "Updated 4\trun it d a 10.0.0.4", "Deleted 2\tforget it d b",
		}))
		w.Expect(w.ran()).To(HaveLen(5))
		w.Expect(end()).To(Succeed())
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 3, Runs: 5, Deletions: 1}))
	}, service("a", 1), service("b", 2))
}

func TestWithoutACommandChangesAreShown(t *testing.T) {
	inWorld(t, func(w *world) {
		_, end := w.start(observer.Options{})
		w.delete("d", "b")
		w.Expect(w.progress()).To(Equal([]string{"Sync started", "Sync 1\td a", "Sync 2\td b", "Sync ended"}))
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(end()).To(Succeed())
	}, service("a", 1), service("b", 2))
}

func TestAReplacedObjectIsNew(t *testing.T) {
	inWorld(t, func(w *world) {
		o, end := w.start(observer.Options{Each: each})
		w.progress()
		w.delete("d", "a")
		other := service("a", 7)
		other.SetUID("another")
		w.put(other)
		w.Expect(w.progress()).To(Equal([]string{"Added 7\trun it d a"}))
		w.Expect(o.Summary()).To(HaveField("Keys", BeEquivalentTo(3)))
		unseen := service("b", 8)
		unseen.SetUID("third")
		w.put(unseen)                                              // the second was deleted unseen
		w.Expect(w.progress()[0]).To(Equal("Added 8\trun it d b")) // its end and its beginning may be two reconciles
		w.Expect(end()).To(Succeed())
	}, service("a", 1), service("b", 1))
}

func TestChangesDuringARunAreOneMoreRunWithTheNewestState(t *testing.T) {
	inWorld(t, func(w *world) {
		release, running := make(chan struct{}), atomic.Int32{}
		var most int32
		w.run = func(context.Context, command.Call) error {
			most = max(most, running.Add(1))
			defer running.Add(-1)
			<-release
			return nil
		}
		o := observer.Options{Each: each, Arguments: address(t)}
		o.Controller.Workers = 4
		_, end := w.start(o)
		for version := range 5 {
			w.put(service("a", 2+version))
		}
		close(release)
		w.Expect(w.ran()).To(Equal([]string{"run it d a 10.0.0.1", "run it d a 10.0.0.6"}))
		w.Expect(most).To(BeEquivalentTo(1), "one command at a time for one object")
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestAFailureIsRetriedUntilItSucceeds(t *testing.T) {
	inWorld(t, func(w *world) {
		failures := 0
		w.run = func(context.Context, command.Call) error {
			if failures < 5 {
				failures++
				return &command.ExitError{Program: "run", Code: 9}
			}
			return nil
		}
		o, end := w.start(observer.Options{Each: each})
		<-time.After(time.Hour)
		w.Expect(w.progress()).To(Equal([]string{
			"Sync started", "Sync 1\trun it d a", "Sync ended",
			"Sync 1\trun it d a", "Sync 1\trun it d a", "Sync 1\trun it d a", "Sync 1\trun it d a", "Sync 1\trun it d a",
		}))
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 1, Runs: 6, Failures: 5, Retries: 5}))
		w.put(service("a", 2))
		w.Expect(w.progress()).To(Equal([]string{"Updated 2\trun it d a"}))
		w.Expect(o.Summary()).To(HaveField("Retries", BeEquivalentTo(5)), "a success ends the retries")
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestOnlyTheRetryExitCodeIsRepeatedAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		code, repeated int
		want           observer.Summary
	}{
		"that one":        {7, 7, observer.Summary{Keys: 1, Runs: 3, Failures: 1, Retries: 2}},
		"1, as it may be": {1, 1, observer.Summary{Keys: 1, Runs: 3, Failures: 1, Retries: 2}},
		"a different one": {8, 7, observer.Summary{Keys: 1, Runs: 1, Failures: 1}},
		"no success":      {0, 0, observer.Summary{Keys: 1, Runs: 1}},
	} {
		inWorld(t, func(w *world) {
			w.run = func(context.Context, command.Call) error {
				if c.code == 0 {
					return nil
				}
				return &command.ExitError{Program: "run", Code: c.code}
			}
			began := time.Now()
			o, err := w.once(observer.Options{Each: each, RetryCount: 2, RetryExitCode: c.repeated})
			if c.code != 0 {
				w.Expect(err).To(MatchError(observer.ErrKeysFailed), name)
			}
			w.Expect(o.Summary()).To(Equal(c.want), name)
			w.Expect(time.Since(began)).To(BeNumerically("<", time.Second), "not one back-off")
		}, service("a", 1))
	}
}

func TestTooManyErrorsStopEverything(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run = func(context.Context, command.Call) error { return &command.ExitError{Program: "run", Code: 1} }
		made := w.made(observer.Options{Each: each, MaxErrors: 5}, nil)
		err := made.Run(w.t.Context())
		w.Expect(err).To(MatchError(observer.ErrTooManyErrors))
		w.Expect(err).To(MatchError("reached maximum error limit of 5, exiting"))
		w.Expect(made.Summary()).To(HaveField("Failures", BeEquivalentTo(5)))
	}, service("a", 1), service("b", 1), service("c", 1), service("e", 1), service("f", 1), service("g", 1))
}

func TestArgumentsThatCannotBeMadeFailTheirObjectAlone(t *testing.T) {
	inWorld(t, func(w *world) {
		strict, err := argument.Parse("jsonpath", []string{"{.spec.clusterIP}"}, true)
		w.Expect(err).NotTo(HaveOccurred())
		o, end := w.start(observer.Options{Each: each, Arguments: strict, MaxErrors: 1})
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(Equal([]string{"run it d b 10.0.0.2"}))
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 2, Runs: 1, Failures: 1}))
		w.put(service("a", 3))
		w.Expect(w.ran()).To(Equal([]string{"run it d a 10.0.0.3"}), "once it has changed")
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 2, Runs: 2, Failures: 1, Retries: 1}))
		w.Expect(end()).To(Succeed())
	}, without(service("a", 1), "spec"), service("b", 2))
}

func TestAnObjectTooLargeIsNotRetried(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run = func(context.Context, command.Call) error { return fmt.Errorf("variable X: %w", command.ErrTooLarge) }
		o, end := w.start(observer.Options{Each: each, MaxErrors: 1})
		<-time.After(time.Hour)
		w.Expect(o.Summary()).To(Equal(observer.Summary{Keys: 2, Runs: 2, Failures: 2}), "and the others go on")
		w.Expect(end()).To(Succeed())
	}, service("a", 1), service("b", 1))
}

func TestResyncRunsForEveryObjectAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		o := observer.Options{Each: each}
		o.Controller.Resync = time.Minute
		_, end := w.start(o)
		w.progress()
		<-time.After(2*time.Minute - time.Second)
		w.Expect(w.progress()).To(Equal([]string{"Sync 1\trun it d a", "Sync 2\trun it d b"}))
		w.Expect(end()).To(Succeed())
	}, service("a", 1), service("b", 2))
}

func TestADryRunRunsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		o, err := w.once(observer.Options{Each: each, Delete: []string{"forget"}, Names: listing("d/gone\n"), DryRun: true})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.progress()).To(Equal([]string{
			"Sync started", "Sync 1\trun it d a", "Sync ended", "Deleted \tforget d gone",
		}))
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(o.Summary()).To(HaveField("Runs", BeEquivalentTo(2)))
	}, service("a", 1))
}

func TestRunningOnce(t *testing.T) {
	failing := func(context.Context, command.Call) error { return &command.ExitError{Program: "run", Code: 1} }
	broken := printed(func() (io.Reader, error) { return nil, errors.New("no zone") })
	for name, c := range map[string]struct {
		run   func(context.Context, command.Call) error
		names names.Lister
		ran   int
		err   error
	}{
		"all succeed":         {nil, nil, 2, nil},
		"some fail":           {failing, nil, 2, observer.ErrKeysFailed},
		"names are gone":      {nil, listing("d/x\nd/a\nd/y\n"), 4, nil},
		"no names":            {nil, listing(""), 2, nil},
		"names cannot be had": {nil, broken, 2, observer.ErrNamesFailed},
		"both":                {failing, broken, 2, observer.ErrNamesFailed},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.run = c.run
				_, err := w.once(observer.Options{Each: each, Delete: []string{"forget"}, Names: c.names})
				if c.err == nil {
					w.Expect(err).NotTo(HaveOccurred())
				} else {
					w.Expect(err).To(MatchError(c.err))
				}
				w.Expect(w.ran()).To(HaveLen(c.ran))
			}, service("a", 1), service("b", 2))
		})
	}
	inWorld(t, func(w *world) {
		o, err := w.once(observer.Options{Each: each})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(o.Summary()).To(BeZero(), "nothing there, nothing done")
	})
}

func TestRunningOnceWaitsForNamesAndForRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := names.Func(func(context.Context) ([]names.Name, error) {
			<-time.After(10 * time.Second)
			return known.Parse(strings.NewReader("d/gone\n"), known.Format{})
		})
		_, err := w.once(observer.Options{Each: each, Delete: []string{"forget"}, Names: slow})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.ran()).To(Equal([]string{"run it d a", "forget d gone"}))
	}, service("a", 1))
	inWorld(t, func(w *world) {
		w.run = func(context.Context, command.Call) error {
			<-time.After(10 * time.Second)
			return nil
		}
		go func() {
			<-time.After(5 * time.Second)
			_, _ = w.of("d").Update(w.t.Context(), service("a", 2), metav1.UpdateOptions{})
		}()
		o := observer.Options{Each: each}
		o.Controller.MinInterval = 15 * time.Second
		_, err := w.once(o)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.progress()).To(ContainElements("Sync 1\trun it d b", "Updated 2\trun it d a"),
			"what waits for the only worker, and what changed meanwhile and waits for its interval")
	}, service("a", 1), service("b", 1))
}

func TestNamesAreListedAgainAtOnceAfterTheRetryExitCode(t *testing.T) {
	inWorld(t, func(w *world) {
		tries := 0
		began := time.Now()
		o, err := w.once(observer.Options{
			Each: each, Delete: []string{"forget"}, RetryCount: 2, RetryExitCode: 7,
			Names: printed(func() (io.Reader, error) {
				if tries++; tries < 3 {
					return nil, fmt.Errorf("listing: %w", &command.ExitError{Program: "names", Code: 7})
				}
				return strings.NewReader("d/gone\n"), nil
			}),
		})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(o.Summary()).To(HaveField("Deletions", BeEquivalentTo(1)))
		w.Expect(time.Since(began)).To(BeNumerically("<", time.Second))
		w.Expect(testutil.CollectAndCount(o.Collectors()[2])).To(Equal(2), "7 and 0")
	}, service("a", 1))
}

func TestNamesNeverDeleteALiveObject(t *testing.T) {
	for name, text := range map[string]string{
		"blanks":          "\n\n  \nd/a\n\n",
		"CR":              "d/a\r\n\r\nd/b\r\n",
		"duplicates":      "d/a\nd/a\nd/b\nd/a\n",
		"with UIDs":       "d/a f81d4fae-7dec-11d0-a765-00a0c91e6bf6\n",
		"no line's end":   "d/a",
		"out of scope":    "other/x\nelsewhere/y\n",
		"malformed":       "d/a\nd/gone extra words\n",
		"half a line":     "d/gone\nd/al\x00",
		"flags":           "d/gone\n-rf\n",
		"other selection": "d/unselected\n",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				o := observer.Options{Each: each, Delete: []string{"forget"}, Names: listing(text), Once: true, MaxErrors: -1}
				made := w.made(o, &informer.Options{Namespaces: []string{"d"}, LabelSelector: "app=web"})
				_ = made.Run(w.t.Context()) // malformed lines are its error
				for _, line := range w.ran() {
					w.Expect(line).NotTo(HavePrefix("forget"))
				}
			}, labelled(service("a", 1)), labelled(service("b", 2)), service("unselected", 3))
		})
	}
}

func TestBeforeADeleteTheServerIsAsked(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := 0
		w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			if asked < 4 {
				return true, nil, apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return false, nil, nil
		})
		_, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
		w.ran()
		w.delete("d", "a")
		w.Expect(w.ran()).To(BeEmpty(), "it is not known")
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(Equal([]string{"forget d a"}))
		w.Expect(asked).To(Equal(4))
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

// A proxy, or a version that is not served any more, answers 404 for objects
// that live.
func TestAPageIsNoDeletion(t *testing.T) {
	services := schema.GroupVersionResource{Version: "v1", Resource: "services"}
	for _, page := range absenttest.Pages(services.GroupResource(), "a") {
		t.Run(page.Name, func(t *testing.T) {
			err := page.Err(t.Context(), services, "a")
			inWorld(t, func(w *world) {
				w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, err
				})
				_, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
				w.ran()
				w.delete("d", "a") // for the watch, it has lost its label
				w.Expect(w.ran()).To(BeEmpty())
				<-time.After(time.Hour)
				w.Expect(w.ran()).To(BeEmpty(), "it may live")
				w.Expect(end()).To(Succeed())
			}, service("a", 1))
		})
	}
}

func TestAnObjectThatLeavesTheSelectionAndIsDeletedLater(t *testing.T) {
	inWorld(t, func(w *world) {
		var exists atomic.Bool
		exists.Store(true)
		var asked atomic.Int32
		w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked.Add(1)
			return exists.Load(), service("a", 2), nil
		})
		o, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
		w.ran()
		w.delete("d", "a") // for the watch, it has lost its label
		w.Expect(w.ran()).To(BeEmpty())
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(BeEmpty())
		w.Expect(asked.Load()).To(And(BeNumerically(">", 12), BeNumerically("<", 30)), "once in five minutes in the end")
		exists.Store(false)
		<-time.After(5 * time.Minute)
		w.Expect(w.ran()).To(Equal([]string{"forget d a"}))
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(BeEmpty(), "that is all")
		w.Expect(o.Summary()).To(HaveField("Deletions", BeEquivalentTo(1)))
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestAnObjectThatComesBackToTheSelectionIsNotDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.client.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, service("a", 2), nil
		})
		_, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}})
		w.progress()
		w.delete("d", "a")
		<-time.After(time.Minute)
		w.put(service("a", 3))
		<-time.After(time.Hour)
		w.Expect(w.progress()).To(Equal([]string{"Updated 3\trun it d a"}))
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestNamesThatFailDeleteNothingAndAreListedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		var repaired atomic.Bool
		o, end := w.start(observer.Options{Each: each, Delete: []string{"forget"}, Names: printed(func() (io.Reader, error) {
			if !repaired.Load() {
				return strings.NewReader("d/gone\n"), errors.New("no zone")
			}
			return strings.NewReader("d/gone\n"), nil
		})})
		<-time.After(time.Minute)
		w.Expect(w.ran()).To(Equal([]string{"run it d a"}))
		w.Expect(o.Controller.Sweep().Ready()).To(MatchError(ContainSubstring("no zone")))
		repaired.Store(true)
		<-time.After(time.Hour)
		w.Expect(w.ran()).To(ContainElement("forget d gone"))
		w.Expect(o.Controller.Sweep().Ready()).To(Succeed())
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestTheEndOfTheProcessIsNoFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run = func(ctx context.Context, _ command.Call) error {
			<-ctx.Done()
			return fmt.Errorf("command was ended: %w", errors.Join(ctx.Err(), context.Cause(ctx)))
		}
		o := observer.Options{Each: each, MaxErrors: 1}
		o.Controller.Grace = 20 * time.Second
		made, end := w.start(o)
		began := time.Now()
		w.Expect(end()).To(Succeed())
		w.Expect(time.Since(began)).To(Equal(20 * time.Second))
		w.Expect(made.Summary()).To(Equal(observer.Summary{Keys: 1, Runs: 1}))
	}, service("a", 1))
}

func TestWhatACommandGets(t *testing.T) {
	inWorld(t, func(w *world) {
		_, end := w.start(observer.Options{
			Each: each, Delete: []string{"forget"}, TypeVariable: "TYPE", ObjectVariable: "OBJECT", Identity: true, Stdin: true,
		})
		synctest.Wait()
		w.Expect(w.calls).To(HaveLen(1))
		content := `"clusterIP":"10.0.0.1"`
		w.Expect(string(w.calls[0].Stdin)).To(And(ContainSubstring(content), HaveSuffix("}\n")))
		w.Expect(w.calls[0].Env).To(ConsistOf("TYPE=Sync", "OBSERVE_NAMESPACE=d", "OBSERVE_NAME=a",
			"OBSERVE_UID=uid-of-a", "OBSERVE_RESOURCE_VERSION=1", And(HavePrefix("OBJECT={"), ContainSubstring(content))))
		w.ran()
		w.delete("d", "a")
		w.Expect(w.calls).To(HaveLen(1))
		w.Expect(w.calls[0].Stdin).To(BeEmpty(), "it is gone")
		w.Expect(w.calls[0].Env).To(ConsistOf("TYPE=Deleted", "OBSERVE_NAMESPACE=d", "OBSERVE_NAME=a",
			"OBSERVE_UID=uid-of-a", "OBSERVE_RESOURCE_VERSION=1"))
		w.Expect(end()).To(Succeed())
	}, service("a", 1))
}

func TestNothingFromTheClusterBecomesAFlag(t *testing.T) {
	for name, c := range map[string]struct {
		each   []string
		allow  bool
		passes bool
	}{
		"refused":        {[]string{"run"}, false, false},
		"after --":       {[]string{"run", "--"}, false, true},
		"--, not as run": {[]string{"--"}, false, false},
		"allowed":        {[]string{"run"}, true, true},
		"shown only":     {nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, err := w.once(observer.Options{Each: c.each, LeadingDashes: c.allow, Arguments: address(t)})
				w.Expect(err == nil).To(Equal(c.passes))
				want := 0
				if c.passes && c.each != nil {
					want = 1
				}
				w.Expect(w.ran()).To(HaveLen(want))
			}, service("--rm", 1))
		})
	}
}

func TestLinesForPrograms(t *testing.T) {
	g := NewWithT(t)
	var lines, people strings.Builder
	p := observer.Progress{Out: &lines, JSON: true}
	p.Sum(observer.Summary{Keys: 1, Runs: 2, Failures: 3, Retries: 4, Deletions: 5}, &people)
	g.Expect(people.String()).To(BeEmpty())
	g.Expect(lines.String()).To(MatchRegexp(
		`^\{"time":"[^"]+","type":"Summary","keys":1,"runs":2,"failures":3,"retries":4,"deletions":5\}\n$`))
	observer.Progress{}.Sum(observer.Summary{}, &people)
	g.Expect(people.String()).To(BeEmpty(), "quiet")
}

func TestMetricsCountByTypeAndExitCode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.run = func(_ context.Context, c command.Call) error {
			<-time.After(250 * time.Millisecond)
			switch c.Argv[len(c.Argv)-1] {
			case "b":
				return &command.ExitError{Program: "run", Code: 3}
			case "c":
				return errors.New("killed")
			}
			return nil
		}
		o, err := w.once(observer.Options{Each: each, Delete: []string{"forget"}, Names: listing("d/gone\n")})
		w.Expect(err).To(HaveOccurred())
		w.Expect(testutil.CollectAndCompare(o.Collectors()[0], strings.NewReader(`
# HELP observe_counts Changes for which the command was run.
# TYPE observe_counts counter
observe_counts{type="Deleted"} 1
observe_counts{type="Sync"} 3
`))).To(Succeed())
		w.Expect(testutil.CollectAndCompare(o.Collectors()[1], strings.NewReader(`
# HELP observe_exec_durations_milliseconds How long commands ran, by exit code; -1 means that there was no exit code.
# TYPE observe_exec_durations_milliseconds summary
observe_exec_durations_milliseconds_sum{exit_code="-1",type="Sync"} 250
observe_exec_durations_milliseconds_count{exit_code="-1",type="Sync"} 1
observe_exec_durations_milliseconds_sum{exit_code="0",type="Deleted"} 250
observe_exec_durations_milliseconds_count{exit_code="0",type="Deleted"} 1
observe_exec_durations_milliseconds_sum{exit_code="0",type="Sync"} 250
observe_exec_durations_milliseconds_count{exit_code="0",type="Sync"} 1
observe_exec_durations_milliseconds_sum{exit_code="3",type="Sync"} 250
observe_exec_durations_milliseconds_count{exit_code="3",type="Sync"} 1
`))).To(Succeed())
		w.Expect(testutil.CollectAndCount(o.Collectors()[2])).To(Equal(1))
	}, service("a", 1), service("b", 2), service("c", 3))
}
