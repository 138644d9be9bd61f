package status_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func pageOf(key string) string {
	return "/debug/homeostat?" + url.Values{"controller": {"rollout"}, "key": {key}}.Encode()
}

func TestThePageOfAKeyShowsItsLastReconcilesAsATimeline(t *testing.T) {
	inScenario(t, nil, func(c client, s *fixture) {
		for key, facts := range map[string][]string{
			"d/broken": {
				"d/broken in controller rollout", "Now backing off: retried in",
				"2s ago 00:00:01.000, attempt 1", "cause configmaps: added d/broken", "reconcile took 0s",
				"writes Deployment other/", "outcome error patching \"broken\": <b>the server</b> is busy",
			},
			"d/unseen": {"Now held back until its writes are seen", "Secret d/ →99999", "seen not yet", "outcome requeue_after"},
			"d/fine":   {"Now idle: neither waiting nor being reconciled", "seen after 0s", "outcome success"},
			"d/slow":   {"Now running for 2s", "No reconcile is recorded yet. Viewing this page records them for ten minutes."},
			"d/never":  {"Now idle", "No reconcile is recorded yet."},
			hostile:    {hostile + " in controller rollout", "No reconcile is recorded yet."},
		} {
			code, body := c.get(pageOf(key))
			c.Expect(code).To(Equal(http.StatusOK))
			seen := text(body)
			for _, fact := range facts {
				c.Expect(seen).To(ContainSubstring(fact), key)
			}
			c.Expect(body).NotTo(Or(ContainSubstring("<script"), ContainSubstring("<b>"), ContainSubstring(secret)))
		}
		close(s.release)
		<-time.After(time.Second)
		s.release = make(chan struct{})
		_, body := c.get(pageOf("d/slow"))
		c.Expect(text(body)).To(And(ContainSubstring("reconcile took 2s"), ContainSubstring("configmaps: added d/slow; "),
			ContainSubstring("secrets: added d/token; ")))
	})
}

func TestThePageOfAKeyIsJSONToo(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get(pageOf("d/hopeless") + "&format=json")
		var view struct {
			Controller, Namespace, Name string
			Now                         *struct{ State string }
			Attempts                    []struct {
				Number         int
				Outcome, Error string
				Start, Seen    time.Time
				Causes         []struct{ Trigger string }
				Writes         []struct{ Kind, Namespace string }
			}
		}
		c.Expect(json.Unmarshal([]byte(body), &view)).To(Succeed())
		c.Expect(view.Controller + " " + view.Namespace + " " + view.Name + " " + view.Now.State).
			To(Equal("rollout d hopeless resting"))
		c.Expect(view.Attempts).To(HaveLen(1))
		c.Expect(view.Attempts[0].Outcome + ": " + view.Attempts[0].Error).
			To(Equal("terminal: spec.replicas contradicts spec.paused"))
		c.Expect(view.Attempts[0].Writes[0].Kind).To(Equal("Deployment"))
		c.Expect(view.Attempts[0].Causes).To(HaveLen(1))
		c.Expect(view.Attempts[0].Seen).To(Equal(view.Attempts[0].Start))
	})
}

func TestEachKeyLinksToItsOwnPage(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get("/debug/homeostat")
		links := regexp.MustCompile(`<td data-label="key"><div><a href="([^"]*)">`).FindAllStringSubmatch(body, -1)
		c.Expect(links).To(HaveLen(6))
		for _, link := range links {
			_, body := c.get("/debug/homeostat" + html.UnescapeString(link[1]))
			c.Expect(text(body)).NotTo(ContainSubstring("at rest"), link[1])
		}
		c.Expect(body).To(ContainSubstring(`<input type="hidden" name="controller" value="rollout"><input name="key" required`))
		code, _ := c.get("/debug/homeostat?controller=nope&key=d/slow")
		c.Expect(code).To(Equal(http.StatusNotFound))
	})
}
