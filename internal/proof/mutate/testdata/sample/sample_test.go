package sample_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/proof/mutate/testdata/sample"
)

func TestSample(t *testing.T) {
	if sample.Clamp(1, 2, 3) != 2 || sample.Clamp(4, 2, 3) != 3 {
		t.Error("not clamped")
	}
	tally := &sample.Tally{}
	tally.Add("x")
	sample.Wait(3)
	if tally.Total != 1 {
		t.Error("not counted")
	}
}
