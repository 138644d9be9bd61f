package gate_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/reboot/internal/gate"
)

// answering is a Prometheus that has one answer for one query.
func answering(t *testing.T, status int, result string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query" || r.FormValue("query") != `ALERTS{alertstate="firing"}` {
			t.Errorf("unexpected request %s %q", r.URL.Path, r.FormValue("query"))
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"status":"success","data":%s}`, result)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestAlertsBlock(t *testing.T) {
	sample := func(labels string) string { return `{"metric":` + labels + `,"value":[1,"1"]}` }
	named := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, sample(fmt.Sprintf(`{"alertname":"a%d"}`, i+1)))
		}
		return strings.Join(all, ",")
	}
	vector := func(samples string) string { return `{"resultType":"vector","result":[` + samples + `]}` }
	for name, c := range map[string]struct {
		status int
		result string
		want   gomega.OmegaMatcher
	}{
		"none": {200, vector(""), gomega.BeEmpty()},
		"two, by name, each once": {
			200, vector(sample(`{"alertname":"NodeDown"}`) + "," + sample(`{"alertname":"Disk"}`) + "," + sample(`{"alertname":"Disk"}`)),
			gomega.Equal("Prometheus has Disk, NodeDown"),
		},
		"five are all named":     {200, vector(named(5)), gomega.Equal("Prometheus has a1, a2, a3, a4, a5")},
		"six are not":            {200, vector(named(6)), gomega.Equal("Prometheus has a1, a2, a3, a4, a5, and more")},
		"no alert, but a metric": {200, vector(sample(`{"__name__":"up"}`)), gomega.Equal("Prometheus has up")},
		"a scalar":               {200, `{"resultType":"scalar","result":[1,"1"]}`, gomega.ContainSubstring("must be an instant vector")},
		"an error":               {500, vector(""), gomega.HavePrefix("querying Prometheus at http://127.0.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			alerts, err := gate.NewAlerts(answering(t, c.status, c.result), `ALERTS{alertstate="firing"}`)
			g.Expect(err).NotTo(gomega.HaveOccurred())
			g.Expect(alerts.Blocked(t.Context())).To(c.want)
		})
	}
}

func TestAlertsNeedURLAndQuery(t *testing.T) {
	g := gomega.NewWithT(t)
	for _, c := range [][2]string{{"", "up"}, {"http://prometheus", ""}} {
		_, err := gate.NewAlerts(c[0], c[1])
		g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("set both the URL of Prometheus and a query")))
	}
	_, err := gate.NewAlerts("http://a b/", "up")
	g.Expect(err).To(gomega.MatchError(gomega.HavePrefix("configuring the alerts that block reboots: ")))
}

func TestACommandThatFailsBlocks(t *testing.T) {
	g := gomega.NewWithT(t)
	g.Expect(gate.Command{"true"}.Blocked(t.Context())).To(gomega.BeEmpty())
	g.Expect(gate.Command{"false"}.Blocked(t.Context())).To(gomega.Equal("false says: exit status 1"))
	g.Expect(gate.Command{"ls", "/does/not/exist"}.Blocked(t.Context())).To(gomega.ContainSubstring("No such file"))
	g.Expect(gate.Command{"sh", "-c", "echo $0 $1; echo more; exit 1", "one", "two"}.Blocked(t.Context())).To(
		gomega.HaveSuffix(" says: one two"), "its arguments, and the first line")
	g.Expect(gate.Command{"/does/not/exist"}.Blocked(t.Context())).To(gomega.ContainSubstring("no such file"))
}

// counting gives a fixed answer, and counts its calls.
type counting struct {
	reason string
	asked  int
}

func (c *counting) Blocked(context.Context) string {
	c.asked++
	return c.reason
}

func TestAGateKeepsItsAnswerForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gomega.NewWithT(t)
		a, b := &counting{}, &counting{}
		both := gate.New(10*time.Second, a, b)
		g.Expect(both.Blocked(t.Context())).To(gomega.BeEmpty())
		a.reason, b.reason = "one", "two"
		<-time.After(9 * time.Second)
		g.Expect(both.Blocked(t.Context())).To(gomega.BeEmpty())
		g.Expect(a.asked).To(gomega.Equal(1))
		<-time.After(time.Second)
		g.Expect(both.Blocked(t.Context())).To(gomega.Equal("one; two"))
		g.Expect(both.Blocked(t.Context())).To(gomega.Equal("one; two"))
		g.Expect(a.asked).To(gomega.Equal(2))
	})
}
