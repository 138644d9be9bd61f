package apisim_test

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// testTimeout limits calls that cannot hang unless the code is broken.
const testTimeout = 10 * time.Second

func TestAPISim(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "apisim")
}
