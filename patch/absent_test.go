package patch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/names"
	"github.com/homeostat/homeostat/patch"
)

// A page with status 404 or 409 is a failure of every write, of every kind of
// client.
func onlyItsOwnAnswer(t *testing.T) {
	r := corev1.SchemeGroupVersion.WithResource("pods")
	for _, page := range slices.Concat(absenttest.Pages(r.GroupResource(), "x"), absenttest.Conflicts()) {
		t.Run(page.Name, func(t *testing.T) {
			g, ctx, cached := NewWithT(t), t.Context(), blankPod("a")
			cached.UID, cached.ResourceVersion = "u", "3"
			typed, untyped := kubernetes.NewForConfigOrDie(page.Config()), dynamic.NewForConfigOrDie(page.Config())
			bare := metadata.NewForConfigOrDie(page.Config())
			for _, err := range []error{
				patch.Delete(ctx, typed.CoreV1().Pods, cached, nil),
				patch.Delete(ctx, patch.Dynamic(untyped.Resource(r)), cached, nil),
				patch.Delete(ctx, patch.Metadata(bare.Resource(r)), cached, nil),
				guard(ctx, typed, cached),
				second(patch.Merge(ctx, typed.CoreV1().Pods, cached, nil, relabel)),
				second(patch.Merge(ctx, typed.CoreV1().Pods, cached, &patch.Options{Subresource: "resize"}, relabel)),
				second(patch.Ensure(ctx, typed.CoreV1().Pods, cached, nil, relabel)),
				second(patch.Ensure(ctx, typed.CoreV1().Pods, blankPod("a"), nil, relabel)),
			} {
				g.Expect(err).To(HaveOccurred())
				g.Expect(patch.IsStale(err)).To(BeFalse(), "%v", err)
			}
		})
	}
}

// An answer without fields is not the server's, although client-go returns no
// error. For a deletion it shows only the status, so package cluster makes an
// error of the answer.
func TestASuccessThatIsNotTheServersIsNoSuccess(t *testing.T) {
	for _, page := range absenttest.Successes() {
		t.Run(page.Name, func(t *testing.T) {
			g, ctx, cached := NewWithT(t), t.Context(), blankPod("a")
			cached.UID, cached.ResourceVersion = "u", "3"
			typed := kubernetes.NewForConfigOrDie(page.Config())
			for _, err := range []error{
				guard(ctx, typed, cached),
				second(patch.Merge(ctx, typed.CoreV1().Pods, cached, nil, relabel)),
				second(patch.Ensure(ctx, typed.CoreV1().Pods, cached, nil, relabel)),
				second(patch.Ensure(ctx, typed.CoreV1().Pods, blankPod("a"), nil, relabel)),
				second(patch.NewApplier(typed.CoreV1().Pods).Apply(ctx, nil, nil, corev1apply.Pod("x", "a").
					WithLabels(map[string]string{"a": "b"}))),
			} {
				g.Expect(err).To(HaveOccurred())
				g.Expect(patch.IsStale(err)).To(BeFalse(), "%v", err)
			}
		})
	}
}

// A gateway knows only the name of the object.
func TestAnAnswerToAWriteWithoutAUIDIsNotTheServers(t *testing.T) {
	page := absenttest.Page{
		ContentType: "application/json", Status: http.StatusOK,
		Body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x","namespace":"a","resourceVersion":"4"}}`,
	}
	ctx, typed := t.Context(), kubernetes.NewForConfigOrDie(page.Config()).CoreV1().Pods
	untyped := dynamic.NewForConfigOrDie(page.Config()).Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	cached := blankPod("a")
	cached.UID, cached.ResourceVersion = "u", "3"
	bare := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "x", "namespace": "a", "uid": "u", "resourceVersion": "3"},
	}}
	config := corev1apply.Pod("x", "a").WithLabels(map[string]string{"a": "b"})
	for name, err := range map[string]error{
		"Merge": second(patch.Merge(ctx, typed, cached, nil, relabel)),
		"Merge of an unstructured object": second(patch.Merge(ctx, untyped.Namespace, bare, nil,
			func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) })),
		"Status": second(patch.Status(ctx, typed, cached, nil, func(p *corev1.Pod) { p.Status.Message = "b" })),
		"Ensure": second(patch.Ensure(ctx, typed, cached, nil, relabel)),
		"Apply":  second(patch.NewApplier(typed).Apply(ctx, cached, nil, config)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(err).To(MatchError(ContainSubstring("the answer has no UID: perhaps a proxy or gateway has sent it")))
			g.Expect(patch.IsStale(err)).To(BeFalse())
		})
	}
}

// A namespace and its object have the same name.
func TestTheMissingNamespaceOfWhatIsAppliedIsNotTheObject(t *testing.T) {
	g := NewWithT(t)
	page := absenttest.Page{
		ContentType: "application/json", Status: http.StatusNotFound,
		Body: `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"a\" not found",` +
			`"reason":"NotFound","details":{"name":"a","kind":"namespaces"},"code":404}`,
	}
	a := patch.NewApplier(kubernetes.NewForConfigOrDie(page.Config()).CoreV1().Pods)
	cached := blankPod("a")
	cached.Name, cached.UID, cached.ResourceVersion = "a", "u", "3"
	for _, cached := range []*corev1.Pod{nil, cached} {
		_, err := a.Apply(t.Context(), cached, nil, corev1apply.Pod("a", "a").WithLabels(map[string]string{"a": "b"}))
		g.Expect(names.IsNotFound(err, corev1.Resource("namespaces"), "a")).To(BeTrue(), "%v", err)
		g.Expect(names.IsNotFound(err, corev1.Resource("pods"), "a")).To(BeFalse())
		g.Expect(patch.IsStale(err)).To(BeFalse())
	}
}

func second[T any](_ T, err error) error { return err }

// guard is what removing a finalizer returns.
func guard(ctx context.Context, client kubernetes.Interface, cached *corev1.Pod) error {
	finalizer := patch.Finalizer[*corev1.Pod, podClient]{
		Name: mine, Client: func(namespace string) podClient { return client.CoreV1().Pods(namespace) },
		Clean: func(context.Context, *corev1.Pod) error { return nil },
	}
	dying := cached.DeepCopy()
	now := metav1.Now()
	dying.DeletionTimestamp, dying.Finalizers = &now, []string{mine}
	_, _, err := finalizer.Guard(ctx, dying)
	return err
}

type podClient interface {
	Patch(
		ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
	) (*corev1.Pod, error)
}

// Without an answer to the read, it is not known why the subresource was not
// found.
func TestASubresourceThatIsNotFoundProvesNothingIfTheObjectCannotBeRead(t *testing.T) {
	g, away := NewWithT(t), errors.New("away")
	s := &unreadable{away: away}
	s.err = apierrors.NewNotFound(configMaps, "c")
	_, err := patch.Ensure(t.Context(), always(s), configMap("u3"), &patch.Options{Subresource: "scale"}, setB)
	g.Expect(err).To(MatchError(away))
	g.Expect(patch.IsStale(err)).To(BeFalse())
	g.Expect(apierrors.IsNotFound(err)).To(BeFalse())
}

// unreadable is a store whose objects cannot be read.
type unreadable struct {
	store
	away error
}

func (u *unreadable) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, u.away
}

// An answer without fields tells neither that the object was deleted nor that
// it has changed.
func TestASuccessThatIsNotTheServersExplainsNoRefusal(t *testing.T) {
	for _, page := range absenttest.Successes() {
		t.Run(page.Name, func(t *testing.T) {
			g, ctx, cached := NewWithT(t), t.Context(), blankPod("a")
			cached.UID, cached.ResourceVersion = "u", "3"
			cached.Spec.Tolerations = []corev1.Toleration{{Key: "a"}}
			answers := func(refusal absenttest.Page) podsOf {
				return kubernetes.NewForConfigOrDie(absenttest.Intercept(page.Config(), func(r *http.Request) *absenttest.Page {
					if r.Method == http.MethodGet {
						return nil
					}
					return &refusal
				})).CoreV1().Pods
			}
			_, missing := patch.Merge(ctx, answers(statusOf(http.StatusNotFound, metav1.StatusReasonNotFound)), cached,
				&patch.Options{Subresource: "resize"}, relabel)
			_, changed := patch.Merge(ctx, answers(statusOf(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)), cached, nil,
				func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b"}) })
			for _, err := range []error{missing, changed} {
				g.Expect(err).To(HaveOccurred())
				g.Expect(patch.IsStale(err)).To(BeFalse(), "%v", err)
				g.Expect(names.IsNotFound(err, corev1.Resource("pods"), "x")).To(BeFalse(), "%v", err)
			}
		})
	}
}

// A refusal with a different status is not about an operation of the patch, so
// nothing is read to explain it.
func TestOnlyAnInvalidPatchIsARefusalOfAnOperation(t *testing.T) {
	g, ctx, cached := NewWithT(t), t.Context(), blankPod("a")
	cached.UID, cached.ResourceVersion = "u", "3"
	cached.Spec.Tolerations = []corev1.Toleration{{Key: "a"}}
	for code, reason := range map[int]metav1.StatusReason{
		http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusInternalServerError: metav1.StatusReasonInternalError,
		http.StatusNotFound: metav1.StatusReasonNotFound,
	} {
		var asked []string
		page := statusOf(code, reason)
		pods := kubernetes.NewForConfigOrDie(absenttest.Intercept(page.Config(), func(r *http.Request) *absenttest.Page {
			asked = append(asked, r.Method)
			return nil
		})).CoreV1().Pods
		_, err := patch.Merge(ctx, pods, cached, nil, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "b"})
		})
		g.Expect(apierrors.ReasonForError(err)).To(Equal(reason), "%v", err)
		g.Expect(err).NotTo(MatchError(ContainSubstring("the server has more")))
		g.Expect(asked).To(HaveEach(http.MethodPatch))
	}
}

type podsOf = func(namespace string) typedcorev1.PodInterface

// statusOf is an answer of the server itself about the Pod x.
func statusOf(code int, reason metav1.StatusReason) absenttest.Page {
	return absenttest.Page{ContentType: "application/json", Status: code, Body: fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"details":{"name":"x","kind":"pods"},"code":%d}`,
		reason, code)}
}
