package operator

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

func TestAClockThatDiffersFromAServersIsAProblem(t *testing.T) {
	g := NewWithT(t)
	configs := map[string]*rest.Config{}
	for name, ahead := range map[string]time.Duration{first: -2 * time.Hour, "east": 0, "west": time.Hour} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		}))
		t.Cleanup(server.Close)
		configs[name] = &rest.Config{Host: server.URL}
	}
	var lines []string
	compared := compareClocks(funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}), configs)
	g.Expect(compared.problems()).To(BeEmpty())
	clusters, err := clustersOf(configs)
	g.Expect(err).NotTo(HaveOccurred())
	for _, c := range clusters {
		_ = c.Client().CoreV1().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error() // the answer has no body
	}
	g.Expect(lines).To(ConsistOf(
		And(ContainSubstring(`"clocks differ"`), ContainSubstring("ahead of the API server's"), ContainSubstring("third machine")),
		And(ContainSubstring(`"clocks differ"`), ContainSubstring("behind the API server's"), ContainSubstring(`"cluster"="west"`)),
	))
	problems := compared.problems()
	g.Expect(problems).To(HaveLen(2))
	g.Expect(problems[0].Check).To(Equal("clock"))
	g.Expect(problems[0].Cause).To(Equal("clocks differ"))
	g.Expect(problems[0].Reason).To(MatchRegexp(`^the clock of this machine is (2h0m|1h59m5)\ds ahead of the API server's: ` +
		`this machine showed \S+Z when the server showed \S+Z$`))
	g.Expect(problems[1].Check).To(Equal("clock/west"))
	g.Expect(problems[1].Reason).To(ContainSubstring(" behind the API server's"))
}
