package operator_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// A slow API server needs longer durations. Its operator must be able to set
// them without building the program again.
func TestTheDurationsOfTheLeaseAreFlags(t *testing.T) {
	file := answers(t, func(authorizationv1.ResourceAttributes) bool { return true })
	var got leader.Options
	shared := operator.Program{
		Name: "test", Setup: begins, Replicas: operator.Sharded,
		Shards: func(_ leader.Lease, member leader.Options) (reconcile.Shards, error) {
			got = member
			return nil, errors.New("seen")
		},
	}
	leads := operator.Program{Name: "test", Setup: begins}
	run := func(p operator.Program, args ...string) (int, string) {
		var said bytes.Buffer
		code := p.Main(append([]string{
			"--kubeconfig=" + file, "--leader-elect", "--leader-elect-identity=me", "--listen-addr=",
		}, args...), &said)
		return code, said.String()
	}
	for name, row := range map[string]struct {
		args []string
		want leader.Options
	}{
		"the defaults": {nil, leader.Options{LeaseDuration: 15 * time.Second}},
		"all": {[]string{
			"--leader-elect-lease-duration=137s", "--leader-elect-renew-deadline=107s", "--leader-elect-retry-period=26s",
		}, leader.Options{LeaseDuration: 137 * time.Second, RenewDeadline: 107 * time.Second, RetryPeriod: 26 * time.Second}},
		"the others follow": {[]string{"--leader-elect-lease-duration=1m"}, leader.Options{LeaseDuration: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, said := run(shared, row.args...)
			g.Expect(said).To(ContainSubstring("test: seen"))
			g.Expect(got).To(Equal(row.want))
			_, said = run(leads, row.args...)
			g.Expect(said).To(ContainSubstring("test: it has begun"))
		})
	}
	g := NewWithT(t)
	for flag, fault := range map[string]string{
		"--leader-elect-renew-deadline=20s":            "leader.Options.RenewDeadline is 20s: must be less than LeaseDuration 15s",
		"--leader-elect-retry-period=11s":              "leader.Options.RetryPeriod is 11s: must be less than RenewDeadline",
		"--leader-elect-retry-period=-1s":              "--leader-elect-retry-period is -1s: must be more than 0",
		"--leader-elect-lease-duration=0s":             "--leader-elect-lease-duration is 0s: must be more than 0",
		"--leader-elect-resource-namespace=Not_A_Name": `leader.Lease.Namespace is "Not_A_Name"`,
		"--leader-elect-identity=":                     "leader.Lease.Identity",
		"--listen-addr=8080":                           `--listen-addr is "8080": must be a host and a port`,
	} {
		code, said := run(leads, strings.Fields(flag)...)
		g.Expect(code).To(Equal(2), "%s: %s", flag, said)
		g.Expect(said).To(ContainSubstring(fault), flag)
	}
}
