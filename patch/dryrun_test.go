package patch_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// frozen makes every request a dry run. A server reads the options of a
// deletion from its body.
type frozen struct{ next http.RoundTripper }

func (f frozen) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	req.URL.RawQuery = query.Encode()
	if req.Method == http.MethodDelete {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		body = bytes.Replace(body, []byte(`{"kind"`), []byte(`{"dryRun":["All"],"kind"`), 1)
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return f.next.RoundTrip(req)
}

// deletions tries to delete an object of each kind of answer, and returns the
// errors and whether the objects live on.
func deletions(t *testing.T, admin, client kubernetes.Interface) (errs map[string]error, alive map[string]bool) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	errs, alive = map[string]error{}, map[string]bool{}

	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "x"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	service, err := admin.CoreV1().Services("d").Create(ctx, service, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	errs["a kind whose answer is the object"] = patch.Delete(ctx, client.CoreV1().Services, service, nil)
	_, err = admin.CoreV1().Services("d").Get(ctx, "x", metav1.GetOptions{})
	alive["a kind whose answer is the object"] = err == nil

	for name, finalizers := range map[string][]string{"a finalizer": {mine}, "none": nil} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", GenerateName: "x", Finalizers: finalizers}}
		object, err := admin.CoreV1().ConfigMaps("d").Create(ctx, object, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		errs[name] = patch.Delete(ctx, client.CoreV1().ConfigMaps, object, nil)
		got, err := admin.CoreV1().ConfigMaps("d").Get(ctx, object.Name, metav1.GetOptions{})
		alive[name] = err == nil && got.DeletionTimestamp == nil
	}
	return errs, alive
}

// A gateway may make all writes dry runs, for example during a freeze of
// changes. The answer to the dry run of a deletion is the API server's own, and
// differs from the answer to a deletion only in the resourceVersion of the
// object, if it contains the object.
func TestADryRunOfADeletionIsNoDeletion(t *testing.T) {
	for name, witnessed := range map[string]bool{"client of package cluster": true, "client of client-go": false} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			sim, err := apisim.New(nil)
			g.Expect(err).NotTo(HaveOccurred())
			config := sim.Config("controller")
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { return frozen{next} })
			client := kubernetes.Interface(kubernetes.NewForConfigOrDie(config))
			if witnessed {
				c, err := cluster.New(config, nil)
				g.Expect(err).NotTo(HaveOccurred())
				client = c.Client()
			}
			errs, alive := deletions(t, kubernetes.NewForConfigOrDie(sim.Admin()), client)
			g.Expect(alive).To(HaveEach(true))
			for object, err := range errs {
				if witnessed && object == "none" { // the answer is a Status, and nothing in it tells a dry run
					g.Expect(err).NotTo(HaveOccurred())
					continue
				}
				g.Expect(err).To(MatchError(ContainSubstring("the object still exists, although")), object)
			}
		})
	}
}

// A server ignores the query of a deletion that has a body, and Delete always
// sends one.
func TestAQueryMakesNoDeletionADryRun(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	admin := kubernetes.NewForConfigOrDie(sim.Admin())
	config := sim.Config("controller")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return queried{next} })
	errs, alive := deletions(t, admin, kubernetes.NewForConfigOrDie(config))
	g.Expect(errs).To(HaveEach(BeNil()))
	g.Expect(alive).To(HaveEach(false))
}

// queried adds dryRun=All to the query of every request.
type queried struct{ next http.RoundTripper }

func (q queried) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.RawQuery = "dryRun=All"
	return q.next.RoundTrip(req)
}
