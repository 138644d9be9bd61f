package podruntime_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/examples/pod-runtime/internal/podruntime"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/test/wiretap"
)

func TestTheRunTimeOfAPodIsCountedOnceAndExactly(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.runs("a")
		w.Pass(2 * time.Second)
		w.Expect(w.Writes()).To(Equal([]string{created}))
		w.Pass(10 * time.Minute)
		w.Expect(w.Writes()).To(HaveLen(10), "one for each minute")
		w.Expect(w.configMap().Data[podruntime.TotalKey]).To(MatchRegexp("^10m[01]s$"))
		w.status("a", succeeded(time.Now()))
		w.passes(time.Hour)
		w.Expect(w.ledger().Total).To(Equal(int64(602)))
		w.goes("a")
		w.passes(time.Hour)
		w.Expect(w.ledger()).To(And(HaveField("Total", int64(602)), HaveField("Closed", int64(602)), HaveField("Pods", BeEmpty())))
		w.runs("a")
		w.passes(30 * time.Second)
		w.goes("a")
		w.passes(time.Hour)
		w.Expect(w.ledger()).To(And(HaveField("Total", BeNumerically("~", 632, 1)), HaveField("Estimated", 0)))
	})
}

func TestNothingIsWrittenWhereNothingRuns(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		_, err := w.User.CoreV1().Pods("d").Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pending"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty())
		w.runs("a")
		w.status("a", succeeded(time.Now()))
		w.Pass(time.Minute)
		w.Expect(w.Writes()).NotTo(BeEmpty())
		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty(), "what has ended does not grow")
	})
}

// A restart after every step of a life, and a crash after every write.
func TestARestartCountsNothingTwice(t *testing.T) {
	inWorld(t, func(w *world) {
		restart := func() {
			for range 5 {
				struck := false
				w.Tap.Committed = func(*http.Request) {
					if !struck {
						struck = true
						w.Sim.Fence("controller")
					}
				}
				stop := w.start()
				w.Pass(5 * time.Second)
				stop()
				if !struck {
					return
				}
			}
			t.Error("every start writes something")
		}
		w.runs("a")
		w.runs("b")
		restart()
		w.status("a", succeeded(time.Now().Add(3*time.Second)))
		restart()
		w.goes("a")
		restart()
		restart()
		l := w.ledger()
		w.Expect(l.Pods).To(HaveLen(1))
		w.Expect(l.Closed).To(BeNumerically("~", 8+5*4, 30))
		w.Expect(l.Estimated).To(BeZero())
		closed := l.Closed
		w.goes("b")
		restart()
		l = w.ledger()
		w.Expect(l.Closed).To(BeNumerically(">", closed))
		w.Expect(l.Closed).To(Equal(l.Total))
		total := l.Total
		for range 3 {
			restart()
			w.Expect(w.ledger().Total).To(Equal(total))
		}
	})
}

func TestWhatVanishesWhileItIsDownIsAnEstimate(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.runs("a")
		w.passes(10*time.Minute + 30*time.Second)
		stop()
		w.Pass(3 * time.Hour)
		w.goes("a")
		w.Pass(time.Hour)
		w.start()
		w.passes(time.Minute)
		w.Expect(w.ledger()).To(And(
			HaveField("Total", int64(600)), HaveField("Closed", int64(600)), // up to the last look
			HaveField("Estimated", 1), HaveField("Unseen", int64(4*3600+30)), HaveField("Pods", BeEmpty()),
		))
	})
}

func TestWhatRunsOnWhileItIsDownIsCounted(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.runs("a")
		w.passes(time.Minute)
		stop()
		w.Pass(3 * time.Hour)
		w.start()
		w.Expect(w.ledger()).To(And(HaveField("Total", int64(3*3600+60)), HaveField("Estimated", 0)))
	})
}

// The first list after a restart is older than a Pod's deletion, which is
// closed in the ledger.
func TestAStaleListReopensNoClosedPod(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.runs("a")
		before, err := w.User.CoreV1().RESTClient().Get().AbsPath("/api/v1/pods").DoRaw(t.Context())
		w.Expect(err).NotTo(HaveOccurred())
		w.passes(time.Minute)
		w.goes("a")
		w.passes(time.Minute)
		stop()
		total := w.ledger().Total
		mute, stale := wiretap.Mute("/api/v1/pods"), 0
		w.Tap.Before = func(r *http.Request) *http.Response {
			if r.URL.Path == "/api/v1/pods" && r.Method == http.MethodGet && !wiretap.IsWatch(r) {
				stale++
				return wiretap.Answer(r, http.StatusOK, before)
			}
			return mute(r)
		}
		w.start()
		w.Pass(time.Minute)
		w.Expect(stale).To(Equal(1))
		w.Expect(w.Writes()).To(BeEmpty())
		w.Expect(w.ledger().Total).To(Equal(total))
	})
}

func TestATamperedLedgerIsRestored(t *testing.T) {
	for name, tamper := range map[string]func(w *world){
		"deleted": func(w *world) {
			w.Expect(w.User.CoreV1().ConfigMaps("d").Delete(w.T.Context(), podruntime.Name, metav1.DeleteOptions{})).To(Succeed())
		},
		"emptied":    func(w *world) { w.edit(func(c *corev1.ConfigMap) { c.Data = nil }) },
		"unreadable": func(w *world) { w.edit(func(c *corev1.ConfigMap) { c.Data[podruntime.LedgerKey] = "{" }) },
		"binary data added": func(w *world) {
			w.edit(func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"b": {1}} })
		},
		"total edited": func(w *world) { w.edit(func(c *corev1.ConfigMap) { c.Data[podruntime.TotalKey] = "9h" }) },
		"numbers edited": func(w *world) {
			w.edit(func(c *corev1.ConfigMap) {
				c.Data[podruntime.LedgerKey] = strings.Replace(c.Data[podruntime.LedgerKey], `"closedSeconds":0`, `"closedSeconds":9`, 1)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.start()
				w.runs("a")
				for _, age := range []time.Duration{10 * time.Second, 80 * time.Second} { // before its first patch, and later
					w.passes(age)
					data := w.configMap().Data
					tamper(w)
					w.Pass(2 * time.Second)
					w.Expect(w.Writes()).To(HaveLen(1))
					w.Expect(w.configMap().Data).To(Equal(data))
					w.Expect(w.configMap().BinaryData).To(BeEmpty())
				}
			})
		})
	}
}

func (w *world) edit(edit func(*corev1.ConfigMap)) {
	w.T.Helper()
	object := w.configMap()
	edit(object)
	_, err := w.User.CoreV1().ConfigMaps("d").Update(w.T.Context(), object, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// The namespace is alive, whatever something between the controller and the
// server answers.
func TestAPageKeepsTheLedger(t *testing.T) {
	pages := absenttest.Pages(corev1.Resource("configmaps"), podruntime.Name)
	pages = append(pages, absenttest.Pages(corev1.Resource("namespaces"), "d")...)
	for _, page := range append(pages, absenttest.Conflicts()...) {
		t.Run(page.Name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var between atomic.Bool // the server and the program
				w.Tap.Before = func(r *http.Request) *http.Response {
					if between.Load() && r.Method == http.MethodPost && r.URL.Path == collection {
						return page.Response(r)
					}
					return nil
				}
				run := w.Start(maker(period))
				w.runs("a")
				w.passes(5 * time.Minute)
				between.Store(true)
				w.Expect(w.User.CoreV1().ConfigMaps("d").Delete(t.Context(), podruntime.Name, metav1.DeleteOptions{})).To(Succeed())
				w.Pass(3 * time.Minute)
				w.Expect(run.Status(1).Keys[0].Failure).To(ContainSubstring("creating ConfigMap"))
				between.Store(false)
				w.passes(10 * time.Minute)
				w.Expect(w.ledger()).To(And(HaveField("Total", BeNumerically(">=", 1020)), HaveField("Estimated", 0)))
			})
		})
	}
}

// Another replica has led meanwhile: this one continues from that replica's
// ledger, and not from its own memory.
func TestALedgerThatIsFurtherThanItsMemoryCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.runs("a")
		w.passes(90 * time.Second)
		w.edit(func(c *corev1.ConfigMap) {
			text := regexp.MustCompile(`"write":\d+`).ReplaceAllString(c.Data[podruntime.LedgerKey], `"write":1000`)
			c.Data[podruntime.LedgerKey] = strings.Replace(text, `"closedSeconds":0`, `"closedSeconds":9`, 1)
		})
		w.passes(2 * time.Minute)
		w.Expect(w.ledger()).To(And(HaveField("Closed", int64(9)), HaveField("Write", BeNumerically(">", 1000))))
	})
}

func TestAnUnreadableLedgerIsNotOverwritten(t *testing.T) {
	inWorld(t, func(w *world) {
		stop := w.start()
		w.runs("a")
		w.passes(time.Minute)
		stop()
		w.edit(func(c *corev1.ConfigMap) { c.Data[podruntime.LedgerKey] = "{" })
		run := w.Start(maker(period))
		w.Pass(time.Hour)
		w.Expect(w.Writes()).To(BeEmpty())
		w.Expect(run.Status(1).Keys[0].Failure).To(ContainSubstring("restore it, or delete it to begin at zero"))
	})
}

func TestAForeignConfigMapIsLeftAlone(t *testing.T) {
	for name, labels := range map[string]map[string]string{
		"without a mark":          nil,
		"with the mark of others": {"app.kubernetes.io/managed-by": "helm"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				_, err := w.User.CoreV1().ConfigMaps("d").Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Name: podruntime.Name, Labels: labels},
					Data:       map[string]string{podruntime.LedgerKey: `{"totalSeconds":7}`},
				}, metav1.CreateOptions{})
				w.Expect(err).NotTo(HaveOccurred())
				totals := w.collect()
				w.runs("a")
				w.Pass(time.Hour)
				w.Expect(w.Writes()).To(BeEmpty())
				w.Expect(w.Events.Events).To(Receive(ContainSubstring("NameTaken")))
				w.Expect(testutil.CollectAndCount(totals)).To(BeZero(), "it is no ledger")
			})
		})
	}
}

// Another client takes the ConfigMap over after the controller has looked at
// it, and before its patch arrives.
func TestALedgerThatIsTakenOverIsNotWrittenTo(t *testing.T) {
	inWorld(t, func(w *world) {
		raced := false
		w.Tap.Before = wiretap.Once(http.MethodPatch, output, func(*http.Request) *http.Response {
			raced = true
			w.edit(func(c *corev1.ConfigMap) { c.Labels, c.Data = nil, map[string]string{"theirs": "x"} })
			return nil
		})
		w.start()
		w.runs("a")
		w.Pass(time.Hour)
		w.Expect(raced).To(BeTrue())
		w.Expect(w.Writes()).To(Equal([]string{created}))
		w.Expect(w.configMap().Data).To(Equal(map[string]string{"theirs": "x"}))
	})
}

// internalError is a failure of the server that passes.
func internalError() *apierrors.StatusError {
	return apierrors.NewInternalError(errors.New("try again"))
}

func TestWhatFailsIsTriedAgainSoon(t *testing.T) {
	exists := apierrors.NewAlreadyExists(corev1.Resource("configmaps"), podruntime.Name)
	for name, c := range map[string]struct {
		method, path string
		why          *apierrors.StatusError
	}{
		"a list of Pods":               {http.MethodGet, "/api/v1/namespaces/d/pods", internalError()},
		"a create":                     {http.MethodPost, collection, internalError()},
		"a create that came too early": {http.MethodPost, collection, exists},
		"a patch":                      {http.MethodPatch, output, internalError()},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				failed := false
				w.Tap.Before = wiretap.Once(c.method, c.path, func(r *http.Request) *http.Response {
					failed = true
					return wiretap.Refuse(r, c.why)
				})
				w.start()
				w.runs("a")
				w.Pass(period + 10*time.Second)
				w.Expect(failed).To(BeTrue())
				w.Expect(w.Writes()).To(Equal([]string{created, patched}))
			})
		})
	}
}

// A ledger is deleted with its namespace: a recreated namespace starts at zero.
func TestALedgerIsDeletedWithItsNamespace(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("configmaps"), podruntime.Name, errors.New("it is terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, why := range map[string]*apierrors.StatusError{
		"that is deleted":     terminating,
		"that does not exist": apierrors.NewNotFound(corev1.Resource("namespaces"), "d"),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				var deleted atomic.Bool
				refuse := wiretap.Once(http.MethodPost, collection, func(r *http.Request) *http.Response {
					return wiretap.Refuse(r, why)
				})
				w.Tap.Before = func(r *http.Request) *http.Response {
					if !deleted.Load() {
						return nil
					}
					return refuse(r)
				}
				run := w.Start(maker(period))
				w.runs("a")
				w.passes(90 * time.Second)
				w.goes("a")
				w.passes(time.Minute)
				w.Expect(w.ledger().Closed).To(BeNumerically(">", 60))
				deleted.Store(true)
				w.Expect(w.User.CoreV1().ConfigMaps("d").Delete(t.Context(), podruntime.Name, metav1.DeleteOptions{})).To(Succeed())
				w.Pass(time.Hour)
				w.Expect(w.Writes()).To(BeEmpty())
				w.Expect(run.Status(1).Keys).NotTo(ContainElement(HaveField("Failure", Not(BeEmpty()))))
				w.runs("b")
				w.passes(10 * time.Second)
				w.Expect(w.ledger().Closed).To(BeZero())
			})
		})
	}
}

func TestTheMetricIsWhatIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		totals := w.collect()
		w.runs("a")
		w.passes(5*time.Minute + 30*time.Second)
		w.Expect(testutil.CollectAndCompare(totals, strings.NewReader(`
			# HELP pod_runtime_seconds_total How long all Pods of a namespace together have run.
			# TYPE pod_runtime_seconds_total counter
			pod_runtime_seconds_total{namespace="d"} 300
		`), "pod_runtime_seconds_total")).To(Succeed())
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, _, err := podruntime.New(nil, &podruntime.Options{Period: time.Millisecond})
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("Options.Period (--period) is 1ms: must be at least a second")))
	_, _, err = podruntime.New(fake.NewClientset(), &podruntime.Options{Period: time.Second})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}
