package clients_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/clients"
)

func TestAPluralIsRegular(t *testing.T) {
	for _, c := range []struct {
		resource, kind string
		is             bool
	}{
		{"widgets", "Widget", true},
		{"statuses", "Status", true},
		{"policies", "Policy", true},
		{"days", "Day", true},
		{"switchs", "Switch", true},
		{"endpoints", "Endpoints", true}, // a plural has its own kind
		{"sheep", "Sheep", true},
		{"switchies", "Switch", false},
		{"widgets", "Gadget", false},
	} {
		NewWithT(t).Expect(clients.IsPlural(c.resource, c.kind)).To(Equal(c.is), c.resource+" of "+c.kind)
	}
}
