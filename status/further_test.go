package status_test

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/status"
)

func TestFurtherInformersAreShownAndChecked(t *testing.T) {
	g := NewWithT(t)
	further := []informer.Status{
		{
			Name: "pods", Synced: true, Objects: 7,
			Problems: []informer.Problem{{Cause: "watch fails", Reason: "refused for 2m0s"}},
		},
		{Name: "secrets", Reason: "secrets is forbidden"},
	}
	handler, err := status.New(&status.Options{Informers: func() []informer.Status { return further }})
	g.Expect(err).NotTo(HaveOccurred())
	code, body := client{g, handler}.get("/readyz")
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).To(Equal("[!] informer/pods: refused for 2m0s\n" +
		"[-] informer/secrets: the informer has not synced: secrets is forbidden\nreadyz failed\n"))
	_, body = client{g, handler}.get("/debug/homeostat")
	g.Expect(body).To(And(ContainSubstring("pods"), ContainSubstring("refused for 2m0s"),
		Not(ContainSubstring("no controllers"))))
	_, body = client{g, handler}.get("/debug/homeostat?format=json")
	g.Expect(body).To(ContainSubstring(`"controllers": [],`))
	_, body = client{g, handler}.get("/metrics")
	g.Expect(body).To(ContainSubstring(`homeostat_problems{cause="watch fails",check="informer/pods"} 1`))
	further = further[:1]
	code, _ = client{g, handler}.get("/readyz")
	g.Expect(code).To(Equal(http.StatusOK), "a problem leaves the process ready")
}

// As for the informers of controllers, only a restart helps. The restarted
// process is not restarted again: its informer has never synced.
func TestFurtherInformersWhoseCredentialsHaveEndedNeedARestart(t *testing.T) {
	g := NewWithT(t)
	further := []informer.Status{{Name: "pods", Synced: true}}
	handler, err := status.New(&status.Options{Informers: func() []informer.Status { return further }})
	g.Expect(err).NotTo(HaveOccurred())
	for since, code := range map[time.Duration]int{
		0: http.StatusOK, 4 * time.Minute: http.StatusOK, 6 * time.Minute: http.StatusServiceUnavailable,
	} {
		further[0].UnauthorizedSince = time.Time{}
		if since > 0 {
			further[0].UnauthorizedSince = time.Now().Add(-since)
		}
		got, body := client{g, handler}.get("/livez")
		g.Expect(got).To(Equal(code), body)
		if code != http.StatusOK {
			g.Expect(body).To(HavePrefix("[-] informer/pods: the API server has answered 401 to the informer of pods for 6m0s"))
		}
	}
}
