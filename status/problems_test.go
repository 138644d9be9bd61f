package status_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
	"github.com/homeostat/homeostat/status"
)

// unwell returns problems of two checks. The second check has more problems
// than it lists.
func unwell() []inspect.Problem {
	return []inspect.Problem{
		{Check: "cluster/west", Cause: "unreachable", Reason: "dialing west: i/o\ntimeout"},
		{Check: "controller/one", Object: "d/a", Cause: "odd", Reason: "a is odd", Remedy: "delete it", More: 2},
		{Check: "cluster/west", Object: hostile, Cause: "unreachable"},
	}
}

func TestAProblemIsNamedAndLeavesTheProcessReady(t *testing.T) {
	g := NewWithT(t)
	one, err := reconcile.New("one", informer.For(fake.NewClientset().CoreV1().ConfigMaps("d"), nil),
		reconcile.Func[*corev1.ConfigMap](
			func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
				return reconcile.Result{}, nil
			}), nil)
	g.Expect(err).NotTo(HaveOccurred())
	handler, err := status.New(&status.Options{Controllers: []*reconcile.Controller{one}, Problems: unwell})
	g.Expect(err).NotTo(HaveOccurred())
	_, body := client{g, handler}.get("/readyz?verbose")
	g.Expect(strings.Split(strings.TrimSpace(body), "\n")).To(HaveExactElements(
		HavePrefix("[-] informer/configmaps: the informer has not synced"),
		Equal("[-] controller/one: the controller is created"),
		Equal("[!] controller/one: d/a: a is odd; delete it (and 2 more)"),
		Equal("[!] cluster/west: dialing west: i/o timeout"),
		Equal("[!] cluster/west: "+hostile+": unreachable"),
		Equal("readyz failed"),
	))

	handler, err = status.New(&status.Options{Problems: unwell})
	g.Expect(err).NotTo(HaveOccurred())
	code, body := client{g, handler}.get("/readyz")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(body).To(HavePrefix("[!] cluster/west: "))
	code, body = client{g, handler}.get("/livez")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("ok\n"))
	_, body = client{g, handler}.get("/debug/homeostat")
	g.Expect(body).To(And(ContainSubstring("ready, but not well: 3 problems"), ContainSubstring("d/a: a is odd; delete it"),
		Not(ContainSubstring(hostile))))
	_, body = client{g, handler}.get("/debug/homeostat?format=json")
	g.Expect(body).To(ContainSubstring(`"mild": true`))
	_, body = client{g, handler}.get("/metrics")
	g.Expect(body).To(And(
		ContainSubstring(`homeostat_problems{cause="unreachable",check="cluster/west"} 2`),
		ContainSubstring(`homeostat_problems{cause="odd",check="controller/one"} 3`)))
}

// A program chooses all of these texts.
func TestAProblemIsOneLineWhateverItSays(t *testing.T) {
	g := NewWithT(t)
	handler, err := status.New(&status.Options{Problems: func() []inspect.Problem {
		return []inspect.Problem{
			{Check: "a\n[+] ping: ok", Cause: "odd", Reason: "b\u2028[-] c\x00\x1b[31mred", Remedy: "\r[+] d"},
			{Check: "\xff", Cause: "\xff", Reason: "\xff"},
			{Check: "\xfe", Cause: "\xfe", More: -5},
		}
	}})
	g.Expect(err).NotTo(HaveOccurred())
	code, body := client{g, handler}.get("/readyz?verbose")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(strings.Split(body, "\n")).To(HaveExactElements(
		"[!] a [+] ping: ok: b [-] c\ufffd\ufffd[31mred; [+] d", "[!] \ufffd: \ufffd", "[!] \ufffd: \ufffd", "ok", ""))
	code, body = client{g, handler}.get("/metrics")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(body).To(And(HavePrefix("# HELP"), ContainSubstring(`homeostat_problems{cause="odd"`),
		ContainSubstring(`homeostat_problems{cause="`+"\ufffd"+`",check="`+"\ufffd"+`"} 2`)))
}
