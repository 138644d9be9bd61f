package settings_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/configmap-from-crs/internal/settings"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestManyInputsMakeOneOutput(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).To(Equal([]string{created, told("a")}))
		w.set("b", "size", "10")
		w.Expect(w.Writes()).To(Equal([]string{patched, told("b")}))
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "red", "size": "10"}))
		w.Expect(w.condition("a")).To(Equal("True Published "))

		edited, err := w.settings.Get(t.Context(), "a", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		edited.Spec.Key, edited.Spec.Value = "color", "blue"
		_, err = w.settings.Update(t.Context(), edited, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.Writes()).To(Equal([]string{patched, told("a")}))
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"color": "blue", "size": "10"}))

		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty())
		stop()
	})
}

func TestOfSeveralSettingsWithOneKeyTheOldestCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.set("z", "colour", "red")
		w.set("a", "colour", "blue")
		synctest.Wait()
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "red"}))
		w.Expect(w.condition("z")).To(Equal("True Published "))
		w.Expect(w.condition("a")).To(Equal(`False KeyTaken key "colour" is taken by the older Setting "z"`))
		w.unset("z")
		synctest.Wait()
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "blue"}))
		w.Expect(w.condition("a")).To(Equal("True Published "))
		stop()
	})
}

// tampering is an edit of the output by another client, and the repair that
// must follow.
func tampering() map[string]struct {
	do     func(w *world)
	follow []string
} {
	return map[string]struct {
		do     func(w *world)
		follow []string
	}{
		"a value edited": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) { c.Data["colour"] = "blue" })
		}, []string{patched}},
		"a key added": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) { c.Data["other"] = "x" })
		}, []string{patched}},
		"a key removed": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) { c.Data = nil })
		}, []string{patched}},
		"binary data added": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"b": {1}} })
		}, []string{patched}},
		"edited and frozen": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) {
				frozen := true
				c.Data["colour"], c.Immutable = "blue", &frozen
			})
		}, []string{deleted, created}},
		"given bytes and frozen": {func(w *world) {
			w.tamper(func(c *corev1.ConfigMap) { c.BinaryData, c.Immutable = map[string][]byte{"x": {1}}, new(true) })
		}, []string{deleted, created}},
		"deleted": {func(w *world) {
			w.Expect(w.User.CoreV1().ConfigMaps("d").Delete(w.T.Context(), "settings", metav1.DeleteOptions{})).To(Succeed())
		}, []string{created}},
	}
}

func TestAFrozenOutputThatIsRightStays(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).NotTo(BeEmpty())
		w.tamper(func(c *corev1.ConfigMap) { c.Immutable = new(true) })
		w.Expect(w.Writes()).To(BeEmpty())
		stop()
	})
}

func TestATamperedOutputIsRestored(t *testing.T) {
	for name, c := range tampering() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				stop := w.start()
				w.set("a", "colour", "red")
				w.Expect(w.Writes()).NotTo(BeEmpty())
				c.do(w)
				w.Expect(w.Writes()).To(Equal(c.follow))
				w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "red"}))
				w.Expect(w.configMap().BinaryData).To(BeEmpty())
				stop()
			})
		})
	}
}

// The same with an output that is not watched: nothing is restored. So the test
// above can fail.
func TestWithoutTheOutputWatchNothingIsRestored(t *testing.T) {
	for name, c := range tampering() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.set("a", "colour", "red")
				w.start()()
				w.Expect(w.Writes()).To(Equal([]string{created, told("a")}))
				w.Tap.Before = wiretap.Mute("/api/v1/configmaps")
				stop := w.start()
				c.do(w)
				w.Pass(time.Minute)
				w.Expect(w.Writes()).To(BeEmpty())
				stop()
			})
		})
	}
}

func TestTheLastSettingTakesTheOutputWithIt(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.set("a", "colour", "red")
		w.set("b", "size", "10")
		w.Expect(w.Writes()).To(HaveLen(4))
		w.unset("a")
		w.Expect(w.Writes()).To(Equal([]string{patched}))
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"size": "10"}))
		w.unset("b")
		w.Expect(w.Writes()).To(Equal([]string{deleted}))
		stop()
	})
}

func TestADeletionOfTheLastSettingWhileDownIsNoticed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("a", "colour", "red")
		w.start()()
		w.Expect(w.Writes()).NotTo(BeEmpty())
		w.unset("a")
		stop := w.start()
		w.Expect(w.Writes()).To(Equal([]string{deleted}))
		stop()
	})
}

// The cache's first list of Settings is older than the Settings.
func TestAStaleListOfSettingsDeletesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("a", "colour", "red")
		w.start()()
		w.Expect(w.Writes()).NotTo(BeEmpty())
		silent := wiretap.Mute("/apis/config.homeostat.dev/v1alpha1/settings")
		w.Tap.Before = func(r *http.Request) *http.Response {
			if r.URL.Path == "/apis/config.homeostat.dev/v1alpha1/settings" && !wiretap.IsWatch(r) {
				return wiretap.Answer(r, http.StatusOK, []byte(`{"apiVersion":"config.homeostat.dev/v1alpha1",`+
					`"kind":"SettingList","metadata":{"resourceVersion":"1"},"items":[]}`))
			}
			return silent(r)
		}
		stop := w.start()
		w.Pass(time.Minute)
		w.Expect(w.Writes()).To(BeEmpty())
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "red"}))
		stop()
	})
}

func TestAForeignConfigMapIsNeverWrittenTo(t *testing.T) {
	inWorld(t, func(w *world) {
		_, err := w.User.CoreV1().ConfigMaps("d").Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"theirs": "x"},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		stop := w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).To(Equal([]string{told("a")}))
		w.Expect(w.condition("a")).To(HavePrefix("False ConfigMapNotOurs"))
		w.unset("a")
		w.Expect(w.Writes()).To(BeEmpty())

		w.set("b", "size", "10")
		w.Expect(w.Writes()).To(Equal([]string{told("b")}))
		w.Expect(w.User.CoreV1().ConfigMaps("d").Delete(t.Context(), "settings", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.Writes()).To(Equal([]string{created, told("b")}))
		w.Expect(w.condition("b")).To(Equal("True Published "))
		stop()
	})
}

// A ConfigMap comes between the look into the cache and the create.
func TestAForeignConfigMapThatExistsFirstIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		first := true
		w.Tap.Before = func(r *http.Request) *http.Response {
			if first && r.Method == http.MethodPost && r.URL.Path == collection {
				first = false
				_, err := w.User.CoreV1().ConfigMaps("d").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"theirs": "x"},
				}, metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
			}
			return nil
		}
		stop := w.start()
		w.set("a", "colour", "red")
		w.Expect(w.Writes()).To(Equal([]string{told("a")}))
		w.Expect(w.condition("a")).To(HavePrefix("False ConfigMapNotOurs"))
		stop()
	})
}

// After every single write the controller is killed; each next one goes on.
func TestACrashAfterEveryWriteLosesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.set("a", "colour", "red")
		w.set("b", "colour", "blue")
		w.set("c", "size", "10")
		total := 0
		for range 10 {
			w.Sim.Fence("controller")
			struck := false
			w.Tap.Committed = func(*http.Request) {
				if !struck {
					struck = true
					w.Sim.Fence("controller")
				}
			}
			stop := w.start()
			w.Pass(time.Second)
			total += len(w.Writes())
			stop()
			if !struck {
				break
			}
		}
		w.Expect(total).To(Equal(4), "one create, and one status for each Setting")
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"colour": "red", "size": "10"}))
		w.Expect(w.condition("b")).To(HavePrefix("False KeyTaken"))
	})
}

func TestWhatTheServerRefusesIsInTheStatusOfTheInputs(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Sim.Deny(func(c apisim.Call) error {
			if c.Resource.Resource == "configmaps" && c.Verb == "create" {
				return tooLong()
			}
			return nil
		})
		stop := w.start()
		w.set("a", "colour", strings.Repeat("x", 10))
		w.Expect(w.Writes()).To(Equal([]string{told("a")}))
		w.Expect(w.condition("a")).To(And(HavePrefix("False ConfigMapRefused"), ContainSubstring("Too long")))
		stop()
	})
}

func TestTheNameOfTheOutputIsChecked(t *testing.T) {
	g := NewWithT(t)
	_, err := settings.New(nil, nil, &settings.Options{ConfigMap: "Not A Name"})
	g.Expect(err).To(MatchError(ContainSubstring(`Options.ConfigMap is "Not A Name"`)))
}
