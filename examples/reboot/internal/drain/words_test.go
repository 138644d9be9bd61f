package drain_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/examples/reboot/internal/drain"
)

func podIn(namespace, name string) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// The text goes into an annotation: in another order it would be written again.
func TestPodsAreSortedHoweverTheyAreListed(t *testing.T) {
	g := gomega.NewWithT(t)
	core := fake.NewClientset()
	core.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, nil })
	list := &corev1.PodList{Items: []corev1.Pod{podIn("b", "y"), podIn("b", "x"), podIn("a", "z"), podIn("c", "w")}}
	pass, err := drain.Evict(t.Context(), listing{core.CoreV1(), list}, "n1")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(pass.Left).To(gomega.Equal([]string{"a/z", "b/x", "b/y", "c/w"}))
}

func TestAPodThatHasGoneMeanwhileIsNotRefused(t *testing.T) {
	f := newFixture(t)
	list := &corev1.PodList{Items: []corev1.Pod{podIn("default", "gone")}}
	pass, err := drain.Evict(f.ctx, listing{f.core.CoreV1(), list}, "n1")
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(pass.Refused).To(gomega.BeEmpty())
	f.Expect(pass.Over()).To(gomega.BeFalse(), "nothing is known until the next pass")
}

// The Pod may be there: the page of a proxy is a refusal that people are to see.
func TestAPageIsNoPodThatHasGone(t *testing.T) {
	g, core := gomega.NewWithT(t), fake.NewClientset()
	core.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "create",
			corev1.Resource("pods"), "a", "no route", 0, true)
	})
	pass, err := drain.Evict(t.Context(), listing{core.CoreV1(), &corev1.PodList{Items: []corev1.Pod{podIn("d", "a")}}}, "n1")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(pass.Refusals()).To(gomega.ContainSubstring("the server could not find the requested resource"))
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
			g := gomega.NewWithT(t)
			core := fake.NewClientset()
			core.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, &apierrors.StatusError{ErrStatus: metav1.Status{
					Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Message: "try later", Details: c.details,
				}}
			})
			pass, err := drain.Evict(t.Context(), listing{core.CoreV1(), &corev1.PodList{Items: []corev1.Pod{podIn("d", "a")}}}, "n1")
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(pass.Refusals()).To(gomega.Equal(c.want))
		})
	}
}

func TestOnePodWithoutAnAnswerDoesNotKeepTheOthers(t *testing.T) {
	g := gomega.NewWithT(t)
	core := fake.NewClientset()
	asked := 0
	core.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		asked++
		if asked == 1 {
			return true, nil, errors.New("no route to host")
		}
		return true, nil, nil
	})
	list := &corev1.PodList{Items: []corev1.Pod{podIn("d", "a"), podIn("d", "b")}}
	pass, err := drain.Evict(t.Context(), listing{core.CoreV1(), list}, "n1")
	g.Expect(err).To(gomega.MatchError("evicting Pod d/a: no route to host"))
	g.Expect(asked).To(gomega.Equal(2))
	g.Expect(pass.Left).To(gomega.Equal([]string{"d/a", "d/b"}))
}

func TestOnlyALongListIsCut(t *testing.T) {
	g := gomega.NewWithT(t)
	const three = "Pod n/a is still terminating; Pod n/b is still terminating; Pod n/c is still terminating"
	g.Expect(drain.Pass{Left: []string{"n/a", "n/b", "n/c"}}.Leftovers()).To(gomega.Equal(three))
	g.Expect(drain.Pass{Left: []string{"n/a", "n/b", "n/c", "n/d"}}.Leftovers()).To(gomega.Equal(three + "; and 1 more"))
}

func TestATerminatingPodIsNotAskedToLeaveAgain(t *testing.T) {
	g := gomega.NewWithT(t)
	core, now := fake.NewClientset(), metav1.Now()
	leaving := podIn("d", "a")
	leaving.DeletionTimestamp = &now
	pass, err := drain.Evict(t.Context(), listing{core.CoreV1(), &corev1.PodList{Items: []corev1.Pod{leaving}}}, "n1")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(pass.Left).To(gomega.Equal([]string{"d/a"}))
	g.Expect(core.Actions()).To(gomega.BeEmpty())
}
