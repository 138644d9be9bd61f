package status_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/contract"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/status"
)

func TestContract(t *testing.T) {
	contract.Check(t, contract.Tests{
		"Probes do not wait for work: they read what is already known, and give checks that call other " +
			"code half a second.": func(t *testing.T) {
			TestProbesDoNotWaitForChecksThatHang(t)
			TestLivezDoesNotCareWhetherThereIsWork(t)
		},
		"/readyz?verbose names every check.":                TestReadyzVerboseNamesEveryCheck,
		"A failing check is always named, with its reason.": TestReadyzNamesWhatIsNotReadyAndWhy,
		"A standby is ready.":                               testStandby,
		"A controller is not ready if it has not been run, if its caches are incomplete or if the writes of nearly all " +
			"its keys have been refused for a minute.": func(t *testing.T) {
			testNotReady(t)
			TestReadyzNamesTheMissingPermissionAndToleratesTheOutsideSystem(t)
		},
		"A failing sweep is named, and leaves the process ready: Options.Readiness may be " +
			"stricter.": TestReadyzNamesTheMissingPermissionAndToleratesTheOutsideSystem,
		"A problem of one member (an object, a namespace, a cluster) is named with [!], and leaves the process " +
			"ready.": TestAProblemIsNamedAndLeavesTheProcessReady,
		"/debug/homeostat is one HTML document that needs no scripts and no external resources, and refreshes " +
			"itself.": func(t *testing.T) {
			TestThePageNeedsNoExternalResources(t)
			TestThePageRefreshesAsOftenAsRequested(t)
		},
		"Each key on it links to its own page, with its last reconciles: causes, writes, when they were seen, " +
			"outcome.": func(t *testing.T) {
			TestEachKeyLinksToItsOwnPage(t)
			TestThePageOfAKeyShowsItsLastReconcilesAsATimeline(t)
		},
		"?format=json is the same for programs, ?keys=N shows more keys, and ?refresh=SECONDS sets the pace, 0 none.": func(t *testing.T) {
			TestThePageIsServedAsJSONToo(t)
			TestThePageShowsAsManyKeysAsRequested(t)
			TestThePageRefreshesAsOftenAsRequested(t)
		},
		"Only the name, kind and versions of an object are shown.":               TestThePageEscapesWhatItShowsAndShowsNoContents,
		"Errors of reconcilers are cut to their first line.":                     testErrors,
		"Values that the API server quotes from an invalid object are left out.": testErrors,

		"Everything is escaped.":                                          TestThePageEscapesWhatItShowsAndShowsNoContents,
		"Authorize guards everything except the probes.":                  TestAuthorizeGuardsMetricsAndThePageButNotTheProbes,
		"Without it there are no profiles.":                               TestProfilesNeedAuthorize,
		"With Reviewed only a token counts, not the origin of a request.": TestLoopbackAloneIsNoProof,
		"Serve listens on the given address, and nowhere if it is empty.": TestAnEmptyAddressServesNothing,
		"With ReadyWithoutCaches, caches that are not filled are named, and leave the process " +
			"ready.": TestAProcessCanBeReadyWithoutCaches,
		"Informers that no controller here uses are shown and checked like the controllers' " +
			"informers.": TestFurtherInformersAreShownAndChecked,
		"Every request is a GET, or a HEAD, which is answered with the same status.": TestOnlyGetAndHeadAreServed,
	})
}

// standby is a leader election that this replica never wins.
type standby struct{}

func (standby) Run(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return nil
}

// inOne calls f with the status of a process with one controller. f starts the
// controller by run.
func inOne(t *testing.T, o *reconcile.Options, reconciler func() error, f func(c client, run func() (stop func()))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		server := fake.NewClientset(&corev1.ConfigMap{ObjectMeta: object("a")})
		one, made := reconcile.New("one", informer.For(server.CoreV1().ConfigMaps("d"), nil), reconcile.Func[*corev1.ConfigMap](
			func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
				return reconcile.Result{}, reconciler()
			}), o)
		g.Expect(made).NotTo(HaveOccurred())
		handler, made := status.New(&status.Options{Controllers: []*reconcile.Controller{one}})
		g.Expect(made).NotTo(HaveOccurred())
		f(client{g, handler}, func() func() {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- one.Run(ctx) }()
			<-time.After(time.Millisecond)
			synctest.Wait()
			return func() {
				cancel()
				g.Expect(<-ended).To(Succeed())
			}
		})
	})
}

func succeeds() error { return nil }

func testStandby(t *testing.T) {
	inOne(t, &reconcile.Options{Leader: standby{}}, succeeds, func(c client, run func() (stop func())) {
		defer run()()
		code, body := c.get("/readyz?verbose")
		c.Expect(code).To(Equal(http.StatusOK))
		c.Expect(body).To(ContainSubstring("[+] controller/one: ok, standby"))
		_, body = c.get("/debug/homeostat")
		c.Expect(text(body)).To(ContainSubstring("d/a | waits until this replica leads | 1 |"))
		_, body = c.get("/debug/homeostat?controller=one&key=d/a")
		c.Expect(text(body)).To(ContainSubstring("Now waits until this replica leads"))
	})
}

// deposed is a leader election that cannot reach its Lease.
type deposed struct{ standby }

func (deposed) String() string { return "this replica does not know who leads" }
func (deposed) Ready() error   { return errors.New("reading lease \"d/one\": no route to host") }
func (deposed) Healthy() error { return nil }

// The page of a replica that /readyz calls unready must not call it ready.
func TestThePageShowsTheChecksOfReadyz(t *testing.T) {
	o := &reconcile.Options{Leader: deposed{}}
	inOne(t, o, succeeds, func(c client, run func() (stop func())) {
		defer run()()
		_, body := c.get("/readyz")
		c.Expect(body).To(Equal("[-] leader/one: reading lease \"d/one\": no route to host\nreadyz failed\n"))
		_, body = c.get("/debug/homeostat")
		c.Expect(text(body)).To(ContainSubstring("Homeostat not ready"))
		c.Expect(text(body)).To(ContainSubstring("leader/one reading lease \"d/one\": no route to host"))
		_, body = c.get("/debug/homeostat?format=json")
		c.Expect(body).To(ContainSubstring(`"check": "leader/one"`))
	})
}

func testNotReady(t *testing.T) {
	TestReadyzNamesWhatIsNotReadyAndWhy(t) // caches and sweep
	inOne(t, nil, succeeds, func(c client, run func() (stop func())) {
		code, body := c.get("/readyz")
		c.Expect(code).To(Equal(http.StatusServiceUnavailable))
		c.Expect(body).To(ContainSubstring("[-] controller/one: the controller is created"))
		defer run()()
		code, _ = c.get("/readyz")
		c.Expect(code).To(Equal(http.StatusOK))
	})
}

func testErrors(t *testing.T) {
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "token", field.ErrorList{
		field.Invalid(field.NewPath("data", "key"), secret, "not like this"),
	})
	fails := func(err error) func() error { return func() error { return err } }
	for text, f := range map[string]func() error{
		"the first line":                      fails(errors.New("the first line\n" + secret)),
		`Secret "token" is invalid: data.key`: fails(invalid),
		`both: Secret "token" is invalid: data.key, Secret "token" is invalid: data.key`: fails(
			fmt.Errorf("both: %w, %w", invalid, invalid)),
		`patching: Secret "token" is invalid: data.key: Invalid value (not shown)`: fails(
			fmt.Errorf("patching: %v", invalid)), //nolint:errorlint // as users do
		`panic: Secret "token" is invalid: data.key: Invalid value (not shown)`: func() error { panic(invalid) },
	} {
		inOne(t, nil, f, func(c client, run func() (stop func())) {
			defer run()()
			for _, target := range []string{"", "?format=json", "?controller=one&key=d/a", "?controller=one&key=d/a&format=json"} {
				_, body := c.get("/debug/homeostat" + target)
				c.Expect(body).NotTo(ContainSubstring(secret), target)
				if target == "" || target == "?controller=one&key=d/a" {
					c.Expect(html.UnescapeString(body)).To(ContainSubstring(text), target)
				}
			}
		})
	}
}
