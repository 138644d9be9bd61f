package hostclock

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestAClockIsBlamedOnlyForWhatItHasShown(t *testing.T) {
	for name, row := range map[string]struct {
		ahead, set time.Duration // how far the clock was ahead, and by how much it was set since then
		want       string
	}{
		"agreed, and was not set": {
			2 * time.Second, time.Second,
			"this clock agreed with the server's in its last answer, at 2000-01-01T00:00:00Z, and was not set since: look at " +
				"the certificate",
		},
		"differed before": {
			-240 * time.Hour, 0,
			"the clock of this machine was 240h0m0s behind the server's in its last answer, at 2000-01-01T00:00:00Z: one of " +
				"the two is wrong, and `date -u` on a third machine says which",
		},
		"was set back": {
			0, -time.Hour,
			"the clock of this machine was set back by 1h0m0s after 2000-01-01T00:00:00Z: look at the clock first",
		},
		"was set forward, or the machine slept": {0, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			r := reading{answered: at, offset: row.ahead}
			NewWithT(t).Expect(r.hint(at.Add(time.Hour+row.set), time.Hour)).To(Equal(row.want))
		})
	}
	NewWithT(t).Expect(reading{}.hint(time.Now(), 0)).To(BeEmpty())
}

// A clock that was set right is right at once. A server that was right before
// may be one of several.
func TestADifferenceIsPastAfterAMinuteOrOnceTheClockIsSet(t *testing.T) {
	g := NewWithT(t)
	answered := time.Now()
	r := reading{answered: answered, offset: time.Hour}
	for elapsed, want := range map[time.Duration]bool{0: false, 50 * time.Second: false, 70 * time.Second: true} {
		g.Expect(r.pastAt(answered.Add(elapsed), elapsed)).To(Equal(want), elapsed.String())
		g.Expect(r.pastAt(answered.Add(elapsed-time.Hour), elapsed)).To(BeTrue(), "set back")
		g.Expect(r.pastAt(answered.Add(elapsed+time.Hour), elapsed)).To(BeTrue(), "set forward")
	}
}

// For example, a kubeconfig with a token, and an API server whose certificate
// is issued by an authority that every machine trusts.
func TestAServerWithoutSettingsForTLSIsAskedForItsTime(t *testing.T) {
	g := NewWithT(t)
	asked, err := newInquiry(&rest.Config{Host: "https://api.example.com", BearerToken: "t"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).NotTo(BeNil())
	g.Expect(asked.name).To(Equal("api.example.com"))
	g.Expect(asked.roots).To(BeNil(), "the authorities of the machine")
	asked, err = newInquiry(&rest.Config{Host: "http://api.example.com"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(asked).To(BeNil())
}
