package guard_test

import (
	"runtime"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/guard"
)

func TestAFunctionThatReturnsHasNoError(t *testing.T) {
	g, called := NewWithT(t), false
	g.Expect(guard.Call(func() { called = true })).To(Succeed())
	g.Expect(called).To(BeTrue())
}

func TestAPanicIsAnErrorWithTheStackOfTheFunction(t *testing.T) {
	g := NewWithT(t)
	err := guard.Call(func() { panic("boom") })
	g.Expect(err).To(MatchError(And(HavePrefix("panic: boom\n"), ContainSubstring("guard_test.go"))))
}

func TestTheEndOfTheGoroutineIsAnError(t *testing.T) {
	g := NewWithT(t)
	g.Expect(guard.Call(runtime.Goexit)).To(MatchError(guard.ErrGoexit))
}
