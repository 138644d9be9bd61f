package status_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/status"
)

func TestFurtherInformersAreShownAndChecked(t *testing.T) {
	g := NewWithT(t)
	further := []informer.Status{
		{Name: "pods", Synced: true, Objects: 7, Problems: []informer.Problem{{Cause: "watch fails", Reason: "refused for 2m0s"}}},
		{Name: "secrets", Reason: "secrets is forbidden"},
	}
	handler, err := status.New(&status.Options{Informers: func() []informer.Status { return further }})
	g.Expect(err).NotTo(HaveOccurred())
	code, body := client{g, handler}.get("/readyz")
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).To(Equal("[!] informer/pods: refused for 2m0s\n[-] informer/secrets: the informer has not synced: secrets is forbidden\nreadyz failed\n"))
	_, body = client{g, handler}.get("/debug/homeostat")
	g.Expect(body).To(And(ContainSubstring("pods"), ContainSubstring("refused for 2m0s"), Not(ContainSubstring("no controllers"))))
	_, body = client{g, handler}.get("/debug/homeostat?format=json")
	g.Expect(body).To(ContainSubstring(`"controllers": [],`))
	further = further[:1]
	code, _ = client{g, handler}.get("/readyz")
	g.Expect(code).To(Equal(http.StatusOK), "a problem leaves the process ready")
}
