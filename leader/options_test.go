package leader_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/leaseapi"
	"github.com/homeostat/homeostat/leader"
)

func TestNewDerivesTheOtherDurationsFromTheLeaseDuration(t *testing.T) {
	g := NewWithT(t)
	for _, o := range []*leader.Options{nil, {LeaseDuration: 3 * time.Second}} {
		_, err := leader.New(leaseOf(leaseapi.New(t).Link(1), "a"), o)
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestNewNamesEachMissingFieldAndTheWayOut(t *testing.T) {
	_, err := leader.New(leader.Lease{}, nil)
	NewWithT(t).Expect(err).To(MatchError(And(
		ContainSubstring("Lease.Client is nil: use clientset.CoordinationV1()"),
		ContainSubstring("Lease.Namespace is \"\": use"),
		ContainSubstring("Lease.Name is \"\": use"),
		ContainSubstring("Lease.Identity is \"\": use"),
	)))
}

func TestNewRefusesAnIdentityWithWhiteSpace(t *testing.T) {
	_, err := leader.New(leaseOf(leaseapi.New(t).Link(1), "my pod"), nil)
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring(`Lease.Identity is "my pod": must not contain white space`)))
}

func TestNewRefusesNamesThatNoServerTakes(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*leader.Lease)
		says string
	}{
		"a name in upper case": {func(l *leader.Lease) { l.Name = "Reboot" }, `leader.Lease.Name is "Reboot": a lowercase RFC 1123`},
		"a name with a slash":  {func(l *leader.Lease) { l.Name = "system/reboot" }, `leader.Lease.Name is "system/reboot"`},
		"a long name":          {func(l *leader.Lease) { l.Name = strings.Repeat("a", 254) }, "must be no more than 253"},
		"a namespace with a dot": {
			func(l *leader.Lease) { l.Namespace = "kube.system" },
			`leader.Lease.Namespace is "kube.system": must not contain dots`,
		},
		"a namespace with a blank": {func(l *leader.Lease) { l.Namespace = "kube-system " }, `leader.Lease.Namespace is "kube-system "`},
	} {
		t.Run(name, func(t *testing.T) {
			l := leaseOf(leaseapi.New(t).Link(1), "a")
			row.edit(&l)
			_, err := leader.New(l, nil)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(row.says)))
		})
	}
}

func TestNewRefusesDurationsThatBreakTheTrustWindow(t *testing.T) {
	for name, c := range map[string]struct {
		options leader.Options
		wants   []string
	}{
		"a negative one": {leader.Options{LeaseDuration: -1, DrainTimeout: -1}, []string{
			"Options.LeaseDuration is -1ns: must be more than 0", "Options.DrainTimeout is -1ns",
		}},
		"one that no Lease can contain": {leader.Options{LeaseDuration: 876_000 * time.Hour}, []string{
			"Options.LeaseDuration is 876000h0m0s: must be at most 596523h14m7s",
		}},
		"one that is too short to be divided": {leader.Options{LeaseDuration: 4}, []string{
			"Options.RequestTimeout is 0s: must be more than 0", "Options.RetryPeriod is 0s: must be more than 0",
		}},
		"no room for a late write": {leader.Options{RenewDeadline: 14 * time.Second}, []string{
			"Options.RenewDeadline is 14s: must be less than LeaseDuration 15s minus RequestTimeout 750ms and 300ms for drift",
		}},
		"drift alone breaks it": {leader.Options{RenewDeadline: 11700 * time.Millisecond, RequestTimeout: 3 * time.Second}, []string{
			"Options.RenewDeadline is 11.7s",
		}},
		"no second try": {leader.Options{RetryPeriod: 7 * time.Second}, []string{
			"Options.RetryPeriod is 7s: must be less than RenewDeadline 10s minus RequestTimeout 3s",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := leader.New(leaseOf(leaseapi.New(t).Link(1), "a"), &c.options)
			for _, want := range c.wants {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
			}
		})
	}
}

func TestNilArgumentsAreErrors(t *testing.T) {
	g := NewWithT(t)
	_, err := leader.Client(nil)
	g.Expect(err).To(MatchError(ContainSubstring("the rest.Config is nil")))
	e, err := leader.New(leaseOf(leaseapi.New(t).Link(1), "a"), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(e.Run(t.Context(), nil)).To(MatchError(ContainSubstring("the function to run is nil")))
	g.Expect(e.RunOnce(t.Context(), nil)).To(MatchError(ContainSubstring("the function to run is nil")))
}
