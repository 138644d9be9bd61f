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
		for when, on := range map[Detection]bool{InTests: inTests, Always: true, Never: false} {
			if when.on() != on {
				t.Errorf("in tests %v: detection %d is %v", inTests, when, when.on())
			}
		}
	}
}
