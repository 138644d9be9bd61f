package patch_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
)

const (
	mine   = "example.com/mine"
	theirs = "example.com/theirs"
)

// guarded is a finalizer with its server, and what was cleaned up and reported.
type guarded struct {
	patch.Finalizer[*widget, *recording[*widget]]
	recording[*widget]
	written
	cleaned []string
	fault   error
}

func newGuarded() *guarded {
	g := &guarded{}
	g.Finalizer = patch.Finalizer[*widget, *recording[*widget]]{
		Name: mine, Client: always(&g.recording),
		Clean: func(_ context.Context, w *widget) error {
			g.cleaned = append(g.cleaned, w.Name)
			return g.fault
		},
	}
	return g
}

// guard calls Guard for an object with the finalizers; the answer is another
// such object.
func (g *guarded) guard(t *testing.T, cached *widget, answer ...string) (live bool, newest *widget, err error) {
	t.Helper()
	g.answer = cached.DeepCopyObject().(*widget)
	g.answer.Finalizers = answer
	return g.Guard(ownwrites.NewContext(t.Context(), &g.written), cached)
}

func finalized(finalizers ...string) *widget {
	w := gadget()
	w.Finalizers = finalizers
	return w
}

func deleting(finalizers ...string) *widget {
	w := finalized(finalizers...)
	now := metav1.Now()
	w.DeletionTimestamp = &now
	return w
}

func TestAFinalizerIsAddedOnceAndBesideOthers(t *testing.T) {
	g, f := NewWithT(t), newGuarded()
	cached := finalized(theirs)
	live, newest, err := f.guard(t, cached, theirs, mine)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeTrue())
	g.Expect(newest.Finalizers).To(Equal([]string{theirs, mine}))
	g.Expect(cached).To(Equal(finalized(theirs)), "the cache is not written to")
	g.Expect(f.requests).To(HaveLen(1))
	g.Expect(f.requests[0].body).To(MatchJSON(
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"add","path":"/metadata/uid","value":"u2"},
		{"op":"test","path":"/metadata/finalizers","value":["example.com/theirs"]},
		{"op":"add","path":"/metadata/finalizers","value":["example.com/theirs","example.com/mine"]}]`))
	g.Expect(f.requests[0].manager).To(Equal("doorman"))
	g.Expect(f.wrote).To(Equal([]string{"w@3"}), "the next reconcile sees it")
	live, _, err = f.guard(t, newest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeTrue())
	g.Expect(f.requests).To(HaveLen(1))
	g.Expect(f.cleaned).To(BeEmpty())
}

func TestAFinalizerIsRemovedAfterCleaning(t *testing.T) {
	g, f := NewWithT(t), newGuarded()
	live, newest, err := f.guard(t, deleting(theirs, mine), theirs)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeFalse())
	g.Expect(f.cleaned).To(Equal([]string{"w"}))
	g.Expect(f.requests[0].body).To(MatchJSON(
		`[{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"add","path":"/metadata/uid","value":"u2"},
		{"op":"test","path":"/metadata/finalizers","value":["example.com/theirs","example.com/mine"]},
		{"op":"add","path":"/metadata/finalizers","value":["example.com/theirs"]}]`))
	live, _, err = f.guard(t, newest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeFalse())
	g.Expect(f.cleaned).To(HaveLen(1), "nothing is left to clean")
}

func TestAFinalizerStaysUntilCleaningSucceeds(t *testing.T) {
	g, f := NewWithT(t), newGuarded()
	f.fault = errors.New("volume is in use")
	live, _, err := f.guard(t, deleting(mine))
	g.Expect(live).To(BeFalse())
	g.Expect(err).To(MatchError(`cleaning up for finalizer "example.com/mine": volume is in use`))
	g.Expect(f.requests).To(BeEmpty())
}

func TestAFinalizerIsNotAddedToAnObjectThatIsBeingDeleted(t *testing.T) {
	g, f := NewWithT(t), newGuarded()
	live, _, err := f.guard(t, deleting(theirs))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(live).To(BeFalse())
	g.Expect(f.requests).To(BeEmpty())
	g.Expect(f.cleaned).To(BeEmpty())
}

func TestAFinalizersConflictIsAConflict(t *testing.T) {
	g, f := NewWithT(t), newGuarded()
	f.err = apierrors.NewConflict(configMaps, "w", errors.New("changed"))
	cached := finalized()
	live, newest, err := f.guard(t, cached)
	g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	g.Expect(live).To(BeFalse())
	g.Expect(newest).To(BeIdenticalTo(cached))
	g.Expect(f.wrote).To(BeEmpty())
	cached = deleting(mine)
	live, newest, err = f.guard(t, cached)
	g.Expect(err).To(MatchError(patch.IsStale, "IsStale"))
	g.Expect(err).To(MatchError(ContainSubstring("removing finalizer")))
	g.Expect(live).To(BeFalse())
	g.Expect(newest).To(BeIdenticalTo(cached))
	f.err = apierrors.NewNotFound(configMaps, "w")
	dying := deleting(mine)
	_, _, err = f.guard(t, dying)
	g.Expect(err).To(MatchError(ContainSubstring("removing finalizer")), "its client may be of another namespace")
	dying.Namespace = ""
	_, _, err = f.guard(t, dying)
	g.Expect(err).NotTo(HaveOccurred(), "a deleted object needs no finalizer removed")
}

// The list of a built-in kind is merged by its elements, and locked all the
// same.
func TestAFinalizerOfABuiltInKindIsLocked(t *testing.T) {
	g := NewWithT(t)
	guarded := node()
	guarded.Finalizers = []string{mine}
	c := &recording[*corev1.Node]{answer: guarded}
	f := patch.Finalizer[*corev1.Node, *recording[*corev1.Node]]{
		Name: mine, Client: always(c), Clean: func(context.Context, *corev1.Node) error { return nil },
	}
	_, _, err := f.Guard(t.Context(), node())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].pt).To(Equal(types.StrategicMergePatchType))
	g.Expect(c.requests[0].body).To(MatchJSON(
		`{"metadata":{"resourceVersion":"7","uid":"u1","finalizers":["example.com/mine"]}}`))
}

func TestAWrongFinalizerSaysWhatAndIsTerminal(t *testing.T) {
	g := NewWithT(t)
	_, _, err := patch.Finalizer[*widget, *recording[*widget]]{Name: "no domain!"}.Guard(t.Context(), gadget())
	g.Expect(err).To(MatchError(And(
		ContainSubstring(`Finalizer.Name is "no domain!"`),
		ContainSubstring("Finalizer.Client is nil"), ContainSubstring("Finalizer.Clean is nil"))))
	g.Expect(terminal.Is(err)).To(BeTrue())
	f := newGuarded()
	_, _, err = f.Guard(t.Context(), nil)
	g.Expect(err).To(MatchError(`guarding an object with finalizer "example.com/mine": the object is nil`))
	g.Expect(terminal.Is(err)).To(BeTrue())
	f.Name = metav1.FinalizerOrphanDependents
	_, _, err = f.Guard(t.Context(), deleting(f.Name))
	g.Expect(err).To(MatchError(ContainSubstring(`Finalizer.Name is "orphan": must have a domain, such as example.com/volumes`)))
	g.Expect(terminal.Is(err)).To(BeTrue())
	g.Expect(f.cleaned).To(BeEmpty())
	g.Expect(f.requests).To(BeEmpty(), "the garbage collector's finalizer is not touched")
}

// Without the check, Clean would be called for d/x, and the patch would go to
// another object.
func TestAFinalizersClientMustBelongToTheObjectsNamespace(t *testing.T) {
	client := fake.NewClientset().CoreV1()
	for want, of := range map[string]podClients{
		`the client is for namespace "e", and would write "e/x" instead`: func(string) typedcorev1.PodInterface { return client.Pods("e") },
		`there is no client for namespace "d"`:                           func(string) typedcorev1.PodInterface { return nil },
	} {
		g := NewWithT(t)
		object := blankPod("d")
		now := metav1.Now()
		object.DeletionTimestamp, object.Finalizers = &now, []string{mine}
		live, newest, err := patch.Finalizer[*corev1.Pod, typedcorev1.PodInterface]{
			Name: mine, Client: of, Clean: func(context.Context, *corev1.Pod) error {
				t.Error("cleaned up")
				return nil
			},
		}.Guard(t.Context(), object)
		g.Expect(live).To(BeFalse())
		g.Expect(newest).To(BeIdenticalTo(object))
		g.Expect(err).To(MatchError(And(ContainSubstring("guarding d/x"), ContainSubstring(want))))
		g.Expect(terminal.Is(err)).To(BeTrue())
	}
}

// Work outside the cluster is safe only with the finalizer. A webhook can
// remove it, and a cache can answer with an earlier state.
func TestAnAnswerWithoutTheFinalizerDoesNotGuard(t *testing.T) {
	g := NewWithT(t)
	f := newGuarded()
	f.answer = gadget()
	live, _, err := f.Guard(t.Context(), gadget())
	g.Expect(live).To(BeFalse())
	g.Expect(err).To(MatchError(ContainSubstring(`adding finalizer "example.com/mine": the answer does not have it`)))
	g.Expect(patch.IsStale(err)).To(BeFalse())
}

func TestAnAnswerThatStillHasTheFinalizerIsAnError(t *testing.T) {
	g := NewWithT(t)
	f := newGuarded()
	live, _, err := f.guard(t, deleting(mine), mine)
	g.Expect(live).To(BeFalse())
	g.Expect(err).To(MatchError(ContainSubstring(`removing finalizer "example.com/mine": the answer still has it`)))
	g.Expect(patch.IsStale(err)).To(BeFalse())
}

// A gateway may turn all writes into dry runs, for example during a freeze of
// changes. The answer has the finalizer, and the server does not.
func TestAnAnswerOfADryRunDoesNotGuard(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	admin := kubernetes.NewForConfigOrDie(sim.Admin()).CoreV1().ConfigMaps("d")
	cached, err := admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	config := sim.Config("controller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return frozen{next} })
	f := patch.Finalizer[*corev1.ConfigMap, typedcorev1.ConfigMapInterface]{
		Name: mine, Client: kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps,
		Clean: func(context.Context, *corev1.ConfigMap) error { return nil },
	}
	live, _, err := f.Guard(t.Context(), cached)
	g.Expect(live).To(BeFalse())
	g.Expect(err).To(MatchError(ContainSubstring("the server has not stored it")))
}
