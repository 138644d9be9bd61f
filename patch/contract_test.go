package patch_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/internal/ownwrites"
	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/patch"
)

// all runs several tests of one promise.
func all(tests ...func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) {
		for _, test := range tests {
			test(t)
		}
	}
}

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"The cached object is never written to.": cacheStays,
		"An edit gets a deep copy, which it may retain.": all(
			TestARetainedCopySharesNothingWithTheCache, TestAnEditMayRetainPartsOfItsCopy, TestAGoroutineMayRetainTheCopyOfAnEdit,
			TestEnsureLetsTheEditRetainWhatItCreatesAndPatches),
		"Go types of k8s.io/api get a strategic merge patch: lists are merged by key, so changes by other clients survive in " +
			"them.": mergesLists,
		"All other types get a JSON merge patch (RFC 7386).": mergesCustomKinds,
		"An edit of any other list is sent as a JSON patch (RFC 6902) of the elements that it changed, locked by the " +
			"resourceVersion.": all(editsListsByIndex, TestAPatchEditsUnderALockAListWhoseMergeKeyIsNotUnique,
			TestFinalizersAndOwnersOfCustomKindsAreLocked),
		"What the Go type or a Transform hides from the program survives, also in the elements of lists.": TestWhatTheProgramDoesNotSeeSurvives,
		"An edit that could lose hidden values is refused by the server, and the error names the field.":  TestAnEditThatCouldLoseSomethingIsRefused,
		"A map of labels or annotations, and a list that is merged by key, is emptied entry by entry: entries that " +
			"other clients have added since the read stay.": emptiesOneByOne,
		"No write reaches a different object: it goes to the client of the cached object's namespace, and the UID is a " +
			"precondition, so that a recreated object is refused too.": all(
			TestTheClientOfTheObjectsNamespaceIsTaken, TestAClientOfAnotherNamespaceIsRefused,
			TestAClientOfAHiddenNamespaceIsRefusedByTheServer, TestARecreatedObjectIsRefused),
		"An answer about a different object is an error that names both.": TestAnAnswerAboutAnotherObjectNamesBoth,
		"Where servers ignore the UID, in the status and scale of custom kinds, the resourceVersion is locked.": all(
			TestTheStatusOfARecreatedCustomObjectIsNotWritten, TestTheScaleOfACustomKindIsLocked),
		"The status of a custom kind with a Go type records the observed generation, and so do the conditions in " +
			"status.conditions that an edit sets.": all(TestStatusOfACustomKindNotesTheGenerationThatItIsAbout,
			TestStatusOfACustomKindSendsNothingOnceItHas, TestConditionsNoteTheGenerationThatTheyAreAbout,
			TestConditionsElsewhereInTheStatusStayAsTheEditSetsThem),
		"Other writes of the cached object are locked only with Options.Lock.": all(
			locksOnRequest, TestDeleteLocksTheResourceVersionOnRequest),
		"A failed precondition satisfies IsStale.":                                                           refusalsAreStale,
		"An answer that does not name the object, such as the {} of a gateway, is an error with any status.": TestASuccessThatIsNotTheServersIsNoSuccess,
		"Only the server's own answer about this object is taken for its deletion, not any status 404.":      onlyItsOwnAnswer,
		"Every edit and every configuration is sent with a field manager.":                                   hasFieldManager,
		"Every write is reported to the reconcile whose context it is given, except for dry runs.":           reportsWrites,
		"A mistake that can be seen before any request is an error that names it.": all(
			TestMergeRefusesBadInputBeforeAnyRequest, TestMergeRefusesNilObjectsAndNilClients, TestAPatchRefusesAnEditThatTheEndpointWouldDrop,
			TestEnsureRefusesBadInputBeforeAnyRequest, TestDeleteRefusesBadInputBeforeAnyRequest,
			TestAnApplierRefusesBadInputBeforeAnyRequest, namesAMissingClient, TestAWrongFinalizerSaysWhatAndIsTerminal),
	})
}

// writes are podWrites, and Ensure and Guard as they make other requests.
func writes() map[string]func(ctx context.Context, of podClients, pod *corev1.Pod) error {
	out := map[string]func(ctx context.Context, of podClients, pod *corev1.Pod) error{
		"Ensure of a new object": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
			_, err := patch.Ensure(ctx, of, blankPod(pod.Namespace), nil, relabel)
			return err
		},
		"Guard": func(ctx context.Context, of podClients, pod *corev1.Pod) error {
			_, _, err := patch.Finalizer[*corev1.Pod, typedcorev1.PodInterface]{
				Name: mine, Client: of, Clean: func(context.Context, *corev1.Pod) error { return nil },
			}.Guard(ctx, pod)
			return err
		},
	}
	maps.Copy(out, podWrites)
	return out
}

// richPod is stored by a simulated server, with something in each container
// that a careless edit would share.
func richPod(t *testing.T) (podClients, *corev1.Pod) {
	t.Helper()
	pods := simulated(t).CoreV1().Pods
	pod := blankPod("b")
	pod.Labels, pod.Annotations, pod.Finalizers = map[string]string{"a": "a"}, map[string]string{"a": "a"}, []string{theirs}
	stored, err := pods("b").Create(t.Context(), pod, metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return pods, stored
}

func cacheStays(t *testing.T) {
	for name, write := range writes() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pods, cached := richPod(t)
			before := cached.DeepCopy()
			g.Expect(write(t.Context(), pods, cached)).To(Succeed())
			g.Expect(cached).To(Equal(before))
			g.Expect(write(t.Context(), func(string) typedcorev1.PodInterface { return nil }, cached)).NotTo(Succeed())
			g.Expect(cached).To(Equal(before), "nor if it fails")
		})
	}
	g := NewWithT(t)
	pods, cached := richPod(t)
	before := cached.DeepCopy()
	_, err := patch.Merge(t.Context(), pods, cached, nil, func(p *corev1.Pod) {
		p.Labels["a"], p.Annotations["b"], p.Finalizers[0], p.Spec.Containers[0].Image = "b", "b", mine, "b"
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(cached).To(Equal(before))
}

// mergesLists edits a list that another client has edited since it was read, in
// every way that there is.
func mergesLists(t *testing.T) {
	for name, edit := range map[string]func(s *corev1.Service){
		"changed": func(s *corev1.Service) { s.Spec.Ports[0].Name = "mine" },
		"added":   func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, port("mine", 9, tcp)) },
		"removed": func(s *corev1.Service) { s.Spec.Ports = s.Spec.Ports[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			services := simulated(t).CoreV1().Services
			base := service(port("a", 1, tcp), port("b", 2, tcp))
			base.ResourceVersion = ""
			cached, err := services("ns").Create(t.Context(), base, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			changed := cached.DeepCopy()
			changed.Spec.Ports[1].Name = "theirs"
			changed.Spec.Ports = append(changed.Spec.Ports, port("also-theirs", 3, tcp))
			_, err = services("ns").Update(t.Context(), changed, metav1.UpdateOptions{})
			g.Expect(err).NotTo(HaveOccurred())

			want := changed.DeepCopy()
			edit(want)
			got, err := patch.Merge(t.Context(), services, cached, nil, edit)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(portNames(got)).To(ConsistOf(portNames(want)))
		})
	}
}

func portNames(s *corev1.Service) []string {
	var names []string
	for _, p := range s.Spec.Ports {
		names = append(names, p.Name)
	}
	return names
}

func mergesCustomKinds(t *testing.T) {
	g := NewWithT(t)
	w := &recording[*widget]{answer: gadget()}
	_, err := patch.Merge(t.Context(), always(w), gadget(), nil, func(w *widget) { w.Spec.Color = "blue" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.requests[0].pt).To(BeEquivalentTo("application/merge-patch+json"))
	g.Expect(w.requests[0].body).To(MatchJSON(`{"metadata":{"uid":"u2"},"spec":{"color":"blue"}}`))
}

func editsListsByIndex(t *testing.T) {
	g := NewWithT(t)
	w := &recording[*widget]{answer: gadget()}
	_, err := patch.Merge(t.Context(), always(w), gadget(), nil, func(w *widget) { w.Spec.Parts[1].Kind = "z" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.requests[0].pt).To(BeEquivalentTo("application/json-patch+json"))
	g.Expect(w.requests[0].body).To(MatchJSON(`[
		{"op":"add","path":"/metadata/resourceVersion","value":"3"},{"op":"add","path":"/metadata/uid","value":"u2"},
		{"op":"test","path":"/spec/parts/1/name","value":"b"},{"op":"test","path":"/spec/parts/1/kind","value":"y"},
		{"op":"add","path":"/spec/parts/1/kind","value":"z"}]`))

	// The merge key is the name, which is left out of the JSON where it is
	// empty.
	keyless := func() *corev1.Pod {
		pod := blankPod("ns")
		pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{}, {Name: "b"}}
		return pod
	}
	c := &recording[*corev1.Pod]{answer: keyless()}
	_, err = patch.Merge(t.Context(), always(c), keyless(), nil, func(p *corev1.Pod) { p.Spec.ImagePullSecrets[1].Name = "c" })
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].pt).To(BeEquivalentTo("application/json-patch+json"))
	g.Expect(patched(t, keyless(), c.requests[0].body).Spec.ImagePullSecrets).To(
		Equal([]corev1.LocalObjectReference{{}, {Name: "c"}}))
}

// emptiesOneByOne removes all that was read, while another client has added
// more.
func emptiesOneByOne(t *testing.T) {
	g := NewWithT(t)
	services := simulated(t).CoreV1().Services
	base := service(port("a", 1, tcp), port("b", 2, tcp))
	base.ResourceVersion, base.Annotations = "", map[string]string{"a": "1", "b": "2"}
	cached, err := services("ns").Create(t.Context(), base, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	changed := cached.DeepCopy()
	changed.Labels["theirs"], changed.Annotations["theirs"] = "yes", "yes"
	changed.Spec.Ports = append(changed.Spec.Ports, port("theirs", 3, tcp))
	_, err = services("ns").Update(t.Context(), changed, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	got, err := patch.Merge(t.Context(), services, cached, nil, func(s *corev1.Service) {
		s.Labels, s.Annotations, s.Spec.Ports = nil, nil, nil
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Labels).To(Equal(map[string]string{"theirs": "yes"}))
	g.Expect(got.Annotations).To(Equal(map[string]string{"theirs": "yes"}))
	g.Expect(portNames(got)).To(Equal([]string{"theirs"}))

	w := gadget()
	w.Labels, w.Annotations = map[string]string{"a": "1"}, map[string]string{"b": "2"}
	g.Expect(sent(t, w, nil, func(w *widget) { w.Labels, w.Annotations = nil, nil })).
		To(MatchJSON(`{"metadata":{"labels":{"a":null},"annotations":{"b":null}}}`), "of custom kinds, too")
}

// locksOnRequest changes the object behind the cache: without Lock the write is
// stored, with it refused.
func locksOnRequest(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, of podClients, pod *corev1.Pod, o *patch.Options) error{
		"Merge": func(ctx context.Context, of podClients, pod *corev1.Pod, o *patch.Options) error {
			_, err := patch.Merge(ctx, of, pod, o, relabel)
			return err
		},
		"Status": func(ctx context.Context, of podClients, pod *corev1.Pod, o *patch.Options) error {
			_, err := patch.Status(ctx, of, pod, o, func(p *corev1.Pod) { p.Status.Reason = "mine" })
			return err
		},
		"Ensure": func(ctx context.Context, of podClients, pod *corev1.Pod, o *patch.Options) error {
			_, err := patch.Ensure(ctx, of, pod, o, relabel)
			return err
		},
		"Delete": patch.Delete[typedcorev1.PodInterface, *corev1.Pod],
	} {
		t.Run(name, func(t *testing.T) {
			for _, lock := range []bool{false, true} {
				g := NewWithT(t)
				pods, cached := richPod(t)
				changed := cached.DeepCopy()
				changed.Annotations["a"] = "theirs"
				_, err := pods("b").Update(t.Context(), changed, metav1.UpdateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				err = write(t.Context(), pods, cached, &patch.Options{Lock: lock})
				g.Expect(patch.IsStale(err)).To(Equal(lock), "%v", err)
				g.Expect(err != nil).To(Equal(lock))
			}
		})
	}
}

// refusalsAreStale tries both conditions on every function, and failures that
// are none of a condition.
func refusalsAreStale(t *testing.T) {
	TestARecreatedObjectIsRefused(t) // by the UID
	locksOnRequest(t)                // by the resourceVersion
	g := NewWithT(t)
	for _, failure := range []error{
		errors.New("no route"), apierrors.NewForbidden(configMaps, "c", nil), apierrors.NewNotFound(configMaps, "c"),
		apierrors.NewServiceUnavailable("away"),
	} {
		_, err := patch.Merge(t.Context(), always(&recording[*corev1.ConfigMap]{err: failure}), configMap("u3"), nil, setB)
		g.Expect(err).To(MatchError(failure))
		g.Expect(patch.IsStale(err)).To(BeFalse(), "%v", err)
	}
}

// hasFieldManager reads the requests of every write: the option wins, then the
// controller's name, then a default.
func hasFieldManager(t *testing.T) {
	for name, write := range writes() {
		if name == "Delete" {
			continue // deletions have none
		}
		t.Run(name, func(t *testing.T) {
			for want, ctx := range map[string]context.Context{
				patch.DefaultFieldManager: t.Context(), "doorman": ownwrites.NewContext(t.Context(), &written{}),
			} {
				g := NewWithT(t)
				client := fake.NewClientset()
				cached := blankPod("b")
				if name != "Ensure of a new object" {
					g.Expect(client.Tracker().Add(cached)).To(Succeed())
					cached.UID = "u1"
				}
				_ = write(ctx, client.CoreV1().Pods, cached) // a fake may refuse the UID
				g.Expect(managers(client.Actions())).To(Equal([]string{want}))
			}
		})
	}
	g := NewWithT(t)
	c := &recording[*corev1.ConfigMap]{answer: configMap("u3")}
	_, err := patch.Merge(t.Context(), always(c), configMap("u3"), &patch.Options{FieldManager: "given"}, setB)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.requests[0].manager).To(Equal("given"))
}

// managers are the field managers of the writes among actions.
func managers(actions []clienttesting.Action) []string {
	var names []string
	for _, action := range actions {
		switch action := action.(type) {
		case clienttesting.PatchActionImpl:
			names = append(names, action.PatchOptions.FieldManager)
		case clienttesting.CreateActionImpl:
			names = append(names, action.CreateOptions.FieldManager)
		}
	}
	return names
}

func namesAMissingClient(t *testing.T) {
	for name, write := range writes() {
		t.Run(name, func(t *testing.T) {
			err := write(t.Context(), func(string) typedcorev1.PodInterface { return nil }, blankPod("b"))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`there is no client for namespace "b"`)))
		})
	}
}

func reportsWrites(t *testing.T) {
	for name, write := range writes() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pods, cached := richPod(t)
			if name == "Ensure of a new object" {
				g.Expect(pods("b").Delete(t.Context(), "x", metav1.DeleteOptions{})).To(Succeed())
				_, err := patch.Merge(t.Context(), pods, cached, nil, func(p *corev1.Pod) { p.Finalizers = nil })
				g.Expect(err).NotTo(HaveOccurred())
			}
			var w written
			g.Expect(write(ownwrites.NewContext(t.Context(), &w), pods, cached)).To(Succeed())
			if name == "Delete" {
				g.Expect(w).To(Equal(written{deleted: []string{"x"}}))
				return
			}
			got, err := pods("b").Get(t.Context(), "x", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w).To(Equal(written{wrote: []string{"x@" + got.ResourceVersion}}))
		})
	}
	g, dry := NewWithT(t), &patch.Options{DryRun: true}
	pods, cached := richPod(t)
	var w written
	ctx := ownwrites.NewContext(t.Context(), &w)
	_, err := patch.Merge(ctx, pods, cached, dry, relabel)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = patch.NewApplier(pods).Apply(ctx, cached, dry, corev1apply.Pod("x", "b").WithLabels(map[string]string{"a": "b"}))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(patch.Delete(ctx, pods, cached, dry)).To(Succeed())
	_, err = patch.Ensure(ctx, pods, blankPod("c"), dry, relabel)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w).To(Equal(written{}))
}
