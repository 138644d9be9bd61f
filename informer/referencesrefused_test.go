package informer_test

import (
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/informer"
)

// inOutage holds Secret d/a, whose watch has worked for a minute. The function
// that is given to set then answers all requests, unless it is nil.
func inOutage(t *testing.T, o *informer.Options, f func(w *referenceWorld, set func(transportFunc))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newReferenceWorld(t, nil)
		w.Expect(w.stop()).To(Succeed())
		var next atomic.Pointer[transportFunc]
		config := w.server.Config("operator")
		config.Wrap(func(server http.RoundTripper) http.RoundTripper {
			return transportFunc(func(r *http.Request) (*http.Response, error) {
				if answer := next.Load(); answer != nil {
					return (*answer)(r)
				}
				return server.RoundTrip(r)
			})
		})
		client, err := kubernetes.NewForConfig(config)
		w.Expect(err).NotTo(HaveOccurred())
		w.secrets = informer.Referenced(client.CoreV1().Secrets, o)
		w.run()
		w.create("a", "1")
		w.hold("a")
		lapse(time.Minute)
		w.Expect(w.value("a")).To(Equal("1"))
		f(w, func(answer transportFunc) {
			next.Store(&answer)
			if answer == nil {
				next.Store(nil)
			}
		})
		w.Expect(w.stop()).To(Succeed())
		w.Expect(w.secrets.Status().UnauthorizedSince).To(BeZero(), "it does not run")
	})
}

func TestAReferenceThatTheServerAnswersWith401SaysSinceWhen(t *testing.T) {
	for name, o := range map[string]*informer.Options{
		"a watch of the name": nil, "a watch of the namespace": {WatchNamespaceAbove: 1},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, o, func(w *referenceWorld, set func(transportFunc)) {
				since := func() time.Time { return w.secrets.Status().UnauthorizedSince }
				w.create("b", "1")
				w.create("c", "1")
				w.hold("b", "c")
				lapse(time.Minute)
				w.Expect(since()).To(BeZero())
				for _, cause := range slices.Sorted(maps.Keys(outages)) {
					if cause != "Unauthorized" {
						set(outages[cause])
						w.server.DropWatches("operator", "secrets")
						lapse(10 * time.Minute)
						w.Expect(since()).To(BeZero(), cause)
					}
				}
				began := time.Now()
				set(outages["Unauthorized"])
				w.server.DropWatches("operator", "secrets")
				lapse(20 * time.Minute)
				w.Expect(since()).To(BeTemporally("~", began, 6*time.Minute))
				w.Expect(w.secrets.Status().Problems[0].Cause).To(Equal("Unauthorized"))
				set(silent)
				lapse(20 * time.Minute)
				w.Expect(since()).To(BeZero(), "the last request has had no answer")
				began = time.Now()
				set(outages["Unauthorized"])
				lapse(20 * time.Minute)
				w.hold("later")
				lapse(10 * time.Minute)
				w.Expect(since()).To(BeTemporally("~", began, 6*time.Minute))
				set(nil)
				lapse(10 * time.Minute)
				w.Expect(since()).To(BeZero(), "it heals")
			})
		})
	}
}

// The server may never have accepted the credentials for this object. A restart
// would not help.
func TestA401BeforeAReferenceIsKnownIsNoEndOfCredentials(t *testing.T) {
	inOutage(t, nil, func(w *referenceWorld, set func(transportFunc)) {
		set(outages["Unauthorized"])
		w.hold("later")
		lapse(2 * time.Minute) // the watch of a is open for at least five minutes
		w.Expect(w.secrets.Status().Problems).To(ContainElement(HaveField("Cause", "Unauthorized")))
		w.Expect(w.secrets.Status().UnauthorizedSince).To(BeZero())
	})
}
