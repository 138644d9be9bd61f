package settings_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/api"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

// inputs is where the Settings are.
const inputs = "/apis/config.homeostat.dev/v1alpha1/namespaces/d/settings"

// Another client takes the ConfigMap over after the controller has looked at
// it, and before its request arrives.
func TestAConfigMapThatIsTakenOverIsLeftAlone(t *testing.T) {
	for method, act := range map[string]func(w *world){
		http.MethodPatch:  func(w *world) { w.set("b", "size", "10") },
		http.MethodDelete: func(w *world) { w.unset("a") },
	} {
		t.Run(method, func(t *testing.T) {
			inWorld(t, func(w *world) {
				raced := false
				w.Tap.Before = wiretap.Once(method, output, func(*http.Request) *http.Response {
					raced = true
					w.tamper(func(c *corev1.ConfigMap) { c.Labels, c.Data = nil, map[string]string{"theirs": "x"} })
					return nil
				})
				w.start()
				w.set("a", "colour", "red")
				w.Expect(w.Writes()).To(Equal([]string{created, told("a")}))
				act(w)
				w.Pass(time.Hour)
				w.Expect(raced).To(BeTrue())
				w.Expect(w.configMap().Data).To(Equal(map[string]string{"theirs": "x"}))
			})
		})
	}
}

func TestTheMarkOfOthersIsNotOurs(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.User.CoreV1().ConfigMaps("d").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Name: "settings", Labels: map[string]string{"app.kubernetes.io/managed-by": "helm"},
			},
			Data: map[string]string{"theirs": "x"},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).To(Equal([]string{told("a")}))
		w.Expect(w.condition("a")).To(HavePrefix("False ConfigMapNotOurs"))
	})
}

// Any error, returned once for any request in the life of a Setting, only
// delays the result.
func TestWhatFailsIsTriedAgainSoon(t *testing.T) {
	failure := apierrors.NewInternalError(errors.New("try again"))
	for name, c := range map[string]struct {
		method, path string
		why          *apierrors.StatusError
	}{
		"a create": {http.MethodPost, collection, failure},
		"a create that came too early": {
			http.MethodPost, collection, apierrors.NewAlreadyExists(corev1.Resource("configmaps"), "settings"),
		},
		"a status":             {http.MethodPatch, inputs + "/a/status", failure},
		"a patch":              {http.MethodPatch, output, failure},
		"the list of Settings": {http.MethodGet, inputs, failure},
		"a delete":             {http.MethodDelete, output, failure},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				failed := false
				w.Tap.Before = wiretap.Once(c.method, c.path, func(r *http.Request) *http.Response {
					failed = true
					return wiretap.Refuse(r, c.why)
				})
				w.start()
				w.set("a", "colour", "red")
				w.Pass(10 * time.Second)
				w.Expect(w.Writes()).To(Equal([]string{created, told("a")}))
				w.Expect(w.condition("a")).To(Equal("True Published "))
				w.tamper(func(c *corev1.ConfigMap) { c.Data = nil })
				w.Pass(10 * time.Second)
				w.Expect(w.Writes()).To(Equal([]string{patched}))
				w.unset("a")
				w.Pass(10 * time.Second)
				w.Expect(w.Writes()).To(Equal([]string{deleted}))
				w.Expect(failed).To(BeTrue())
			})
		})
	}
}

// No write of the ConfigMap follows, whose event would lead to another look.
func TestAStatusThatFailsIsTriedAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Tap.Before = wiretap.Once(http.MethodPatch, inputs+"/b/status", func(r *http.Request) *http.Response {
			return wiretap.Refuse(r, apierrors.NewInternalError(errors.New("try again")))
		})
		w.start()
		w.set("a", "colour", "red")
		w.set("b", "colour", "blue")
		w.Pass(10 * time.Second)
		w.Expect(w.condition("b")).To(HavePrefix("False KeyTaken"))
	})
}

// The server still has a Setting that the cache has not, and no event tells
// that it is deleted, too.
func TestASettingThatOnlyTheServerHasDelaysTheDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Tap.Before = wiretap.Once(http.MethodGet, inputs, func(r *http.Request) *http.Response {
			return wiretap.Answer(r, http.StatusOK, []byte(`{"apiVersion":"config.homeostat.dev/v1alpha1","kind":"SettingList",`+
				`"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"namespace":"d","name":"b"}}]}`))
		})
		w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).To(HaveLen(2))
		w.unset("a")
		w.Expect(w.Writes()).To(BeEmpty())
		w.Pass(10 * time.Second)
		w.Expect(w.Writes()).To(Equal([]string{deleted}))
	})
}

// A namespace that is terminated takes the Settings along; the server refuses
// new objects in it.
func TestATerminatingNamespaceIsNoFailure(t *testing.T) {
	why := apierrors.NewForbidden(corev1.Resource("configmaps"), "settings", errors.New("it is terminated"))
	why.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	inWorld(t, func(w *world) {
		w.Tap.Before = func(r *http.Request) *http.Response {
			if r.Method == http.MethodPost && r.URL.Path == collection {
				return wiretap.Refuse(r, why)
			}
			return nil
		}
		run := w.Start(makeController)
		w.set("a", "colour", "red")
		w.Pass(time.Minute)
		w.Expect(run.Status(1).Keys).NotTo(ContainElement(HaveField("Failure", Not(BeEmpty()))))
	})
}

// A Setting that is deleted waits for its finalizer: it counts no more, and the
// last one takes the ConfigMap along.
func TestASettingThatIsBeingDeletedDoesNotCount(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.settings.Create(t.Context(), &api.Setting{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/wait"}},
			Spec:       api.SettingSpec{Key: "colour", Value: "red"},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.start()
		w.Expect(w.Writes()).To(Equal([]string{created, told("a")}))
		w.unset("a")
		w.Pass(time.Minute)
		w.Expect(w.Writes()).To(Equal([]string{deleted}))
	})
}

// A Setting is deleted before its status is written: that is no failure.
func TestASettingThatIsDeletedMeanwhileNeedsNoStatus(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Tap.Before = wiretap.Once(http.MethodPatch, inputs+"/a/status", func(*http.Request) *http.Response {
			w.unset("a")
			return nil
		})
		run := w.Start(makeController)
		w.set("b", "size", "10")
		w.set("a", "colour", "red")
		w.Pass(time.Minute)
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"size": "10"}))
		w.Expect(run.Status(1).Keys).NotTo(ContainElement(HaveField("Failure", Not(BeEmpty()))))
		w.Expect(run.QueueStats().Retried).To(BeZero())
	})
}

func TestWhatTheServerRefusesIsNotTriedAgain(t *testing.T) {
	for name, why := range map[string]*apierrors.StatusError{
		"invalid":   tooLong(),
		"too large": apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				tried := 0
				w.Tap.Before = func(r *http.Request) *http.Response {
					if r.Method != http.MethodPost || r.URL.Path != collection {
						return nil
					}
					tried++
					return wiretap.Refuse(r, why)
				}
				run := w.Start(makeController)
				w.set("a", "colour", "red")
				w.Pass(time.Hour)
				w.Expect(tried).To(BeNumerically("<=", 2), "once more for the status that says so")
				w.Expect(w.condition("a")).To(HavePrefix("False ConfigMapRefused"))
				w.Expect(run.Status(1).Keys).To(ContainElement(HaveField("Failure", Not(BeEmpty()))))
			})
		})
	}
}
