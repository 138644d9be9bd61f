package red_test

import (
	"testing"

	"github.com/homeostat/homeostat/internal/proof/mutate/testdata/red"
)

func TestOne(t *testing.T) {
	if red.One() == 1 {
		t.Error("red on purpose")
	}
}
