package reconcile_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/reconcile"
)

// asLastLeader creates what the replica that led before created last.
func (w *lateFixture) asLastLeader() {
	w.t.Helper()
	_, err := w.secrets.Create(w.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s-1"}}, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

func TestANewLeaderBeginsWhenItsCachesHaveSeenWhatTheLastOneWrote(t *testing.T) {
	inLateFixture(t, 5*time.Second, func(w *lateFixture) {
		leadership := terms{make(chan bool)}
		stop := w.start(reconcile.Options{Leader: leadership})
		pass(time.Hour)
		w.asLastLeader()
		leadership.change <- true
		pass(time.Minute)
		w.Expect(w.count()).To(Equal(1))
		w.Expect(w.reconciled()).NotTo(BeEmpty())
		w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("another replica"), "it took no longer than usual")
		w.Expect(stop()).To(Succeed())
	})
}

func TestANewLeaderWaitsNoLongerThanAMinute(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		leadership := terms{make(chan bool)}
		stop := w.start(reconcile.Options{Leader: leadership})
		pass(time.Minute)
		w.asLastLeader()
		leadership.change <- true
		pass(59 * time.Second)
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("last writes of another replica, waiting"))
		pass(2 * time.Second)
		w.Expect(w.reconciled()).NotTo(BeEmpty())
		w.Expect(strings.Join(w.logged(), "\n")).To(ContainSubstring("another replica, taking over"))
		w.Expect(stop()).To(Succeed())
	})
}

func TestALeadershipThatEndsMeanwhileEndsTheWait(t *testing.T) {
	inLateFixture(t, time.Hour, func(w *lateFixture) {
		leadership := terms{make(chan bool)}
		stop := w.start(reconcile.Options{Leader: leadership})
		pass(time.Minute)
		w.asLastLeader()
		leadership.change <- true
		leadership.change <- false
		pass(5 * time.Minute)
		w.Expect(w.reconciled()).To(BeEmpty())
		w.Expect(strings.Join(w.logged(), "\n")).NotTo(ContainSubstring("taking over"))
		w.Expect(stop()).To(Succeed())
	})
}
