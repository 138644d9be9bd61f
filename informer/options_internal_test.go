package informer

import (
	"flag"
	"testing"
)

// The check is on by default in tests. In other programs, which do not have the
// flags of go test, it is on only if the option asks for it.
func TestMutationsAreLookedForInTestsAndByOption(t *testing.T) {
	flags := flag.CommandLine
	defer func() { flag.CommandLine = flags }()
	for _, inTests := range []bool{true, false} {
		if !inTests {
			flag.CommandLine = flag.NewFlagSet("program", flag.ContinueOnError)
		}
		for when, on := range map[string]bool{checkInTests: inTests, checkAlways: true, checkNever: false} {
			if o := (&Options{MutationCheck: when}); o.checksMutations() != on {
				t.Errorf("in tests %v: MutationCheck %q is %v", inTests, when, !on)
			}
		}
	}
}
