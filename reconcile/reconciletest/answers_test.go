package reconciletest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/test/breeding"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// retyping gives the child another type after it was created, which the server
// refuses. It does its other work first, so that the program makes progress.
func retyping(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	if err := breeding.Right(ctx, b, p); err != nil {
		return err
	}
	for _, s := range b.ChildrenOf(p) {
		edit := s.DeepCopy()
		edit.Type = corev1.SecretTypeTLS
		if _, err := b.Client.CoreV1().Secrets(p.Namespace).Update(ctx, edit, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// misnaming creates a child whose name the server refuses, and swallows the
// error.
func misnaming(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
	child := breeding.Child(p)
	child.Name = "No_Name"
	_ = b.Create(ctx, child)
	return nil
}

func TestAWriteThatIsRefusedAgainAndAgainIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		breed  breeding.Breed
		known  []string
		reason string
		want   string
	}{
		"a field is immutable": {
			retyping, nil, "refused",
			`update secrets d/a-child   → 422 Secret "a-child" is invalid: \[type: .*immutable(.*\n)* +\d+ times within`,
		},
		"it is known":          {retyping, []string{"update secrets d/a-child", "no write follows"}, "", "^$"},
		"nothing else happens": {misnaming, nil, "idle", `all of its \d+ writes were refused: 422 Secret "No_Name" is invalid`},
		"it is right":          {breeding.Right, nil, "", "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(row.breed)
			c.Goal = nil
			r := reconciletest.Search(t, c, &reconciletest.Options{KnownFindings: row.known, Seeds: 1, Budget: time.Nanosecond})
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			g.Expect(r.Reason).To(gomega.Equal(row.reason))
		})
	}
}

// telling breeds, and records an Event of events.k8s.io with a note and a reason
// for each parent, as recorders do: it sends the Event once, whatever follows.
func telling(note, reason string) breeding.Breed {
	return func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
		if len(b.ChildrenOf(p)) == 0 {
			_, _ = b.Client.EventsV1().Events(p.Namespace).Create(ctx, &eventsv1.Event{
				ObjectMeta: metav1.ObjectMeta{GenerateName: p.Name + "-", Namespace: p.Namespace},
				EventTime:  metav1.NowMicro(), ReportingController: "breeder", ReportingInstance: "breeder-0",
				Type: "Normal", Action: "Breed", Reason: reason, Note: note,
				Regarding: corev1.ObjectReference{Kind: "ConfigMap", Namespace: p.Namespace, Name: p.Name},
			}, metav1.CreateOptions{})
		}
		return breeding.Right(ctx, b, p)
	}
}

func TestAnEventThatTheServerRefusesIsFound(t *testing.T) {
	const lost = `^without any fault: the server refuses an Event, so the Event is lost: create events.events.k8s.io in d   → 422 .*`
	long := strings.Repeat("x", 1025)
	for name, row := range map[string]struct{ note, reason, known, want string }{
		"its note is too long":   {long, "Bred", "", lost + "message: .* at most 1024 (.*\n)*.*hint: the note of an Event"},
		"its reason is too long": {"a child", long[:129], "", lost + "reason.* at most 128 "},
		"both are just right":    {long[:1024], long[:128], "", "^$"},
		"it is known":            {long, "Bred", "the Event is lost", "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			o := &reconciletest.Options{Seeds: 1, Budget: time.Nanosecond}
			if row.known != "" {
				o.KnownFindings = []string{row.known}
			}
			r := reconciletest.Search(t, breeding.Case(telling(row.note, row.reason)), o)
			g.Expect(r.Failure).To(gomega.MatchRegexp(row.want))
			if r.Failure != "" {
				g.Expect(r.Reason).To(gomega.Equal("event-refused"))
			}
		})
	}
}

// An error of the server is often longer than an Event may be, and only a fault
// shows it.
func TestAnEventAboutAnErrorThatIsTooLongIsFound(t *testing.T) {
	for name, limit := range map[string]int{"whole": 2000, "cut": 1024} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			c := breeding.Case(func(ctx context.Context, b *breeding.Breeder, p *corev1.ConfigMap) error {
				err := breeding.Right(ctx, b, p)
				if err != nil {
					note := strings.Repeat(err.Error()+" ", 50)
					return errors.Join(err, telling(note[:min(len(note), limit)], "Failed")(ctx, b, p))
				}
				return nil
			})
			r := reconciletest.FailureOf(t, c, nil, `^c\d+\.500$`)
			if name == "cut" {
				g.Expect(r.Failure).To(gomega.BeEmpty())
				return
			}
			g.Expect(r.Failure).To(gomega.HavePrefix("500 instead of call"))
			g.Expect(r.Reason).To(gomega.Equal("event-refused"))
		})
	}
}

func TestATraceShowsAnswersAndTime(t *testing.T) {
	g := gomega.NewWithT(t)
	c := breeding.Case(retyping)
	c.Workload = nil
	lines, _ := reconciletest.TraceOf(t, c, &reconciletest.Options{KnownFindings: []string{"refuses", "no write follows"}}, "j1")
	g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(
		`^call      update secrets d/a-child   \(.*\)   → 422 Secret "a-child" is invalid: \[type`)))
	g.Expect(lines).To(gomega.ContainElement(gomega.MatchRegexp(`^later     1h\d*m?$`)))
}
