package reconciletest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// A known finding does not end the exploration: later findings are reported.
func TestAKnownFindingDoesNotHideOthers(t *testing.T) {
	c := breeding.Case(breeding.Premature)
	c.Workload = nil
	for _, k := range []struct {
		name  string
		known []string
		wants string // in the failure
	}{
		{"nothing", nil, "the reply is lost of call 6: "},
		{"another finding", []string{"caches that begin"}, "the reply is lost of call 6: "},
		{"the deviation", []string{"crash after call"}, "the reply is lost of call 6: "},
		{"a smaller example", []string{"the reply is lost of call", "timeout, and later"}, "crash after call 6: "},
		{"what is wrong", []string{"- secrets d/", "0 children"}, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			r := reconciletest.Search(t, c, &reconciletest.Options{KnownFindings: k.known, Budget: breeding.Budget, Seeds: 1})
			g.Expect(r.Failure).To(gomega.HavePrefix(k.wants))
			if k.wants == "" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				g.Expect(r.Covered()).To(gomega.BeTrue())
			}
			if k.name == "the deviation" || k.name == "what is wrong" {
				g.Expect(r.KnownFindings).To(gomega.BeNumerically(">", 0))
			} else {
				g.Expect(r.KnownFindings).To(gomega.BeZero())
			}
		})
	}
}

// leaky leaves a goroutine behind.
func leaky(env *reconciletest.Env) error {
	go func() { <-make(chan struct{}) }()
	return breeding.Run(breeding.Premature)(env)
}

// Also one that the run without faults has.
func TestAKnownFindingWithoutFaultsDoesNotHideOthers(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = leaky
	o := &reconciletest.Options{Budget: breeding.Budget}
	g.Expect(reconciletest.Search(t, c, o).Oracle).To(gomega.Equal("stop"))
	o.KnownFindings = []string{"goroutines that it started are still there"}
	g.Expect(reconciletest.Search(t, c, o).Oracle).To(gomega.Equal("state"))
}

// filtering leaves the filter of a watch behind, as controller-runtime does
// with metadata.
func filtering(env *reconciletest.Env) error {
	events := watch.NewFakeWithChanSize(1, false)
	events.Add(&corev1.Secret{})
	watch.Filter(events, func(e watch.Event) (watch.Event, bool) { return e, true })
	return breeding.Run(breeding.Right)(env)
}

// The program cannot stop the filter: it waits to send an event to a reader
// that has left.
func TestAFilterOfAWatchMayBeLeft(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(nil)
	c.Run = filtering
	r := reconciletest.Search(t, c, &reconciletest.Options{Budget: 1, Seeds: 1})
	g.Expect(r.Failure).To(gomega.BeEmpty())
}

// Declarations that are no longer needed are in the report, so that they do not
// hide the next finding.
func TestUnusedDeclarationsAreReported(t *testing.T) {
	exhaustive(t)
	for _, d := range []struct {
		name    string
		breed   breeding.Breed
		declare func(c *reconciletest.Case, o *reconciletest.Options)
		want    []string
	}{
		{"nothing", breeding.Right, func(*reconciletest.Case, *reconciletest.Options) {}, nil},
		{"what is not there", breeding.Right, func(c *reconciletest.Case, o *reconciletest.Options) {
			c.Ignore, c.Unneeded = []string{"secrets data.token", "status.lastProbeTime"}, []string{"delete pods"}
			c.Unwatched, o.KnownFindings = []string{"secrets", "pods"}, []string{"caches that begin"}
		}, []string{
			`Case.Ignore "secrets data.token"`, `Case.Ignore "status.lastProbeTime"`, `Case.Unwatched "secrets"`,
			`Case.Unwatched "pods"`, `Case.Unneeded "delete pods"`, `Options.KnownFindings "caches that begin"`,
		}},
		{"what is needed", func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
			_, err := b.Client.CoreV1().Namespaces().Get(ctx, p.Namespace, metav1.GetOptions{})
			return errors.Join(err, breeding.Premature(ctx, b, p))
		}, func(c *reconciletest.Case, o *reconciletest.Options) {
			c.Unwatched = []string{"namespaces"}
			c.Ignore = []string{"configmaps metadata.annotations.ready", "data.x"}
			o.KnownFindings = []string{"- secrets d/", "0 children"}
		}, nil},
	} {
		t.Run(d.name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c, o := breeding.Case(d.breed), &reconciletest.Options{Budget: breeding.Budget, Seeds: 1}
			d.declare(c, o)
			if len(o.KnownFindings) < 2 { // the others need no step
				c.Workload = c.Workload[1:2]
			}
			r := reconciletest.Search(t, c, o)
			g.Expect(r.Failure).To(gomega.BeEmpty())
			g.Expect(r.Unused).To(gomega.Equal(d.want))
			for _, unused := range d.want {
				g.Expect(r.String()).To(gomega.ContainSubstring(unused))
			}

			o.Budget = time.Nanosecond
			g.Expect(reconciletest.Search(t, c, o).Unused).To(gomega.BeEmpty(), "not everything was tried")
		})
	}
}
