package operator_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

func TestAClockThatIsWrongIsAProblemOfTheProgram(t *testing.T) {
	g := NewWithT(t)
	defer http.DefaultClient.CloseIdleConnections()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	asked, release := make(chan error, 1), make(chan struct{})
	p := operator.Program{Name: "test", Setup: func(env operator.Env) ([]*reconcile.Controller, error) {
		asked <- env.Cluster.Client().CoreV1().RESTClient().Get().AbsPath("/livez").Do(env.Context).Error()
		<-release
		return nil, errors.New("it has begun")
	}}
	address := freeAddress(g)
	code := make(chan int, 1)
	args := []string{"--kubeconfig=" + kubeconfigOf(t, server.URL), "--listen-addr=" + address}
	go func() { code <- p.Main(args, io.Discard) }()
	<-asked
	g.Eventually(answer(address, "/readyz?verbose"), patience).Should(MatchRegexp(
		`\[!\] clock: the clock of this machine is (2h0m|1h59m5)\ds behind the API server's: this machine showed \S+Z when the ` +
			`server showed \S+Z; run .date -u. on a third machine; if it agrees with the API server, set the clock of this replica's node`))
	g.Expect(answer(address, "/metrics")()).To(ContainSubstring(`homeostat_problems{cause="clocks differ",check="clock"} 1`))
	close(release)
	g.Expect(<-code).To(Equal(1))
}
