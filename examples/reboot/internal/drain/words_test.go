package drain_test

import (
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
)

// one makes one pass over these Pods, whose evictions are all answered like
// this.
func one(t *testing.T, answer error, pods ...corev1.Pod) drain.Pass {
	t.Helper()
	client := scripted{list: listOf(pods...), evict: func(*policyv1.Eviction) error { return answer }}
	pass, err := drain.New(client, "n1").Pass(t.Context(), true)
	gomega.NewWithT(t).Expect(err).NotTo(gomega.HaveOccurred())
	return pass
}

// The text goes into an annotation: in another order it would be written again.
func TestPodsAreSortedHoweverTheyAreListed(t *testing.T) {
	g := gomega.NewWithT(t)
	pass := one(t, nil, podIn("b", "y"), podIn("b", "x"), podIn("a", "z"), podIn("c", "w"))
	g.Expect(left(pass)).To(gomega.Equal([]string{"a/z", "b/x", "b/y", "c/w"}))
}

func TestAPodThatIsDeletedMeanwhileIsNotRefused(t *testing.T) {
	f := newFixture(t)
	client := scripted{Client: drain.Pods(f.core.CoreV1()), list: listOf(podIn("default", "gone"))}
	pass, err := drain.New(client, "n1").Pass(f.ctx, true)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(pass.Refusals()).To(gomega.BeEmpty())
	f.Expect(pass.Over()).To(gomega.BeFalse(), "nothing is known until the next pass")
}

// The Pod may be there: the page of a proxy is a refusal that people are to
// see.
func TestAnErrorPageDoesNotProveThatAPodIsDeleted(t *testing.T) {
	page := apierrors.NewGenericServerResponse(http.StatusNotFound, "create", corev1.Resource("pods"), "a", "no route", 0, true)
	client := scripted{list: listOf(podIn("d", "a")), evict: func(*policyv1.Eviction) error { return page }}
	pass, err := drain.New(client, "n1").Pass(t.Context(), true)
	g := gomega.NewWithT(t)
	g.Expect(err).To(gomega.HaveOccurred())
	g.Expect(pass.Refusals()).To(gomega.ContainSubstring("no answer to its eviction: the server could not find the requested resource"))
	g.Expect(pass.NotAsked()).To(gomega.Equal(1), "the server may not know of it")
}

func TestARefusalHasTheWordsOfTheServer(t *testing.T) {
	budget := metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "the budget b allows none"}
	other := metav1.StatusCause{Type: "Other", Message: "irrelevant"}
	for name, c := range map[string]struct {
		details *metav1.StatusDetails
		want    string
	}{
		"no details":   {nil, "Pod d/a: try later"},
		"no budget":    {&metav1.StatusDetails{Causes: []metav1.StatusCause{other}}, "Pod d/a: try later"},
		"of a budget":  {&metav1.StatusDetails{Causes: []metav1.StatusCause{other, budget}}, "Pod d/a: the budget b allows none"},
		"of no causes": {&metav1.StatusDetails{}, "Pod d/a: try later"},
	} {
		t.Run(name, func(t *testing.T) {
			pass := one(t, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Message: "try later", Details: c.details,
			}}, podIn("d", "a"))
			gomega.NewWithT(t).Expect(pass.Refusals()).To(gomega.Equal(c.want))
		})
	}
}

func TestEachStateOfAPodHasItsWord(t *testing.T) {
	g := gomega.NewWithT(t)
	for state, want := range map[drain.State]string{
		drain.Terminating: "Pod n/a is still terminating",
		drain.Refused:     "Pod n/a: why",
		drain.NoAnswer:    "Pod n/a: no answer to its eviction: why",
		drain.NotAsked:    "Pod n/a: not asked yet",
	} {
		g.Expect(drain.Leftover{Pod: "n/a", State: state, Reason: "why"}.String()).To(gomega.Equal(want))
	}
}

func TestOnlyALongListIsCut(t *testing.T) {
	g := gomega.NewWithT(t)
	var pass drain.Pass
	for _, name := range []string{"n/a", "n/b", "n/c"} {
		pass.Left = append(pass.Left, drain.Leftover{Pod: name, State: drain.Terminating})
	}
	const three = "Pod n/a is still terminating; Pod n/b is still terminating; Pod n/c is still terminating"
	g.Expect(pass.Leftovers()).To(gomega.Equal(three))
	pass.Left = append(pass.Left, drain.Leftover{Pod: "n/d", State: drain.Terminating})
	g.Expect(pass.Leftovers()).To(gomega.Equal(three + "; and 1 more"))
}

func TestATerminatingPodIsNotAskedToLeaveAgain(t *testing.T) {
	g, now, asked := gomega.NewWithT(t), metav1.Now(), 0
	leaving := podIn("d", "a")
	leaving.DeletionTimestamp = &now
	client := scripted{list: listOf(leaving), evict: func(*policyv1.Eviction) error { asked++; return nil }}
	pass, err := drain.New(client, "n1").Pass(t.Context(), true)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(left(pass)).To(gomega.Equal([]string{"d/a"}))
	g.Expect(asked).To(gomega.BeZero())
}
