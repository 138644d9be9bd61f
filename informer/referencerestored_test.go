package informer_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

func TestARestoredServerIsNoticedByItsReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		backup := w.server.Version()
		w.update("a", "lost")
		w.create("b", "lost")
		w.hold("b")
		w.Expect(w.value("a") + w.value("b")).To(Equal("lostlost"))
		w.Expect(w.server.Restore(backup)).To(Succeed())
		w.server.DropWatches("operator", "secrets")
		w.settle()
		w.Expect(w.value("a") + w.value("b")).To(Equal("1"))
		w.update("a", "2")
		synctest.Wait()
		w.Expect(w.value("a")).To(Equal("2"))
	})
}

// The restored server has reached the resourceVersion of the cache.
func TestAReferenceOfTheSameResourceVersionMayHaveAnotherValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		backup := w.server.Version()
		w.update("a", "lost")
		w.settle()
		w.setDown(true)
		w.Expect(w.server.Restore(backup)).To(Succeed())
		w.update("a", "2")
		w.setDown(false)
		w.server.DropWatches("operator", "secrets")
		w.settle()
		w.Expect(w.value("a")).To(Equal("2"))
	})
}

// A watch that the server ends at its timeout is resumed, unless that fails for
// a while, because the server may be restored in the meantime.
func TestAWatchThatCannotBeResumedAtOnceBeginsWithAList(t *testing.T) {
	for name, above := range map[string]int{"by name": 100, "shared": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: above})
				for _, secret := range []string{"a", "b", "c"} {
					w.create(secret, "1")
					w.hold(secret)
				}
				backup := w.server.Version()
				w.update("a", "lost")
				w.settle()
				w.setDown(true)
				lapse(time.Hour) // all watches end in time
				w.Expect(w.server.Restore(backup)).To(Succeed())
				for n := range 10 {
					w.update("b", fmt.Sprint(n))
				}
				w.setDown(false)
				lapse(time.Hour)
				w.settle()
				w.Expect(w.value("a")).To(Equal("1"))
				w.Expect(w.value("b")).To(Equal("9"))
			})
		})
	}
}

func TestAWriteToARestoredServerIsSeenWhenItIsCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.create("a", "1")
		w.hold("a")
		backup := w.server.Version()
		for n := range 10 {
			w.update("a", fmt.Sprint("lost ", n))
		}
		w.settle()
		w.Expect(w.server.Restore(backup)).To(Succeed())
		synctest.Wait()
		w.update("a", "2")
		written, err := w.admin.CoreV1().Secrets("default").Get(t.Context(), "a", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		seen := make(chan string, 1)
		w.secrets.Parts().OnSeen(secretKey("a"), written.ResourceVersion, func() { seen <- w.value("a") })
		select {
		case value := <-seen: // it may be listed already
			w.Expect(value).To(Equal("2"))
		default:
			w.settle()
			w.Expect(seen).To(Receive(Equal("2")))
		}
	})
}

// A watch that the server ends at its timeout is resumed where it has ended. If
// a watch ends just when the server is stopped to be restored, it cannot be
// resumed, because the server does not answer then.
func TestNoWatchIsResumedAtAStateThatARestoreHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const references = 300
		w := newReferenceWorld(t, &informer.Options{WatchNamespaceAbove: 1000})
		var names []string
		for n := range references {
			names = append(names, fmt.Sprint("s", n))
			w.create(names[n], "1")
		}
		w.hold(names...)
		lapse(7 * time.Minute) // watches last from 5 to 10 minutes
		backup := w.server.Version()
		for _, name := range names {
			w.update(name, "lost")
		}
		lapse(time.Second)
		w.setDown(true)
		w.Expect(w.server.Restore(backup)).To(Succeed())
		lapse(3 * time.Second)
		w.setDown(false)
		lapse(time.Minute)
		for _, name := range names {
			w.update(name, "2")
		}
		lapse(time.Minute)
		var stale []string
		for _, name := range names {
			if value := w.value(name); value != "2" {
				stale = append(stale, name+"="+value)
			}
		}
		w.Expect(stale).To(BeEmpty())
	})
}
