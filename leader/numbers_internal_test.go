package leader

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
)

func TestErrorsThatDifferOnlyInNumbersAreTheSame(t *testing.T) {
	for _, pair := range [][2]string{
		{"no answer for 59s", "no answer for 1m3.5s"},
		{"dial tcp 10.0.0.1:443: refused", "dial tcp 10.0.0.23:443: refused"},
		{"bad gateway, request id 3f-ab12", "bad gateway, request id cd4-567e"},
	} {
		NewWithT(t).Expect(withoutNumbers(errors.New(pair[0]))).To(Equal(withoutNumbers(errors.New(pair[1]))))
	}
	NewWithT(t).Expect(withoutNumbers(errors.New("status 502"))).NotTo(Equal(withoutNumbers(errors.New("no answer"))))
}
