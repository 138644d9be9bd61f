package reconcile_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

// These tests were written from the documentation of informer.References and
// reconcile.References alone.

// failure returns the error of a key, or "" if the key does not fail.
func (w *referring) failure(name string) string {
	for _, k := range w.c.Status(100).Keys {
		if k.Key.Name == name {
			return k.Failure
		}
	}
	return ""
}

// refersTo runs a controller whose objects refer to what f says.
func (w *referring) refersTo(f func(*configMap) []reconcile.Key, more ...func(context.Context, request)) func() error {
	return w.run(&reconcile.Options{Triggers: []reconcile.Trigger{reconcile.References(w.secrets, f)}}, more...)
}

func (w *referring) deleteSecret(namespace, name string) {
	w.Expect(w.admin.CoreV1().Secrets(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})).To(Succeed())
}

// What a user writes into an object must be the error of this object alone.
func TestWhateverAnObjectNamesConcernsNoOther(t *testing.T) {
	for name, of := range map[string]reconcile.Key{
		"a path":                   {Namespace: "../..", Name: "x"},
		"a namespace of a path":    {Namespace: "a/b", Name: "x"},
		"a query":                  {Namespace: "a?watch=1", Name: "x"},
		"a blank namespace":        {Namespace: " ", Name: "x"},
		"a name of a path":         {Namespace: "d", Name: "../one"},
		"a selector":               {Namespace: "d", Name: "one,metadata.name!=two"},
		"an equation":              {Namespace: "d", Name: "a=b"},
		"a backslash":              {Namespace: "d", Name: `a\`},
		"two lines":                {Namespace: "d", Name: "one\ntwo"},
		"no UTF-8":                 {Namespace: "d", Name: "\xff"},
		"capitals":                 {Namespace: "d", Name: "ONE"},
		"a long name":              {Namespace: "d", Name: strings.Repeat("x", 10_000)},
		"a missing namespace":      {Namespace: "nowhere", Name: "x"},
		"an asterisk":              {Namespace: "*", Name: "*"},
		"what Windows calls a NUL": {Namespace: "d", Name: "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			inReferring(t, func(w *referring) {
				w.putSecret("d", "one", "1")
				w.putMap("bad", "")
				w.putMap("good", "one")
				w.refersTo(func(m *configMap) []reconcile.Key {
					if m.Name == "bad" {
						return []reconcile.Key{of}
					}
					return secretsOf(m)
				})
				pass(5 * time.Minute)
				runs := w.ran()
				w.Expect(runs).To(ContainElement("good one=1"))
				if w.failure("bad") == "" {
					w.Expect(runs).To(ContainElement("bad"), "it is known that there is none, or it fails")
				} else {
					w.Expect(w.failure("bad")).To(HavePrefix("reading what the object refers to: "))
				}
				_, ok := w.secrets.Get(of)
				w.Expect(ok).To(BeFalse())
				w.putSecret("d", "one", "2")
				w.Expect(w.ran()).To(ConsistOf("good one=2"))
				w.putMap("bad", "one")
				w.Expect(w.c.Stats().Failing).To(BeNumerically("<=", 1))
			})
		})
	}
}

func TestKeysWithoutANameAndDuplicatesAreIgnored(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.refersTo(func(m *configMap) []reconcile.Key {
			return append(append(secretsOf(m), reconcile.Key{Namespace: "d"}, reconcile.Key{}), secretsOf(m)...)
		})
		w.Expect(w.ran()).To(ConsistOf("a one=1"))
		w.Expect(w.secrets.Status().References).To(Equal(1))
		w.Expect(w.admin.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		pass(2 * time.Minute)
		w.Expect(w.secrets.Status().References).To(BeZero(), "nothing is counted twice")
	})
}

func TestAnObjectThatRefersToNothingIsReconciledAtOnce(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("d", true)
		w.putMap("a", "")
		w.putMap("b", "one")
		w.run(nil)
		w.Expect(w.ran()).To(ConsistOf("a"))
	})
}

func TestAMinuteAfterTheLastReferenceTheObjectIsForgotten(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.putMap("b", "one")
		var told []string
		w.secrets.Handle(func(e informer.Event[*corev1.Secret]) { told = append(told, e.Type.String()) })
		w.run(nil)
		w.Expect(w.ran()).To(HaveLen(2))
		w.putMap("a", "")
		pass(5 * time.Minute)
		w.Expect(w.secrets.Snapshot().Len()).To(Equal(1), "b refers to it")
		w.putMap("b", "")
		pass(50 * time.Second)
		w.Expect(w.secrets.Snapshot().Len()).To(Equal(1))
		pass(20 * time.Second)
		w.Expect(w.secrets.Snapshot().Len()).To(BeZero())
		w.Expect(told).To(Equal([]string{"added", "deleted"}), "though it exists")
		w.ran()
		w.putSecret("d", "one", "2")
		w.Expect(w.ran()).To(BeEmpty())
		w.putMap("a", "one")
		w.Expect(w.ran()).To(Equal([]string{"a one=2"}))
	})
}

func TestAReferenceThatComesBackWithinAMinuteIsKnown(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.run(nil)
		w.ran()
		w.putMap("a", "")
		pass(30 * time.Second)
		w.putSecret("d", "one", "2")
		w.ran()
		w.putMap("a", "one")
		w.rest()
		w.Expect(w.ran()).To(Equal([]string{"a one=2"}))
		pass(5 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(1))
	})
}

func TestAnObjectThatIsCreatedDeletedAndCreatedAgainReconcilesEachTime(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one")
		w.run(nil)
		w.Expect(w.ran()).To(Equal([]string{"a one=none"}))
		for n := range 3 {
			w.putSecret("d", "one", fmt.Sprint(n))
			w.Expect(w.ran()).To(Equal([]string{fmt.Sprintf("a one=%d", n)}))
			w.deleteSecret("d", "one")
			w.Expect(w.ran()).To(Equal([]string{"a one=none"}))
		}
	})
}

func TestTwoControllersShareTheirReferences(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putSecret("d", "two", "1")
		w.putMap("a", "one")
		w.putMap("b", "two")
		first := w.refersTo(func(m *configMap) []reconcile.Key {
			if m.Name == "a" {
				return secretsOf(m)
			}
			return nil
		})
		w.ran()
		w.Expect(w.secrets.Status().References).To(Equal(1))
		w.run(nil) // of all
		w.ran()
		w.Expect(w.secrets.Status().References).To(Equal(2))
		w.Expect(first()).To(Succeed())
		pass(2 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(2), "the other controller refers to them")
		w.putSecret("d", "one", "2")
		w.Expect(w.ran()).To(ConsistOf("a one=2"))
	})
}

func TestTwoFunctionsMayLeadToOneCache(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putSecret("d", "always", "1")
		w.putMap("a", "one")
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(w.secrets, secretsOf),
			reconcile.References(w.secrets, func(*configMap) []reconcile.Key { return []reconcile.Key{key("always")} }),
		}})
		w.Expect(w.ran()).To(Equal([]string{"a one=1"}))
		w.putMap("a", "always")
		w.Expect(w.ran()).To(Equal([]string{"a always=1"}))
		w.putMap("a", "")
		w.ran()
		pass(2 * time.Minute)
		w.Expect(w.secrets.Status().References).To(Equal(1), "the second function still leads there")
		w.putSecret("d", "always", "2")
		w.Expect(w.ran()).To(Equal([]string{"a"}))
	})
}

func TestAnObjectMayReferToItself(t *testing.T) {
	inReferring(t, func(w *referring) {
		self := informer.Referenced(w.cluster.Client().CoreV1().ConfigMaps, &informer.Options{Name: "selves"})
		w.putMap("a", "x")
		var seen atomic.Int64
		w.run(&reconcile.Options{Triggers: []reconcile.Trigger{
			reconcile.References(self, func(m *configMap) []reconcile.Key { return []reconcile.Key{key(m.Name)} }),
		}}, func(_ context.Context, r request) {
			if _, ok := self.Get(r.Key); ok {
				seen.Add(1)
			}
		})
		w.rest()
		w.Expect(seen.Load()).To(BeNumerically(">=", 1))
		w.Expect(w.admin.CoreV1().ConfigMaps("d").Delete(w.t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
		pass(2 * time.Minute)
		w.Expect(self.Status().References).To(BeZero())
	})
}

func TestAFunctionThatPanicsOnceIsCalledAgain(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		var panics atomic.Int64
		panics.Store(3)
		w.refersTo(func(m *configMap) []reconcile.Key {
			if panics.Add(-1) >= 0 {
				panic("not yet")
			}
			return secretsOf(m)
		})
		pass(time.Minute)
		w.Expect(w.ran()).To(ContainElement("a one=1"))
		w.Expect(w.c.Stats().Failing).To(BeZero())
	})
}

func TestAControllerStopsWhileItsKeysWaitOrFail(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("refused", true)
		w.putMap("a", "refused/x")
		w.putMap("b", "one")
		stop := w.run(nil)
		w.ran()
		w.server.DropWatches("operator", "secrets")
		began := time.Now()
		w.Expect(stop()).To(Succeed())
		w.Expect(time.Since(began)).To(BeNumerically("<", 30*time.Second))
		w.Expect(w.secrets.Status().Running).To(BeFalse())
		w.Expect(w.secrets.Status().References).To(BeZero())
	})
}

func TestIsDeletedSaysNothingAboutUnreferencedObjects(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one")
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("one"))).To(BeFalse(), "it does not run")
		w.run(nil)
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("one"))).To(BeTrue())
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("other"))).To(BeFalse())
		w.Expect(w.secrets.IsDeleted(w.t.Context(), reconcile.Key{})).To(BeFalse())
		ended, cancel := context.WithCancel(w.t.Context())
		cancel()
		w.Expect(w.secrets.IsDeleted(ended, key("one"))).To(BeFalse())
		w.putSecret("d", "one", "1")
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("one"))).To(BeFalse())
		w.rest()
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("one"))).To(BeFalse())
		w.deny("d", true)
		w.deleteSecret("d", "one")
		w.rest()
		w.Expect(w.secrets.IsDeleted(w.t.Context(), key("one"))).To(BeFalse(), "the list is forbidden")
	})
}

func TestHandlersHearOfEachChangeUntilTheyAreRemoved(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a", "one")
		var told []string
		remove := w.secrets.Handle(func(e informer.Event[*corev1.Secret]) { told = append(told, e.Type.String()) })
		w.run(nil)
		w.putSecret("d", "one", "1")
		w.putSecret("d", "foreign", "1")
		w.rest()
		w.putSecret("d", "one", "2")
		w.rest()
		w.deleteSecret("d", "one")
		w.rest()
		w.Expect(told).To(Equal([]string{"added", "updated", "deleted"}))
		remove()
		remove() // a second time does nothing
		w.putSecret("d", "one", "3")
		w.rest()
		w.Expect(told).To(HaveLen(3))
	})
}

func TestATransformAlsoAppliesToReferences(t *testing.T) {
	inReferring(t, func(w *referring) {
		slim := informer.Referenced(w.cluster.Client().CoreV1().Secrets, &informer.Options{
			Transform:         func(o informer.Object) { delete(o.(*corev1.Secret).Data, "v") },
			DropManagedFields: true,
		})
		w.secrets = slim
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.run(nil)
		w.Expect(w.ran()).To(Equal([]string{"a one="}))
		w.putSecret("d", "one", "2")
		w.Expect(w.ran()).To(Equal([]string{"a one="}), "each change has a new resourceVersion")
	})
}

func TestOptionsOfWholeKindsAreRefusedForReferences(t *testing.T) {
	inReferring(t, func(w *referring) {
		for field, o := range map[string]informer.Options{
			"Namespaces": {Namespaces: []string{"d"}}, "LabelSelector": {LabelSelector: "a=b"}, "Whole": {Whole: true},
			"FieldSelector": {FieldSelector: "metadata.name=x"}, "IndexLabels": {IndexLabels: []string{"a"}},
			"PageSize": {PageSize: 5}, "Independent": {Independent: true}, "WatchNamespaceAbove": {WatchNamespaceAbove: -1},
		} {
			_, err := reconcile.New("test", w.maps, reconcile.Func[*configMap](
				func(context.Context, request) (reconcile.Result, error) { return nothing, nil }),
				&reconcile.Options{Triggers: []reconcile.Trigger{
					reconcile.References(informer.Referenced(w.cluster.Client().CoreV1().Secrets, &o), secretsOf),
				}})
			w.Expect(err).To(MatchError(ContainSubstring("informer.Options."+field+" is")), field)
		}
	})
}

func TestManyReferencesOfOneObjectAreAllKnownBeforeItIsReconciled(t *testing.T) {
	inReferring(t, func(w *referring) {
		var names []string
		for n := range 150 { // more than one watch for each
			names = append(names, fmt.Sprint("s", n))
			if n%2 == 0 {
				w.putSecret("d", names[n], "1")
			}
		}
		w.putMap("a", strings.Join(names, " "))
		w.run(nil)
		pass(time.Minute)
		runs := w.ran()
		w.Expect(runs).To(HaveLen(1))
		w.Expect(strings.Count(runs[0], "=1")).To(Equal(75))
		w.Expect(strings.Count(runs[0], "=none")).To(Equal(75))
		w.Expect(w.secrets.Status().OpenWatches).To(BeNumerically("<=", 101))
		w.putSecret("d", "s149", "1")
		w.Expect(w.ran()).To(HaveLen(1))
		w.deleteSecret("d", "s0")
		w.Expect(w.ran()).To(HaveLen(1))
	})
}

func TestAKeyDoesNotSeeAnOlderStateAfterItsOwnDeletion(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		var times atomic.Int64
		w.run(nil, func(ctx context.Context, r request) {
			if times.Add(1) == 1 {
				w.Expect(w.cluster.Client().CoreV1().Secrets("d").Delete(ctx, "one", metav1.DeleteOptions{})).To(Succeed())
				w.c.Enqueue(r.Key)
			}
		})
		runs := w.ran()
		w.Expect(runs[0]).To(Equal("a one=1"))
		w.Expect(runs[1:]).To(HaveEach("a one=none"))
	})
}

func TestAKeyThatChangesItsReferenceInItsOwnReconcileSeesTheNewOne(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putSecret("d", "two", "2")
		w.putMap("a", "one")
		w.run(nil, func(ctx context.Context, r request) {
			m, ok := r.Object()
			if !ok || m.Data["secret"] == "two" {
				return
			}
			_, err := w.cluster.Client().CoreV1().ConfigMaps("d").Patch(ctx, "a", types.MergePatchType,
				[]byte(`{"data":{"secret":"two"}}`), metav1.PatchOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		})
		w.Expect(w.ran()).To(Equal([]string{"a one=none", "a two=2"}))
	})
}

func TestEnqueuedKeysWithoutAnObjectReferToNothing(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.run(nil)
		w.c.Enqueue(key("ghost"))
		w.Expect(w.ran()).To(Equal([]string{"ghost deleted"}))
		w.Expect(w.secrets.Status().References).To(BeZero())
	})
}

func TestTheStateOfEachReferenceIsShown(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("refused", true)
		w.putSecret("d", "one", "1")
		w.putMap("a", "one missing refused/x")
		w.run(nil)
		w.rest()
		w.Expect(w.c.References(key("a"))).To(ConsistOf(
			HaveField("Key.Name", "one"), HaveField("State", "does not exist"),
			HaveField("State", ContainSubstring("forbidden"))))
		w.Expect(w.c.References(key("nobody"))).To(BeEmpty())
		s := w.secrets.Status()
		w.Expect(s.References).To(Equal(3))
		w.Expect(s.Problems).To(ConsistOf(HaveField("Object", "refused/x")))
		w.Expect(s.Synced).To(BeTrue(), "no key waits for another's")
	})
}

func TestAGrantedPermissionReconcilesTheKeysWithoutAChange(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.deny("d", true)
		w.putSecret("d", "one", "1")
		w.putMap("a", "one")
		w.run(nil)
		pass(time.Hour)
		w.Expect(w.ran()).To(BeEmpty())
		w.deny("d", false)
		pass(time.Minute)
		w.Expect(w.ran()).To(Equal([]string{"a one=1"}), "it is tried again at least every 30 seconds")
	})
}

func TestAShardThatIsGainedAndLostReleasesItsReferencesOnce(t *testing.T) {
	inReferring(t, func(w *referring) {
		w.putMap("a1", "both")
		w.putMap("b1", "both")
		p := newParts()
		w.run(&reconcile.Options{Shards: p})
		p.take('a')
		p.take('b')
		w.Expect(w.ran()).To(ConsistOf("a1 both=none", "b1 both=none"))
		for range 3 {
			w.Expect(p.leave('a', errMoves)()).To(Succeed())
			pass(time.Second)
			p.take('a')
			pass(time.Second)
		}
		w.Expect(p.leave('a', errMoves)()).To(Succeed())
		pass(5 * time.Minute)
		w.ran()
		w.Expect(w.secrets.Status().References).To(Equal(1), "b1 refers to it")
		w.putSecret("d", "both", "1")
		w.Expect(w.ran()).To(Equal([]string{"b1 both=1"}))
		w.Expect(p.leave('b', errMoves)()).To(Succeed())
		pass(5 * time.Minute)
		w.Expect(w.secrets.Status().References).To(BeZero())
	})
}
