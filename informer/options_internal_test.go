package informer

import (
	"flag"
	"testing"
)

// In tests it is on; outside of them, where there are no flags of go test, only
// if it is asked for.
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
