package mirror_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/examples/mirror/internal/mirror"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func makeController(env operator.Env) (*reconcile.Controller, error) {
	all, err := mirror.Setup(env)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// world has the source home/pass, the teams a and b, and mirrors.
type world struct {
	*stage.World
	mirrors *cluster.KindClient[*mirror.SecretMirror, *mirror.SecretMirrorList]
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	stage.Simulate(t, &apisim.Options{Resources: []apisim.Resource{{
		Group: "mirror.homeostat.dev", Version: "v1alpha1", Resource: "secretmirrors", Kind: "SecretMirror", Status: true,
	}}}, func(s *stage.World) {
		kind, err := mirror.NewKind(stage.Reach(s.Sim.Admin()))
		s.Expect(err).NotTo(HaveOccurred())
		w := &world{s, kind.In("")}
		for _, name := range []string{"a", "b"} {
			w.namespace(name, "yes")
		}
		w.namespace("other", "no")
		w.secret("home", "pass", "one")
		f(w)
	})
}

func (w *world) namespace(name, team string) {
	w.T.Helper()
	_, err := w.User.CoreV1().Namespaces().Create(w.T.Context(), namespace(name, team), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) secret(namespace, name, value string) {
	w.T.Helper()
	_, err := w.User.CoreV1().Secrets(namespace).Create(w.T.Context(), secret(namespace, name, value), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func (w *world) mirror() {
	w.T.Helper()
	_, err := w.mirrors.Create(w.T.Context(), mirrorOf("m", "pass"), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// copies are what the Secrets pass have, but for the source.
func (w *world) copies() map[string]string {
	w.T.Helper()
	w.Pass(time.Second)
	all, err := w.User.CoreV1().Secrets("").List(w.T.Context(), metav1.ListOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, s := range slices.DeleteFunc(all.Items, func(s corev1.Secret) bool { return s.Namespace == "home" }) {
		found[s.Namespace] = string(s.Data["is"])
	}
	return found
}

// ready is the status of the mirror.
func (w *world) ready() (copies int64, condition metav1.Condition) {
	w.T.Helper()
	m, err := w.mirrors.Get(w.T.Context(), "m", metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	found := meta.FindStatusCondition(m.Status.Conditions, "Ready")
	w.Expect(found).NotTo(BeNil())
	return m.Status.Copies, *found
}

func TestEveryTeamHasACopy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Start(makeController)
		w.mirror()
		w.Expect(w.copies()).To(Equal(map[string]string{"a": "one", "b": "one"}))
		copies, condition := w.ready()
		w.Expect(copies).To(BeEquivalentTo(2))
		w.Expect(condition.Status).To(Equal(metav1.ConditionTrue))
		w.Expect(w.User.CoreV1().Secrets("a").Delete(w.T.Context(), "pass", metav1.DeleteOptions{})).To(Succeed())
		w.namespace("late", "yes")
		w.Expect(w.copies()).To(Equal(map[string]string{"a": "one", "b": "one", "late": "one"}))
	})
}

func TestASecretOfOthersIsLeftAloneAndNamed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.secret("a", "pass", "theirs")
		w.Start(makeController)
		w.mirror()
		w.Expect(w.copies()).To(Equal(map[string]string{"a": "theirs", "b": "one"}))
		copies, condition := w.ready()
		w.Expect(copies).To(BeEquivalentTo(2), "those that should be there")
		w.Expect(condition.Reason).To(Equal("Conflict"))
		w.Expect(condition.Message).To(ContainSubstring(`Secret "a/pass": it exists and has no owner`))
		w.Expect(w.Events.Events).To(Receive(And(HavePrefix("Warning Conflict"), ContainSubstring(condition.Message))))
		w.Expect(w.User.CoreV1().Secrets("a").Delete(w.T.Context(), "pass", metav1.DeleteOptions{})).To(Succeed())
		w.Pass(time.Hour)
		w.Expect(w.copies()).To(Equal(map[string]string{"a": "one", "b": "one"}), "it heals by itself")
	})
}

func TestCopiesStayWhileTheSourceIsMissing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Start(makeController)
		w.mirror()
		w.copies()
		w.Expect(w.User.CoreV1().Secrets("home").Delete(w.T.Context(), "pass", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.copies()).To(HaveLen(2))
		_, condition := w.ready()
		w.Expect(condition.Reason).To(Equal("NoSource"))
		w.Expect(condition.Message).To(Equal(`copying Secret "home/pass" for SecretMirror "m": the source does not exist`))
		w.secret("home", "pass", "two")
		w.Expect(w.copies()).To(Equal(map[string]string{"a": "two", "b": "two"}))
	})
}

// A selector that cannot be read selects nothing, and must not delete
// everything.
func TestAWrongSelectorDeletesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Start(makeController)
		w.mirror()
		w.copies()
		_, err := w.mirrors.Patch(w.T.Context(), "m", types.MergePatchType,
			[]byte(`{"spec":{"namespaces":{"matchLabels":{"a b":"c"}}}}`), metav1.PatchOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.copies()).To(HaveLen(2))
		_, condition := w.ready()
		w.Expect(condition.Reason).To(Equal("Failed"))
	})
}

// Of {team: null}, which a template makes of an empty value, the server may keep
// an empty selector.
func TestASelectorThatHasLostItsConditionCopiesAndDeletesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Start(makeController)
		w.mirror()
		w.copies()
		_, err := w.mirrors.Patch(w.T.Context(), "m", types.MergePatchType,
			[]byte(`{"spec":{"namespaces":{"matchLabels":null}}}`), metav1.PatchOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.copies()).To(HaveLen(2))
		_, condition := w.ready()
		w.Expect(condition.Reason).To(Equal("Failed"))
		w.Expect(condition.Message).To(ContainSubstring("spec.namespaces has no condition"))
	})
}

func TestCopiesOfAMirrorThatWasDeletedMeanwhileAreDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		run := w.Start(makeController)
		w.mirror()
		w.Expect(w.copies()).To(HaveLen(2))
		w.Expect(run.Stop()).To(Succeed())
		w.Expect(w.mirrors.Delete(w.T.Context(), "m", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.copies()).To(HaveLen(2))
		w.Start(makeController)
		w.Expect(w.copies()).To(BeEmpty())
	})
}
