package rules_test

import (
	"testing"
	"time"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

func grouped(windows ...api.Window) *api.RebootGroup {
	return &api.RebootGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: api.RebootGroupSpec{Windows: windows}}
}

func TestWindowsUseTheLocalTime(t *testing.T) {
	night := api.Window{Days: []string{"Sat"}, Start: "22:00", End: "06:00"}
	berlin := api.Window{Days: []string{"Sun"}, Start: "02:15", End: "02:45", TimeZone: "Europe/Berlin"}
	long := api.Window{Days: []string{"Sat"}, Start: "22:00", End: "06:00", TimeZone: "Europe/Berlin"}
	for name, c := range map[string]struct {
		windows []api.Window
		at      string
		open    bool
		change  string // "" is never
	}{
		"none":                        {nil, "2026-11-22T12:00:00Z", true, ""},
		"before":                      {[]api.Window{{Start: "09:00", End: "17:00"}}, "2026-11-22T08:59:59Z", false, "2026-11-22T09:00:00Z"},
		"at its start":                {[]api.Window{{Start: "09:00", End: "17:00"}}, "2026-11-22T09:00:00Z", true, "2026-11-22T17:00:00Z"},
		"at its end":                  {[]api.Window{{Start: "09:00", End: "17:00"}}, "2026-11-22T17:00:00Z", false, "2026-11-23T09:00:00Z"},
		"the day it begins":           {[]api.Window{night}, "2026-11-21T23:00:00Z", true, "2026-11-22T06:00:00Z"},
		"across midnight":             {[]api.Window{night}, "2026-11-22T05:59:00Z", true, "2026-11-22T06:00:00Z"},
		"the morning of its day":      {[]api.Window{night}, "2026-11-21T05:00:00Z", false, "2026-11-21T22:00:00Z"},
		"the evening after":           {[]api.Window{night}, "2026-11-22T23:00:00Z", false, "2026-11-28T22:00:00Z"},
		"another zone":                {[]api.Window{{Start: "09:00", End: "17:00", TimeZone: "Asia/Tokyo"}}, "2026-11-22T00:30:00Z", true, "2026-11-22T08:00:00Z"},
		"another day there":           {[]api.Window{{Days: []string{"Mon"}, Start: "01:00", End: "02:00", TimeZone: "Asia/Tokyo"}}, "2026-11-22T16:30:00Z", true, "2026-11-22T17:00:00Z"},
		"two that touch":              {[]api.Window{{Start: "01:00", End: "02:00"}, {Start: "02:00", End: "03:00"}}, "2026-11-22T01:30:00Z", true, "2026-11-22T03:00:00Z"},
		"two that make a whole day":   {[]api.Window{{Start: "00:00", End: "12:00"}, {Start: "12:00", End: "00:00"}}, "2026-11-22T01:30:00Z", true, ""},
		"an hour that is skipped":     {[]api.Window{berlin}, "2026-03-29T00:59:00Z", false, "2026-04-05T00:15:00Z"},
		"an hour that comes twice, 1": {[]api.Window{berlin}, "2026-10-25T00:30:00Z", true, "2026-10-25T00:45:00Z"},
		"an hour that comes twice, 2": {[]api.Window{berlin}, "2026-10-25T00:50:00Z", false, "2026-10-25T01:15:00Z"},
		"an hour that comes twice, 3": {[]api.Window{berlin}, "2026-10-25T01:30:00Z", true, "2026-10-25T01:45:00Z"},
		"a short night in spring":     {[]api.Window{long}, "2026-03-28T22:00:00Z", true, "2026-03-29T04:00:00Z"},
		"a long night in autumn":      {[]api.Window{long}, "2026-10-24T21:00:00Z", true, "2026-10-25T05:00:00Z"},
		"begins in the skipped hour":  {[]api.Window{{Days: []string{"Sun"}, Start: "02:30", End: "04:00", TimeZone: "Europe/Berlin"}}, "2026-03-29T00:59:59Z", false, "2026-03-29T01:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			windows, err := rules.NewWindows(grouped(c.windows...))
			g.Expect(err).NotTo(gomega.HaveOccurred())
			at, err := time.Parse(time.RFC3339, c.at)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(windows.Open(at)).To(gomega.Equal(c.open))
			change := ""
			if next := windows.Change(at); !next.IsZero() {
				change = next.UTC().Format(time.RFC3339)
			}
			g.Expect(change).To(gomega.Equal(c.change))
		})
	}
}

// The next change is held against a look at every minute, over the two nights
// on which clocks are changed.
func TestWindowsChangeWhenTheyOpenOrClose(t *testing.T) {
	g := gomega.NewWithT(t)
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"} {
		windows, err := rules.NewWindows(grouped(
			api.Window{Days: []string{"Sat", "Sun"}, Start: "22:30", End: "02:10", TimeZone: zone},
			api.Window{Days: []string{"Sun"}, Start: "02:20", End: "03:05", TimeZone: zone},
		))
		g.Expect(err).NotTo(gomega.HaveOccurred())
		for _, begin := range []string{"2026-03-07", "2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-10-31"} {
			at, err := time.Parse(time.DateOnly, begin)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			for end := at.Add(60 * time.Hour); at.Before(end); {
				want := at.Add(time.Minute)
				for windows.Open(want) == windows.Open(at) {
					want = want.Add(time.Minute)
				}
				g.Expect(windows.Change(at)).To(gomega.BeTemporally("==", want), "%s after %s", zone, at)
				at = want
			}
		}
	}
}

func TestAWindowThatMakesNoSenseIsNamed(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := rules.NewWindows(grouped(
		api.Window{Start: "9", End: "10:00"}, api.Window{Start: "09:00", End: "24:00"}, api.Window{Start: "09:00", End: "09:00"},
		api.Window{Start: "09:00", End: "10:00", TimeZone: "Berlin"}, api.Window{Days: []string{"Monday"}, Start: "09:00", End: "10:00"},
	))
	for _, text := range []string{
		`RebootGroup "g": spec.windows[0].start is "9": set a time such as 22:00`, `spec.windows[1].end is "24:00"`,
		`spec.windows[2].end is "09:00"`, `spec.windows[3].timeZone is "Berlin": set a name of the IANA database`,
		`spec.windows[4].days contains "Monday"`,
	} {
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(text)))
	}
}
