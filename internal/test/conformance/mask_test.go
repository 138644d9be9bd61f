package conformance_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/conformance"
)

// A server sorts the owners by the second of their write, and two writes of a
// script may or may not fall into the same second.
func TestTheOrderOfOwnersDoesNotDependOnTheClock(t *testing.T) {
	const (
		spec   = `{"manager":"two","operation":"Apply"}`
		status = `{"manager":"two","operation":"Apply","subresource":"status"}`
		update = `{"manager":"one","operation":"Update"}`
	)
	shown := func(owners string) string {
		return conformance.NewMask("apply").Show([]byte(`{"metadata":{"managedFields":[` + owners + `]}}`))
	}
	NewWithT(t).Expect(shown(update + "," + status + "," + spec)).To(Equal(shown(spec + "," + status + "," + update)))
}
