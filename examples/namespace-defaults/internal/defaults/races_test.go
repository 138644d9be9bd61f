package defaults_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/namespace-defaults/internal/defaults"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

const (
	managedBy  = "app.kubernetes.io/managed-by"
	quotaPath  = quotas + "/" + defaults.Name
	limitsPath = limits + "/" + defaults.Name
)

// quota edits the quota as another client does.
func (w *world) quota(edit func(*corev1.ResourceQuota)) {
	w.T.Helper()
	all := w.User.CoreV1().ResourceQuotas("team")
	quota, err := all.Get(w.T.Context(), defaults.Name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	edit(quota)
	_, err = all.Update(w.T.Context(), quota, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func raised(q *corev1.ResourceQuota) { q.Spec.Hard["pods"] = resource.MustParse("100000") }

// spoil edits the limits, which the controller then restores.
func (w *world) spoil() {
	w.T.Helper()
	all := w.User.CoreV1().LimitRanges("team")
	limits, err := all.Get(w.T.Context(), defaults.Name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	limits.Spec.Limits[0].Max["cpu"] = resource.MustParse("100")
	_, err = all.Update(w.T.Context(), limits, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// Another client takes the quota over after the controller has looked at it,
// and before its request arrives.
func TestAQuotaThatIsTakenOverIsLeftAlone(t *testing.T) {
	for method, act := range map[string]func(w *world){
		http.MethodPatch:  func(w *world) { w.quota(raised) },
		http.MethodDelete: func(w *world) { w.edit(exempt) },
	} {
		t.Run(method, func(t *testing.T) {
			inWorld(t, func(w *world) {
				raced := false
				w.Tap.Before = wiretap.Once(method, quotaPath, func(*http.Request) *http.Response {
					raced = true
					w.quota(func(q *corev1.ResourceQuota) {
						q.Labels = nil
						q.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("1")}
					})
					return nil
				})
				w.start()
				w.create()
				w.Expect(w.Writes()).To(HaveLen(3))
				act(w)
				w.Pass(time.Hour)
				w.Expect(raced).To(BeTrue())
				w.quota(func(q *corev1.ResourceQuota) { w.Expect(q.Spec.Hard.Pods().Value()).To(Equal(int64(1))) })
			})
		})
	}
}

func TestTheMarkOfOthersIsNotOurs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.create()
		w.Expect(w.Writes()).To(HaveLen(3))
		w.quota(func(q *corev1.ResourceQuota) { q.Labels[managedBy] = "helm"; raised(q) })
		w.Pass(time.Minute)
		w.edit(exempt)
		w.Expect(w.Writes()).To(Equal([]string{limitsDeleted}))
	})
}

func TestWhatOthersHaveAddedStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.create()
		w.Expect(w.Writes()).To(HaveLen(3))
		w.quota(func(q *corev1.ResourceQuota) { q.Annotations["theirs"] = "stays"; raised(q) })
		w.Pass(time.Minute)
		w.quota(func(q *corev1.ResourceQuota) {
			w.Expect(q.Spec.Hard.Pods().Value()).To(Equal(int64(100)))
			w.Expect(q.Annotations).To(HaveKeyWithValue("theirs", "stays"))
		})
	})
}

// Any error, returned for the requests of a life until no event leads to
// another look, only delays the result.
func TestWhatFailsIsTriedAgain(t *testing.T) {
	failure := apierrors.NewInternalError(errors.New("try again"))
	exists := func(resource string) *apierrors.StatusError {
		return apierrors.NewAlreadyExists(corev1.Resource(resource), defaults.Name)
	}
	for name, c := range map[string]struct {
		method, path string
		why          *apierrors.StatusError
	}{
		"the owner":                   {http.MethodPatch, "/api/v1/namespaces/team", failure},
		"a quota":                     {http.MethodPost, quotas, failure},
		"limits":                      {http.MethodPost, limits, failure},
		"a quota that came too early": {http.MethodPost, quotas, exists("resourcequotas")},
		"limits that came too early":  {http.MethodPost, limits, exists("limitranges")},
		"a patch of the quota":        {http.MethodPatch, quotaPath, failure},
		"a patch of the limits":       {http.MethodPatch, limitsPath, failure},
		"the deletion of the quota":   {http.MethodDelete, quotaPath, failure},
		"the deletion of the limits":  {http.MethodDelete, limitsPath, failure},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				failed := false
				w.Tap.Before = wiretap.For(2*time.Second, c.method, c.path, func(r *http.Request) *http.Response {
					failed = true
					return wiretap.Refuse(r, c.why)
				})
				w.start()
				w.create()
				w.Pass(2 * time.Minute)
				w.Expect(w.Writes()).To(ConsistOf(owned, quotaCreated, limitsCreated))
				w.quota(raised)
				w.spoil()
				w.Pass(2 * time.Minute)
				w.Expect(w.Writes()).To(ConsistOf(quotaPatched, limitsPatched))
				w.edit(exempt)
				w.Pass(2 * time.Minute)
				w.Expect(w.Writes()).To(ConsistOf(quotaDeleted, limitsDeleted))
				w.Expect(failed).To(BeTrue())
			})
		})
	}
}

// A namespace that is deleted, or deleted already, refuses new objects: that is
// no failure.
func TestATerminatingNamespaceIsNotAFailure(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("resourcequotas"), defaults.Name, errors.New("it is terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, why := range map[string]*apierrors.StatusError{
		"it terminates":     terminating,
		"it does not exist": apierrors.NewNotFound(corev1.Resource("namespaces"), "team"),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Tap.Before = func(r *http.Request) *http.Response {
					if r.Method == http.MethodPost {
						return wiretap.Refuse(r, why)
					}
					return nil
				}
				run := w.Start(makerOf(w.policy))
				w.create(ownedBy("alice"))
				w.Pass(time.Minute)
				w.Expect(run.QueueStats().Retried).To(BeZero())
			})
		})
	}
}
