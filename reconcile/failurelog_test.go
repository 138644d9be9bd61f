package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/reconcile"
)

// logLines returns the errors that have one of the texts.
func logLines(all []string, texts ...string) (found []string) {
	for _, line := range all {
		for _, text := range texts {
			if strings.Contains(line, `"error"=`) && strings.Contains(line, text) {
				found = append(found, line)
			}
		}
	}
	return found
}

func TestAKeyThatFailsIsLoggedThreeTimesAndThenAtEachDoubling(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		stop := w.start(&reconcile.Options{Backoff: queue.Backoff{Base: time.Second, Cap: time.Second}},
			func(context.Context, request) (reconcile.Result, error) {
				w.ran("a")
				return nothing, errors.New("boom")
			})
		pass(time.Hour)
		attempts := len(w.reconciled())
		lines := logLines(w.logged(), "reconcile failed, retrying")
		w.Expect(lines).To(HaveLen(bits.Len(uint(attempts))+1), "1, 2, 3, 4, 8 … of %d", attempts)
		w.Expect(lines[4]).To(ContainSubstring(`"attempt"=8`))
		w.Expect(stop()).To(Succeed())
	})
}

// A change of the object restarts the count of attempts. A field that changes
// each second must not lead to a log line each second.
func TestAKeyThatFailsAfterEachChangeOfItsObjectIsLoggedAtEachDoublingToo(t *testing.T) {
	for name, boom := range map[string]func(n int) error{
		"with one error":           func(int) error { return errors.New("boom") },
		"with two errors in turn":  func(n int) error { return errors.New([]string{"boom", "bang"}[n%2]) },
		"without further attempts": func(int) error { return reconcile.Terminal(errors.New("boom")) },
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				w.create("a")
				n := 0
				stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
					n++
					return nothing, boom(n)
				})
				for i := range 200 {
					pass(time.Second)
					w.update("a", func(m *configMap) { m.Data = map[string]string{"n": fmt.Sprint(i)} })
				}
				pass(time.Second)
				w.Expect(n).To(BeNumerically(">", 200))
				w.Expect(len(logLines(w.logged(), "reconcile failed"))).To(BeNumerically("<=", 3*bits.Len(uint(n))))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

func TestAnotherErrorOfAFailingKeyIsLogged(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a")
		n := 0
		stop := w.start(&reconcile.Options{Backoff: queue.Backoff{Base: time.Second, Cap: time.Second}},
			func(context.Context, request) (reconcile.Result, error) {
				if n++; n >= 100 {
					return nothing, errors.New("bang")
				}
				return nothing, errors.New("boom")
			})
		pass(time.Hour)
		w.Expect(logLines(w.logged(), "bang")[0]).To(ContainSubstring(`"attempt"=100`))
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheSameErrorOfManyKeysIsOneLineAMinute(t *testing.T) {
	for name, boom := range map[string]func(key reconcile.Key) error{
		"it does not name the key": func(reconcile.Key) error { return errors.New("no answer from 10.0.0.1") },
		"it names the key":         func(key reconcile.Key) error { return fmt.Errorf("writing %s: child %q", key, key.Name+"-tls") },
		"it is terminal":           func(reconcile.Key) error { return reconcile.Terminal(errors.New("no answer")) },
		"it has the identifier of a request": func(reconcile.Key) error {
			return fmt.Errorf("creating a bucket: AccessDenied, RequestID: %s, req-%s, trace %s",
				uuid.NewUUID(), uuid.NewUUID(), strings.ToUpper(strings.ReplaceAll(string(uuid.NewUUID()), "-", "")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				const many = 200
				for i := range many {
					w.create(fmt.Sprintf("k-%03d", i))
				}
				c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) { return nothing, boom(r.Key) })
				stop := w.startRun(c.Run)
				pass(59 * time.Second)
				w.Expect(logLines(w.logged(), "reconcile failed")).To(HaveLen(3))
				pass(2 * time.Second)
				lines := logLines(w.logged(), "many keys")
				w.Expect(lines).To(HaveLen(1))
				w.Expect(lines[0]).To(And(ContainSubstring(`"keys"=200`), ContainSubstring(`"examples"="d/k-`),
					ContainSubstring(boom(reconcile.Key{Namespace: "d", Name: "k-"}).Error()[:9])))
				w.Expect(c.Problems()).To(ConsistOf(HaveField("Reason", And(
					HavePrefix("200 of 200 keys fail with the same error, the first since 2000-01-01T"), ContainSubstring(", for example d/k-000: ")))))
				pass(10 * time.Minute)
				w.Expect(len(logLines(w.logged(), "reconcile failed", "many keys"))).To(BeNumerically("<=", 3+11))
				w.Expect(stop()).To(Succeed())
			})
		})
	}
}

// An example that changes from one reading to the next looks like a new fault.
func TestTheExampleOfASharedErrorIsTheKeyThatFailedFirst(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("z")
		c := w.made(nil, func(context.Context, request) (reconcile.Result, error) { return nothing, errors.New("boom") })
		stop := w.startRun(c.Run)
		pass(time.Minute)
		for i := range 30 {
			w.create(fmt.Sprintf("k-%02d", i))
		}
		for range 20 {
			pass(10 * time.Second)
			w.Expect(c.Problems()).To(ConsistOf(And(
				HaveField("Reason", MatchRegexp(`31 of 31 keys fail with the same error, the first since 2000-01-01T00:00:0\dZ, for example d/z: boom`)),
				HaveField("Since", BeTemporally("<", time.Now().Add(-time.Minute))))))
		}
		w.Expect(stop()).To(Succeed())
	})
}

func TestTheLastOnesOfManyAreLoggedBeforeTheControllerStops(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.create("a", "b", "c", "d", "e")
		stop := w.start(nil, func(context.Context, request) (reconcile.Result, error) {
			return nothing, reconcile.Terminal(errors.New("boom"))
		})
		pass(time.Second)
		w.Expect(logLines(w.logged(), "many keys")).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
		w.Expect(logLines(w.logged(), "many keys")).To(ConsistOf(ContainSubstring(`"keys"=5`)))
	})
}

func TestDifferentErrorsAreLoggedApart(t *testing.T) {
	inFixture(t, func(w *fixture) {
		for i := range 20 {
			w.create(fmt.Sprintf("k-%02d", i))
		}
		c := w.made(nil, func(_ context.Context, r request) (reconcile.Result, error) {
			return nothing, reconcile.Terminal(fmt.Errorf("no room in zone%s", strings.Repeat("x", int(r.Key.Name[3]-'0'))))
		})
		stop := w.startRun(c.Run)
		pass(2 * time.Minute)
		w.Expect(logLines(w.logged(), "reconcile failed")).To(HaveLen(20), "two keys of each")
		w.Expect(c.Problems()).To(BeEmpty())
		w.Expect(stop()).To(Succeed())
	})
}
