package status_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// text returns the text of a page as its reader sees it, without drawings.
func text(page string) string {
	_, body, _ := strings.Cut(page, "<body>")
	body = regexp.MustCompile(`(?s)<svg.*?</svg>`).ReplaceAllString(body, "")
	body = tags.ReplaceAllString(strings.NewReplacer("</div></td>", " |", "</td>", " |", "</dt>", " ", "</div>", "; ").Replace(body), "")
	return html.UnescapeString(strings.Join(strings.Fields(body), " "))
}

func TestThePageShowsWhatIsGoingOn(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		code, body := c.get("/debug/homeostat")
		c.Expect(code).To(Equal(http.StatusOK))
		seen := text(body)
		for _, fact := range []string{
			"not ready", "UTC by the clock of this replica ·",
			"controller/drain the controller is syncing",
			"rollout working Reconciles ConfigMap. 1 of 4 workers busy; 4 keys delayed, 2 of them backing off; replica-1 leads.",
			"keys whose last reconcile failed |3 |keys that are retried |2 |",
			"d/slow | running for 2s | 1 | ", "configmaps: added d/slow", "secrets: added d/token",
			"d/later | reconciled in 9m58s | 1 | ",
			"d/unseen | held back until its writes are seen, for 58s at most | 1 |",
			"d/hopeless | gave up; waiting for a change | 1 | – | spec.replicas contradicts spec.paused 2s ago",
			`patching "broken": <b>the server</b> is busy 2s ago`,
			"waited for their own writes |1 |",
			"configmaps | ConfigMap | namespace d | synced | 8 | ", "KiB | 9 | 3s ago | 0s | 1 | 1, open for 3s | rollout, drain |",
			"nodes | Node | everything | listing: nodes is forbidden",
			"| 0 | 0 B | – | – | 0s | 0 | 0, ",
			"names known outside |0 |orphans enqueued |0 |last good sweep |never",
		} {
			c.Expect(seen).To(ContainSubstring(fact))
		}
	})
}

func TestThePageShowsWhoHasWhichSlot(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get("/debug/homeostat")
		c.Expect(text(body)).To(ContainSubstring("0 of 4 workers busy; 0 keys delayed, 0 of them backing off; 1 of 4 slots here."))
		var slots []string
		for _, found := range regexp.MustCompile(`<li class="(\w+)" title="([^"]*)">`).FindAllStringSubmatch(body, -1) {
			slots = append(slots, found[1]+": "+html.UnescapeString(found[2]))
		}
		c.Expect(slots).To(Equal([]string{
			"here: here, a, for 1m0s", "elsewhere: elsewhere, " + hostile + ", for 1h0m0s, 61.3 % of the objects",
			"claimable: claimable", "unavailable: unavailable, c",
		}))
		c.Expect(text(body)).To(ContainSubstring("The namespace team-a in shard 1 is too heavy"))
		c.Expect(text(body)).To(ContainSubstring("has 1.7 times the mean of all replicas. Scaling to zero and up divides"))
	})
}

func TestThePageEscapesWhatItShowsAndShowsNoContents(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get("/debug/homeostat")
		c.Expect(body).To(ContainSubstring("&lt;script&gt;"))
		c.Expect(body).NotTo(Or(ContainSubstring("<script"), ContainSubstring("<b>"), ContainSubstring(secret)))
	})
}

func TestThePageNeedsNoExternalResources(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		response := c.response(httptest.NewRequest(http.MethodGet, "/debug/homeostat", http.NoBody))
		body, err := io.ReadAll(response.Body)
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(string(body)).NotTo(MatchRegexp(`src=|@import|url\(|<link`))
		c.Expect(response.Header.Get("Content-Security-Policy")).To(And(
			HavePrefix("default-src 'none'; style-src 'sha256-"), ContainSubstring("frame-ancestors 'none'")))
		c.Expect(response.Header.Get("X-Content-Type-Options")).To(Equal("nosniff"))
		c.Expect(response.Header.Get("Cache-Control")).To(Equal("no-store"))
	})
}

func TestThePageRefreshesAsOftenAsRequested(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		for target, seconds := range map[string]string{"": "5", "?refresh=30": "30", "?refresh=-1": "5", "?refresh=x": "5"} {
			_, body := c.get("/debug/homeostat" + target)
			c.Expect(body).To(ContainSubstring(`<meta http-equiv="refresh" content="`+seconds+`">`), target)
		}
		_, body := c.get("/debug/homeostat?refresh=0")
		c.Expect(body).NotTo(ContainSubstring(`http-equiv="refresh"`))
		c.Expect(text(body)).To(ContainSubstring("resume"))
	})
}

func TestThePageShowsAsManyKeysAsRequested(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get("/debug/homeostat?keys=2")
		c.Expect(strings.Count(body, `<td data-label="key"`)).To(Equal(2))
		c.Expect(text(body)).To(ContainSubstring("There are more keys"))
		_, body = c.get("/debug/homeostat")
		c.Expect(strings.Count(body, `<td data-label="key"`)).To(Equal(6))
		c.Expect(text(body)).NotTo(ContainSubstring("There are more keys"))
	})
}

// drawing has the parts of an SVG that the test compares.
type drawing struct {
	Class string `xml:"class,attr"`
	Paths []struct {
		Class string `xml:"class,attr"`
		Title string `xml:"title"`
	} `xml:"path"`
	Nodes []struct {
		Class string   `xml:"class,attr"`
		Texts []string `xml:"text"`
	} `xml:"g"`
}

func TestTheGraphShowsTheFlowOfChanges(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		_, body := c.get("/debug/homeostat")
		svgs := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(body, -1)
		c.Expect(svgs).To(HaveLen(2), "one for each width")
		var wide drawing
		c.Expect(xml.Unmarshal([]byte(svgs[0]), &wide)).To(Succeed())
		edges, nodes := []string{}, []string{}
		for _, p := range wide.Paths {
			edges = append(edges, p.Title)
		}
		for _, n := range wide.Nodes {
			nodes = append(nodes, fmt.Sprint(n.Class, ": ", strings.Join(n.Texts, ", ")))
		}
		c.Expect(edges).To(ConsistOf(
			"configmaps → rollout: primary", "deployments → rollout: owned", "secrets → rollout: mapped",
			"rollout writes Deployment", "rollout writes Secret", "rollout writes Event",
			"nodes → drain: primary", "configmaps → drain: owned", "configmaps-2 → drain: owned",
		))
		c.Expect(nodes).To(ConsistOf(
			"informer: configmaps, 8 objects", "informer: deployments, 0 objects", "informer: secrets, 1 object", "informer: configmaps-2, 0 objects",
			"informer bad: nodes, not synced", "controller: rollout, working", "controller: drain, syncing",
			"output: Deployment, watched, too", "output: Secret, watched, too", "output bad: Event, not watched",
		))
	})
}

// full is a writer that accepts no bytes, like a client that has disconnected.
type full struct{ http.ResponseWriter }

func (full) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestADisconnectedClientIsIgnored(t *testing.T) {
	inScenario(t, nil, func(c client, _ *fixture) {
		for _, target := range []string{"/livez", "/readyz", "/metrics", "/debug/homeostat", "/debug/homeostat?format=json"} {
			recorder := httptest.NewRecorder()
			c.handler.ServeHTTP(full{recorder}, httptest.NewRequest(http.MethodGet, target, http.NoBody))
			c.Expect(recorder.Body.Len()).To(BeZero())
		}
	})
}
