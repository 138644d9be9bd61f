package operator_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/operator"
)

// addressed is an address behind which one cluster after the other answers.
type addressed struct {
	*gatekeeper
	uid   string // of the namespace kube-system; empty if it is forbidden
	down  bool   // whether the namespace cannot be read without an answer
	page  int    // the status of a page in place of the namespace, or 0
	asked []string
}

// RoundTrip answers the question which cluster it is. A gatekeeper answers the
// other requests.
func (a *addressed) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Path, "/api/v1/namespaces/kube-system") {
		return a.gatekeeper.RoundTrip(r)
	}
	a.asked = append(a.asked, who(r))
	status, body := http.StatusOK, fmt.Sprintf(
		`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, a.uid)
	switch {
	case a.down:
		return nil, errors.New("no route to host")
	case a.page == http.StatusNotFound: // of a proxy that hides the namespace from a tenant
		status, body = a.page, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	case a.page != 0:
		status, body = a.page, "<html>try again later</html>"
	case a.uid == "":
		status, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403}`
	}
	return &http.Response{
		StatusCode: status, Request: r, Body: io.NopCloser(strings.NewReader(body)),
		Header: http.Header{"Content-Type": {"application/json"}},
	}, nil
}

// newAddressed returns an address with a cluster that admits the token a, a
// client of it, and a function that replaces the token in its kubeconfig. The
// client has learned which cluster it is, if it may know that.
func newAddressed(
	g *WithT, t *testing.T, keeper *gatekeeper, uid string,
) (a *addressed, ask func() error, put func(token string)) {
	a = &addressed{gatekeeper: keeper, uid: uid}
	file := filepath.Join(t.TempDir(), "config")
	put = func(token string) { write(g, file, a.kubeconfig("token: "+token)) }
	put("a")
	config, err := operator.Config(file)
	g.Expect(err).NotTo(HaveOccurred())
	through, err := rest.HTTPWrappersForConfig(config, a)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfigAndClient(config, &http.Client{Transport: through})
	g.Expect(err).NotTo(HaveOccurred())
	ask = func() error { return client.CoreV1().RESTClient().Get().AbsPath("/version").Do(t.Context()).Error() }
	g.Expect(ask()).To(Succeed())
	return a, ask, put
}

// rebuilt replaces the cluster of a by one with that UID, which admits the token
// b, and then the kubeconfig. It returns the first error of a client that is
// asked a minute later.
func rebuilt(a *addressed, uid string, ask func() error, put func(string)) error {
	<-time.After(11 * time.Second)
	_ = ask() // reads the kubeconfig again, and asks which cluster it is
	a.uid = uid
	a.admits("b")
	put("b")
	for range 2 { // a refusal counts only if it lasts
		<-time.After(time.Minute)
		_ = ask()
	}
	return ask()
}

func TestAnotherClusterAtTheSameAddressIsRefused(t *testing.T) {
	keeper := newGatekeeper(t, "a")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a, ask, put := newAddressed(g, t, keeper, "1")
		g.Expect(rebuilt(a, "2", ask, put)).To(Satisfy(apierrors.IsUnauthorized))
		g.Expect(a.seen).NotTo(ContainElement("b"), "no request is sent to the other cluster with its credentials")
		a.uid = "1" // the first cluster is back
		<-time.After(time.Minute)
		_ = ask()
		g.Expect(ask()).To(Succeed())
	})
}

func TestNewCredentialsForTheSameClusterAreUsed(t *testing.T) {
	for name, uids := range map[string][2]string{
		"the same cluster":                 {"1", "1"},
		"nobody may know":                  {"", ""},
		"the new account may not know":     {"1", ""},
		"only the new account may know it": {"", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			keeper := newGatekeeper(t, "a")
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				a, ask, put := newAddressed(g, t, keeper, uids[0])
				g.Expect(rebuilt(a, uids[1], ask, put)).To(Succeed())
				for range 10 {
					<-time.After(time.Minute)
					g.Expect(ask()).To(Succeed())
				}
				g.Expect(len(a.asked)).To(BeNumerically("<=", 3), "the question is not repeated")
			})
		})
	}
}

// The kubeconfig is replaced before the new cluster answers.
func TestCredentialsWaitForTheAnswerWhichClusterItIs(t *testing.T) {
	keeper := newGatekeeper(t, "a")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a, ask, put := newAddressed(g, t, keeper, "1")
		<-time.After(11 * time.Second)
		g.Expect(ask()).To(Succeed())
		a.down = true
		g.Expect(rebuilt(a, "2", ask, put)).NotTo(Succeed())
		a.down = false
		<-time.After(time.Minute)
		g.Expect(ask()).NotTo(Succeed())
		g.Expect(a.seen).NotTo(ContainElement("b"))
	})
}

// An API server that has just started refuses everything until it has loaded its
// roles.
func TestARefusalThatDoesNotLastSaysNothingOfTheCluster(t *testing.T) {
	for name, uids := range map[string][]string{ // of the first cluster, and of the second one; one each ten seconds
		"when the cluster is learned": {"", "1", "2"},
		"when it is compared":         {"1", "", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			keeper := newGatekeeper(t, "a")
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				a, ask, put := newAddressed(g, t, keeper, uids[0])
				for n, uid := range uids {
					if n == len(uids)-1 || uid == "" && n > 0 {
						a.admits("b")
						put("b")
					}
					a.uid = uid
					<-time.After(11 * time.Second)
					_ = ask()
				}
				<-time.After(time.Minute)
				_ = ask()
				g.Expect(ask()).To(Satisfy(apierrors.IsUnauthorized))
				g.Expect(a.seen).NotTo(ContainElement("b"))
			})
		})
	}
}

// An API server that starts, is busy or does not know the credentials yet has
// not said which cluster it is, and a page of a gateway does not say it either.
func TestAnAnswerThatSaysNothingOfTheClusterIsAskedForAgain(t *testing.T) {
	for _, page := range []int{
		http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusOK,
		http.StatusNotFound,
	} {
		t.Run(http.StatusText(page), func(t *testing.T) {
			keeper := newGatekeeper(t, "a")
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				a, ask, put := newAddressed(g, t, keeper, "1")
				a.page = page
				<-time.After(11 * time.Second)
				g.Expect(ask()).To(Succeed())
				a.page = 0
				<-time.After(11 * time.Second)
				g.Expect(ask()).To(Succeed())

				a.page = page
				g.Expect(rebuilt(a, "2", ask, put)).NotTo(Succeed(), "it may be a different cluster")
				a.page = 0
				<-time.After(time.Minute)
				g.Expect(ask()).NotTo(Succeed())
				g.Expect(a.seen).NotTo(ContainElement("b"))
			})
		})
	}
}

// An upgrade takes ten minutes. Its busy server is not asked in each request.
func TestTheClusterOfNewCredentialsIsAskedForRarely(t *testing.T) {
	keeper := newGatekeeper(t, "a")
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		a, ask, put := newAddressed(g, t, keeper, "1")
		<-time.After(11 * time.Second)
		g.Expect(ask()).To(Succeed())
		a.page = http.StatusServiceUnavailable
		a.admits("b")
		put("b")
		before := len(a.asked)
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			<-time.After(time.Second)
			g.Expect(ask()).NotTo(Succeed())
		}
		g.Expect(len(a.asked) - before).To(BeNumerically("~", 60, 3))
		a.page = 0
		<-time.After(10 * time.Second)
		_ = ask()
		g.Expect(ask()).To(Succeed())
	})
}
