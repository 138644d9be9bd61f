package alone_test

import (
	"os"
	"testing"

	"github.com/homeostat/homeostat/internal/proof/mutate/testdata/alone"
)

func TestAlone(t *testing.T) {
	if os.Getenv("MUTANT") != "" {
		t.Error("other mutants are in this program")
	}
	if alone.Twice(2) != 4 {
		t.Error("not doubled")
	}
}
