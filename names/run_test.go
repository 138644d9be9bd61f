package names_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/names"
)

// times runs a sweep for a while and returns when the lister was called.
func times(t *testing.T, d time.Duration, o *names.Options, l names.Func) []time.Duration {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var calls []time.Duration
	start := time.Now()
	s, err := names.NewSweep(names.Func(func(ctx context.Context) ([]names.Name, error) {
		calls = append(calls, time.Since(start))
		return l(ctx)
	}), newFixture(), o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Run(ctx)).To(Succeed())
	return calls
}

func nothing(context.Context) ([]names.Name, error) { return nil, nil }

func TestRunSweepsAtStartAndPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		calls := times(t, time.Hour, nil, nothing)
		g.Expect(len(calls)).To(BeNumerically("~", 6, 1))
		g.Expect(calls[0]).To(BeZero())
		for i := 1; i < len(calls); i++ {
			g.Expect(calls[i] - calls[i-1]).To(BeNumerically(">=", 10*time.Minute))
			g.Expect(calls[i] - calls[i-1]).To(BeNumerically("<=", 11*time.Minute))
		}
	})
}

func TestRunRetriesWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		calls := times(t, 20*time.Minute, nil, func(context.Context) ([]names.Name, error) {
			return nil, errors.New("away")
		})
		for i, pause := 1, time.Second; i < len(calls); i, pause = i+1, min(2*pause, 5*time.Minute) {
			g.Expect(calls[i] - calls[i-1]).To(BeNumerically(">=", pause))
			g.Expect(calls[i] - calls[i-1]).To(BeNumerically("<=", pause*11/10))
		}
		g.Expect(len(calls)).To(BeNumerically("~", 12, 1))
	})
}

func TestTheShortestPausesAreAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := times(t, time.Millisecond, &names.Options{Period: 1, BackoffBase: 1}, func(context.Context) ([]names.Name, error) {
			<-time.After(300 * time.Microsecond)
			return nil, nil
		})
		NewWithT(t).Expect(calls).To(HaveLen(4))
	})
}

func TestASweepThatSucceedsIsNotInTheLogByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		for verbosity, want := range []int{0, 1} {
			lines := 0
			ctx, cancel := context.WithTimeout(logr.NewContext(t.Context(), funcr.New(func(string, string) { lines++ },
				funcr.Options{Verbosity: verbosity})), time.Minute)
			g.Expect(newFixture().sweep(t, nil, nil).Run(ctx)).To(Succeed())
			g.Expect(lines).To(Equal(want))
			cancel()
		}
	})
}

func TestRunForgetsTheBackOffAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		n := 0
		calls := times(t, 3*time.Minute, &names.Options{Period: time.Minute},
			func(context.Context) ([]names.Name, error) {
				if n++; n == 4 {
					return nil, nil
				}
				return nil, errors.New("away")
			})
		g.Expect(len(calls)).To(BeNumerically(">", 5))
		g.Expect(calls[4] - calls[3]).To(BeNumerically(">=", time.Minute))
		g.Expect(calls[5] - calls[4]).To(BeNumerically("<", 2*time.Second))
	})
}

func TestASlowListerIsCutOffAndCleansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		f := newFixture()
		s, err := names.NewSweep(names.Func(func(ctx context.Context) ([]names.Name, error) {
			<-ctx.Done()
			return listing("default/gone"), nil // as if it had not noticed
		}), f, &names.Options{Timeout: 5 * time.Second})
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.Once(t.Context())
		g.Expect(err).To(MatchError(ContainSubstring("the lister took longer than names.Options.Timeout (5s)")))
		g.Expect(f.orphans).To(BeEmpty())
		g.Expect(s.Ready()).To(MatchError(err))
	})
}

func TestReadyNamesAListerThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		release := make(chan struct{})
		first := true
		s, err := names.NewSweep(names.Func(func(context.Context) ([]names.Name, error) {
			if !first {
				<-release
			}
			first = false
			return nil, nil
		}), newFixture(), &names.Options{Timeout: 5 * time.Second, Period: time.Minute})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		g.Expect(s.Ready()).To(Succeed())
		<-time.After(10 * time.Minute)
		g.Expect(s.Ready()).To(MatchError(ContainSubstring("listing names has taken")))
		cancel()
		close(release)
		g.Expect(<-ended).To(Succeed())
	})
}

func TestReadyKeepsTheLastErrorWhileTheNextListIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		broken := errors.New("broken")
		second := false
		s := newFixture().sweep(t, names.Func(func(context.Context) ([]names.Name, error) {
			if second {
				<-time.After(time.Second)
			}
			second = true
			return nil, broken
		}), nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := s.Once(ctx)
		g.Expect(err).To(MatchError(broken))
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		g.Expect(s.Ready()).To(MatchError(broken))
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}

func TestConfirmSweepsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		f := newFixture()
		f.known = many(20)
		s, err := names.NewSweep(f, f, &names.Options{BackoffBase: time.Hour, Period: time.Hour})
		g.Expect(err).NotTo(HaveOccurred())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		start := time.Now()
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()
		g.Expect(s.Ready()).To(HaveOccurred())
		s.Confirm(20)
		synctest.Wait()
		g.Expect(s.Ready()).To(Succeed())
		g.Expect(f.orphans).To(HaveLen(20))
		g.Expect(time.Since(start)).To(BeZero())
		cancel()
		g.Expect(<-ended).To(Succeed())
	})
}
