//go:build linux

package command

import (
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// started is a program that runs until the end of the test. For a moment it may
// show no environment.
func started(t *testing.T, environment ...string) (pid int) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "/bin/sleep", "1000")
	c.Env = append([]string{}, environment...) // never nil, which would mean ours
	NewWithT(t).Expect(c.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // likewise
	})
	return c.Process.Pid
}

func TestAMemberHasTheMarkOfTheFamily(t *testing.T) {
	f := newFamily()
	other := "LONG=" + strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		environment []string
		want        kinship
	}{
		"the mark alone":                  {[]string{f.id}, member},
		"the last of many":                {[]string{other, "A=b", f.id}, member},
		"the first of many":               {[]string{f.id, other}, member},
		"of a family within":              {[]string{f.id + "/within"}, member},
		"another that begins like it":     {[]string{f.id + "x"}, stranger},
		"another":                         {[]string{marker + "=/other"}, stranger},
		"in the middle of another":        {[]string{"A=" + f.id}, stranger},
		"none, and it may still get some": {nil, starting},
	} {
		t.Run(name, func(t *testing.T) {
			pid := started(t, c.environment...)
			NewWithT(t).Eventually(func() kinship { return f.kinship(pid) }, "1m").Should(Equal(c.want))
		})
	}
}

func TestAProcessWithoutAnEnvironmentMayBeAStranger(t *testing.T) {
	t.Run("it began before the family", func(t *testing.T) {
		f := newFamily()
		f.begun = f.begun.Add(time.Hour)
		NewWithT(t).Expect(f.kinship(started(t))).To(Equal(stranger))
	})
	t.Run("it has ended", func(t *testing.T) {
		g := NewWithT(t)
		f := newFamily()
		pid := started(t)
		g.Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed())
		g.Eventually(func() kinship { return f.kinship(pid) }, "1m").Should(Equal(stranger)) // nothing waits for it before the end
	})
	t.Run("there is no process", func(t *testing.T) {
		f := newFamily()
		f.begun = time.Time{}
		NewWithT(t).Expect(f.kinship(math.MaxInt32)).To(Equal(stranger))
	})
}

func TestTheKernelsOwnProcessesAreStrangers(t *testing.T) {
	const kthreadd = 2 // not there in a PID namespace
	f := newFamily()
	f.begun = time.Time{}
	NewWithT(t).Expect(f.kinship(kthreadd)).NotTo(Equal(starting))
}

// Whether the ids are guessed shows in the test itself, which began before: it
// is among the candidates only if all processes are.
func TestAllProcessesAreLookedAtUnlessTheFamilysIdsAreKnown(t *testing.T) {
	last := lastID()
	for name, c := range map[string]struct {
		first int
		age   time.Duration
		all   bool
	}{
		"a family that has just begun": {last, 0, false},
		"an old one":                   {last, maxAge, true},
		"the ids came round":           {last + maxGuesses, 0, true},
		"too many since":               {last - 10*maxGuesses, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := &family{pid: c.first, begun: time.Now().Add(-c.age)}
			found := f.candidates()
			if c.all {
				g.Expect(found).To(ContainElement(os.Getpid()))
				g.Expect(len(found)).To(BeNumerically("<", 9*maxGuesses))
			} else {
				g.Expect(found).NotTo(ContainElement(os.Getpid()))
			}
		})
	}
	g := NewWithT(t)
	f := &family{pid: last, begun: time.Now()}
	child := started(t)
	g.Expect(f.candidates()).To(ContainElement(child))
}

func TestAFamilyIsKilledUntilNoneIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		found, unsure func(round int) bool
		rounds        int
		waited        time.Duration
	}{
		"none":                     {nil, nil, 1, 0},
		"two rounds find some":     {func(i int) bool { return i < 2 }, nil, 3, 0},
		"some always":              {func(int) bool { return true }, nil, maxRounds + maxExecs, 0},
		"one becomes a program":    {nil, func(i int) bool { return i < 2 }, 3, 2 * execTime},
		"one has no environment":   {nil, func(int) bool { return true }, maxExecs + 1, maxExecs * execTime},
		"some, and one that stays": {func(i int) bool { return i < 2 }, func(int) bool { return true }, maxExecs + 3, maxExecs * execTime},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, begun, rounds := NewWithT(t), time.Now(), 0
				repeatRounds(func() (found, unsure bool) {
					i := rounds
					rounds++
					return c.found != nil && c.found(i), c.unsure != nil && c.unsure(i)
				})
				g.Expect(rounds).To(Equal(c.rounds))
				g.Expect(time.Since(begun)).To(Equal(c.waited))
			})
		})
	}
}
