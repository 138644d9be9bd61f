package witness_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestWitness(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "witness")
}
