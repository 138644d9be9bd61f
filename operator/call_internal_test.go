package operator

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/reconcile"
)

// A Setup that ends its goroutine would end the main goroutine: the probes
// would answer, and the program would never work or end.
func TestASetupThatPanicsOrEndsItsGoroutineEndsTheProgram(t *testing.T) {
	for says, fail := range map[string]func(){
		"calling Program.Setup: runtime.Goexit was called": runtime.Goexit,
		"calling Program.Setup: panic: boom":               func() { panic("boom") },
	} {
		err := (&Server{}).serve(t.Context(), func(ctx context.Context, _ *front) error {
			env := Env{Context: ctx, Metrics: &registerer{}}
			_, _, err := Program{Name: "test", Setup: func(Env) ([]*reconcile.Controller, error) {
				fail()
				return nil, nil
			}}.setUp(env, nil, &flags{})
			return err
		})
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)))
		err = (&Server{}).RunSetup(t.Context(), func(context.Context) ([]*reconcile.Controller, error) {
			fail()
			return nil, nil
		})
		NewWithT(t).Expect(err).To(MatchError(HavePrefix("calling setup: ")))
	}
}

func TestABesideThatPanicsOrEndsItsGoroutineEndsTheProgram(t *testing.T) {
	for says, fail := range map[string]func(){
		"calling Program.Beside: runtime.Goexit was called": runtime.Goexit,
		"calling Program.Beside: panic: boom":               func() { panic("boom") },
	} {
		p := Program{Beside: func(context.Context, Env) error { fail(); return nil }}
		err := p.runBeside(t.Context(), Env{}, func(ctx context.Context) error { <-ctx.Done(); return nil })
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)))
	}
}

// Until the kubelet kills it, nothing would say why the process does not end.
func TestAFunctionThatIgnoresTheStopIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		release := make(chan struct{})
		hang := func() error { <-release; return nil }
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, stop)
		begun := time.Now()
		g.Expect(call(ctx, "Program.Setup", 5*time.Second, hang)).
			To(MatchError("stopping: Program.Setup has not returned, 5s after its context ended"))
		g.Expect(time.Since(begun)).To(Equal(time.Hour+5*time.Second), "it has as long as it needs before the stop")

		p := Program{Beside: func(context.Context, Env) error { return hang() }}
		err := p.runBeside(ctx, Env{}, func(context.Context) error { return errors.New("drained") })
		g.Expect(err).To(MatchError(And(ContainSubstring("drained"), ContainSubstring("Program.Beside has not returned, 30s"))))
		close(release)
	})
}

func TestAFunctionMayReturnAfterTheStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	last := errors.New("last")
	err := call(ctx, "Program.Setup", time.Minute, func() error {
		stop()
		<-ctx.Done()
		return last
	})
	NewWithT(t).Expect(err).To(Equal(last))
}

// Without an Address, no metrics are served, so it would not be noticed that
// they need no token.
func TestAServerThatDoesNotListenRefusesFieldsAboutAccess(t *testing.T) {
	for field, s := range map[string]Server{
		"MetricsAuth": {MetricsAuth: true}, "CertFile": {CertFile: "a"}, "KeyFile": {KeyFile: "a"},
	} {
		NewWithT(t).Expect(s.Run(t.Context())).To(MatchError(And(HavePrefix("operator.Server."+field+" is "),
			ContainSubstring("must not be set without an Address"))))
	}
}
