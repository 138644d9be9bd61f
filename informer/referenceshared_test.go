package informer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
)

// untilEachWatchEnded is longer than a watch lasts.
const untilEachWatchEnded = 11 * time.Minute

// newSharing returns a world in which more than four references share a watch.
func newSharing(t *testing.T, names ...string) *referenceWorld {
	w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 4})
	for _, name := range names {
		w.create(name, "1")
	}
	w.create("foreign", "1")
	w.hold(names...)
	lapse(untilEachWatchEnded)
	// The shared watch neither ends during the test nor has it just begun: how
	// long it lasts is up to chance.
	for since := time.Duration(0); since < 2*time.Minute || since > 4*time.Minute; {
		lapse(time.Minute)
		since = time.Since(w.secrets.Status().WatchSince)
	}
	return w
}

func (w *referenceWorld) values(names ...string) (all string) {
	for _, name := range names {
		all += w.value(name)
	}
	return all
}

func (w *referenceWorld) release(names ...string) {
	for _, name := range names {
		w.secrets.Parts().Release(secretKey(name))
	}
}

func (w *referenceWorld) openWatches() int { return w.secrets.Status().OpenWatches }

// byNameAndNot divides calls into calls with a name and calls without one.
func byNameAndNot(calls []string) (named, unnamed []string) {
	for _, call := range calls {
		if strings.Contains(call, "metadata.name") {
			named = append(named, call)
		} else {
			unnamed = append(unnamed, strings.TrimSpace(call))
		}
	}
	return named, unnamed
}

func TestManyReferencesOfANamespaceShareOneWatchThatKeepsOnlyThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharing(t, "a", "b", "c", "d", "e")
		w.Expect(w.openWatches()).To(Equal(1))
		_, unnamed := byNameAndNot(w.called())
		w.Expect(unnamed[:2]).To(Equal([]string{"list default", "watch default"}))
		w.hold("late")
		named, unnamed := byNameAndNot(w.called())
		w.Expect(named).To(Equal([]string{"list default metadata.name=late"}))
		w.Expect(unnamed).To(BeEmpty())

		heard := len(w.told.heard())
		w.update("a", "2")
		w.update("foreign", "2")
		w.delete("b")
		w.create("late", "3")
		w.create("stranger", "3")
		synctest.Wait()
		w.Expect(w.values("a", "b", "c", "late", "foreign", "stranger")).To(Equal("213"))
		w.Expect(w.told.heard()[heard:]).To(Equal([]string{"updated a", "deleted b", "added late"}))
		w.Expect(w.secrets.Snapshot().Len()).To(Equal(5))
		w.Expect(w.secrets.IsDeleted(t.Context(), secretKey("b"))).To(BeTrue())
		w.Expect(w.secrets.IsDeleted(t.Context(), secretKey("a"))).To(BeFalse())
		w.called()

		lapse(10 * untilEachWatchEnded)
		named, unnamed = byNameAndNot(w.called())
		w.Expect(named).To(BeEmpty(), "it is resumed")
		w.Expect(unnamed).To(HaveEach("watch default"))
		w.Expect(w.secrets.Status().References).To(Equal(6))
	})
}

func TestReferencesGoBackToTheirNamesWhenTheyBecomeFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharing(t, "a", "b", "c", "d", "e")
		w.release("c", "d")
		lapse(untilEachWatchEnded)
		w.Expect(w.openWatches()).To(Equal(1), "three of at most four: it stays as it is")
		w.release("e")
		lapse(90 * time.Second) // e is forgotten, and two are left
		w.Expect(w.openWatches()).To(Equal(1), "they may become more again")
		w.called()
		lapse(40 * time.Second)
		named, _ := byNameAndNot(w.called())
		w.Expect(named).To(ConsistOf("watch default metadata.name=a", "watch default metadata.name=b"), "resumed")
		heard := len(w.told.heard())
		w.update("a", "2")
		w.delete("b")
		synctest.Wait()
		w.Expect(w.values("a", "b")).To(Equal("2"))
		w.Expect(w.told.heard()[heard:]).To(ConsistOf("updated a", "deleted b"))
		w.hold("c", "d")
		lapse(untilEachWatchEnded)
		w.Expect(w.openWatches()).To(Equal(4), "four are not above four")
	})
}

func TestANamespaceThatMustNotBeWatchedIsWatchedByNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 2})
		names := []string{"a", "b", "c", "d"}
		for _, name := range names {
			w.create(name, "1")
		}
		w.allowNames("default", true)
		w.hold(names...)
		w.Expect(w.values(names...)).To(Equal("1111"))
		w.Expect(w.openWatches()).To(Equal(4))
		w.Expect(w.secrets.Status().Problems).To(BeEmpty(), "a Role for names is enough")
		w.Expect(w.secrets.Status().LastError).To(BeEmpty())
		w.called()
		lapse(time.Hour)
		_, unnamed := byNameAndNot(w.called())
		w.Expect(len(unnamed)).To(BeNumerically("<=", 6), "it asks again each ten minutes")
		w.update("a", "2")
		synctest.Wait()
		w.Expect(w.value("a")).To(Equal("2"))

		w.allowNames("default", false)
		lapse(2 * untilEachWatchEnded)
		w.Expect(w.openWatches()).To(Equal(1))
		w.update("b", "2")
		w.allowNames("default", true)
		lapse(2 * untilEachWatchEnded)
		w.Expect(w.openWatches()).To(Equal(4), "the permission was taken away")
		w.update("c", "2")
		w.delete("d")
		synctest.Wait()
		w.Expect(w.values(names...)).To(Equal("222"))
	})
}

func TestWhatHappensWhileASharedWatchIsCutIsDelivered(t *testing.T) {
	for _, forbidden := range []bool{false, true} {
		t.Run(fmt.Sprintf("forbidden=%v", forbidden), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSharing(t, "a", "b", "c", "d", "same")
				heard := len(w.told.heard())
				w.allowNames("default", forbidden)
				w.server.DropWatches("operator", "secrets")
				w.update("a", "2")
				w.delete("b")
				w.delete("c")
				w.create("c", "2")
				w.server.Compact("secrets")
				w.settle()
				w.Expect(w.told.heard()[heard:]).To(ConsistOf("updated a", "deleted b", "deleted c", "added c"))
				w.Expect(w.values("a", "b", "c", "d", "same")).To(Equal("2211"))
				w.Expect(w.openWatches()).To(Equal(map[bool]int{false: 1, true: 5}[forbidden]))
			})
		})
	}
}

// A bookmark of the shared watch proves nothing about an object whose reference
// has joined the watch and has not been listed since.
func TestOwnWritesAreSeenWhileAReferenceJoinsASharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 2})
		w.create("a", "1")
		w.hold("a")
		for _, name := range []string{"b", "c"} {
			w.create(name, "1")
		}
		w.hold("b", "c")
		w.Expect(w.openWatches()).To(BeNumerically(">", 1), "a has a watch of its own")
		lapse(4 * time.Minute) // so that the shared watch is opened again at once
		w.delayLists("metadata.name=a", time.Minute)
		w.server.DropWatches("operator", "secrets")
		w.update("a", "2")
		written, err := w.admin.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		seen := ""
		w.secrets.Parts().OnSeen(secretKey("a"), written.ResourceVersion, func() { seen = w.value("a") })
		lapse(20 * time.Second)
		_, err = w.admin.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.server.Bookmark()
		synctest.Wait()
		w.Expect(seen).To(BeEmpty())
		w.Expect(w.value("a")).To(Equal("1"))
		w.delayLists("", 0)
		lapse(2 * time.Minute)
		w.Expect(seen).To(Equal("2"))
	})
}

func TestARestoredServerIsNoticedByASharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharing(t, "a", "b", "c", "d", "e")
		backup := w.server.Version()
		w.update("a", "lost")
		w.hold("f")
		w.create("f", "lost")
		synctest.Wait()
		w.Expect(w.values("a", "f")).To(Equal("lostlost"))
		w.Expect(w.server.Restore(backup)).To(Succeed())
		w.settle()
		w.Expect(w.values("a", "f")).To(Equal("1"))
		w.update("a", "2")
		w.update("e", "3")
		synctest.Wait()
		w.Expect(w.values("a", "e")).To(Equal("23"))
		w.Expect(w.openWatches()).To(Equal(1))
	})
}

// An event that the shared watch delivers while the first list after a restore
// is under way has a lower resourceVersion than what was received before.
func TestNothingIsLostWhileAReferenceOfARestoredServerJoinsASharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSharing(t, "a", "b", "c", "d", "e")
		backup := w.server.Version()
		for range 20 {
			w.update("b", "lost")
		}
		w.hold("f")
		w.mu.Lock()
		w.answered = func(selector string) {
			w.mu.Lock()
			is := selector == "metadata.name=f" && w.answered != nil
			if is {
				w.answered = nil
			}
			w.mu.Unlock()
			if is {
				w.create("f", "1")
				<-time.After(time.Second) // the watch delivers it
			}
		}
		w.mu.Unlock()
		w.Expect(w.server.Restore(backup)).To(Succeed())
		w.settle()
		lapse(time.Minute)
		w.Expect(w.answered).To(BeNil())
		w.Expect(w.value("f")).To(Equal("1"))
		w.Expect(w.openWatches()).To(Equal(1))
	})
}

func TestASharedWatchRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e"}
		w := newSharing(t, names...)
		w.Expect(w.stop()).To(Succeed())
		w.update("a", "2")
		w.run()
		w.settle()
		for _, name := range names {
			w.Expect(w.state(name)).To(Equal("known"))
		}
		w.Expect(w.values(names...)).To(Equal("21111"))
		w.Expect(w.openWatches()).To(Equal(1))
		w.release(names...)
		lapse(5 * time.Minute)
		w.Expect(w.openWatches()).To(BeZero())
		w.Expect(slices.Contains(w.told.heard(), "deleted e")).To(BeTrue())
	})
}

// Watches of a fake begin where they are opened, so a list that fails after
// that is repeated.
func TestAReferenceOfAFakeIsListedAfterItsWatchWasOpenedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(secret("a", "1"))
		first := watch.NewFake()
		watches, lists := 0, 0
		client.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
			watches++
			return watches == 1, first, nil
		})
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			return lists == 2, nil, apierrors.NewInternalError(errors.New("for once"))
		})
		secrets := informer.Referenced(client.CoreV1().Secrets, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- secrets.Parts().Run(ctx, func() {}) }()
		secrets.Parts().Hold(secretKey("a"))
		lapse(time.Second)
		first.Stop()
		_, err := client.CoreV1().Secrets("default").Update(ctx, secret("a", "2"), metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		lapse(time.Minute)
		a, _ := secrets.Get(secretKey("a"))
		g.Expect(string(a.Data["v"])).To(Equal("2"))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

// A namespace may be forbidden and allowed again while its watch is open.
func TestASharedWatchSurvivesARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "e"}
		w := newSharing(t, names...)
		w.Expect(w.openWatches()).To(Equal(1))
		w.forbid("default", true)
		w.hold("f") // joins, and may not be listed
		w.Expect(w.state("f")).To(ContainSubstring("no Role allows it"))
		w.Expect(w.state("a")).To(Equal("known"), "its watch goes on")
		w.update("a", "2")
		synctest.Wait()
		w.Expect(w.value("a")).To(Equal("2"))
		w.create("f", "1")
		w.forbid("default", false)
		lapse(time.Minute)
		w.Expect(w.state("f") + w.value("f")).To(Equal("known1"))
		w.forbid("default", true)
		w.server.DropWatches("operator", "secrets")
		lapse(time.Minute)
		w.delete("b")
		for _, name := range append(names, "f") {
			w.Expect(w.state(name)).To(ContainSubstring("no Role allows it"), name)
		}
		w.Expect(w.value("b")).To(Equal("1"), "unknown is not deleted")
		w.forbid("default", false)
		lapse(time.Minute)
		w.Expect(w.values(append(names, "f")...)).To(Equal("21111"))
		w.Expect(w.state("b")).To(Equal("known"))
		lapse(3 * untilEachWatchEnded) // the namespace is tried again, and then the watches by name end
		w.Expect(w.openWatches()).To(Equal(1))
	})
}

// A new leader renews all references. Until each of them has been listed after
// that, its state is not known, also if the watch of the namespace begins only
// now.
func TestReferencesThatAreRenewedWhileASharedWatchBeginsAreListedAfterThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 1})
		w.create("a", "1")
		w.delayLists("metadata.name=a", 5*time.Second)
		w.secrets.Parts().Hold(secretKey("a"))
		w.secrets.Parts().Hold(secretKey("b"))
		lapse(4 * time.Second) // the list of a is under way
		w.secrets.Parts().Renew()
		w.Expect(w.state("a") + " " + w.state("b")).To(Equal("unknown unknown"))
		lapse(2 * time.Second)
		w.Expect(w.state("a")).To(Equal("unknown"), "this list was asked for before")
		lapse(time.Minute)
		w.Expect(w.state("a") + " " + w.state("b")).To(Equal("known known"))
		w.Expect(w.value("a")).To(Equal("1"))
	})
}
