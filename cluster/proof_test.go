package cluster_test

import (
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/internal/absent/absenttest"
	"github.com/homeostat/homeostat/internal/apisim"
)

// A page with status 404, for one version or for the whole discovery, is not
// remembered as a missing kind.
func TestAPageIsNoMissingKind(t *testing.T) {
	sim, err := apisim.New(nil)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, page := range absenttest.Pages(schema.GroupResource{}, "v1") {
		for _, whole := range []bool{false, true} {
			t.Run(page.Name, func(t *testing.T) {
				g, faulty := NewWithT(t), true
				config := absenttest.Intercept(sim.Config("controller"), func(req *http.Request) *absenttest.Page {
					if faulty && (whole || req.URL.Path == "/apis/apps/v1" || req.URL.Path == "/api/v1") {
						return &page
					}
					return nil
				})
				c, apps, core := kinds(g, config)
				for _, err := range []error{apps.Check(t.Context()), core.Check(t.Context()), c.Check(t.Context())} {
					g.Expect(err).To(HaveOccurred())
					g.Expect(err).NotTo(MatchError(cluster.ErrKind))
				}
				faulty = false
				for _, err := range []error{c.Check(t.Context()), apps.Check(t.Context()), core.Check(t.Context())} {
					g.Expect(err).NotTo(HaveOccurred())
				}
			})
		}
	}
}

// A portal that answers all requests with status 200 is not an API server
// without the kind.
func TestAPageWithStatus200IsNoMissingKind(t *testing.T) {
	const failure = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound"`
	for _, body := range []string{
		`{"message":"log in"}`, `<html>log in</html>`, `{"kind":"APIVersions","versions":["v1"]}`,
		failure + `,"code":404}`, failure + `,"details":{"group":"apps","kind":"deployments","name":"v1"},"code":404}`,
	} {
		g := NewWithT(t)
		page := absenttest.Page{ContentType: "application/json", Body: body, Status: http.StatusOK}
		c, apps, core := kinds(g, page.Config())
		for _, err := range []error{apps.Check(t.Context()), core.Check(t.Context()), c.Check(t.Context())} {
			g.Expect(err).To(MatchError(ContainSubstring("reading /api")))
			g.Expect(err).NotTo(MatchError(cluster.ErrKind))
		}
	}
}

// A list of what another group version has, and one that does not say of which
// group version it is, say nothing about the kind.
func TestAListOfAnotherVersionIsNoMissingKind(t *testing.T) {
	for _, body := range []string{
		`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[]}`,
		`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":[{"name":"x","kind":"X"}]}`,
		`{"kind":"APIResourceList","apiVersion":"v1","resources":[]}`,
	} {
		g := NewWithT(t)
		page := absenttest.Page{ContentType: "application/json", Body: body, Status: http.StatusOK}
		c, apps, core := kinds(g, page.Config())
		for _, err := range []error{apps.Check(t.Context()), core.Check(t.Context()), c.Check(t.Context())} {
			g.Expect(err).To(MatchError(ContainSubstring("reading /api")))
			g.Expect(err).NotTo(MatchError(cluster.ErrKind))
		}
	}
}

// An aggregated API whose own server does not answer may serve the kind.
func TestASilentGroupIsNoMissingKind(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{Silent: schema.GroupVersion{Group: "silent.example.com", Version: "v1"}})
	g.Expect(err).NotTo(HaveOccurred())
	c, err := cluster.New(sim.Config("controller"), nil)
	g.Expect(err).NotTo(HaveOccurred())
	for version, missing := range map[string]bool{"v1": false, "v9": true} {
		kind, err := cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c,
			schema.GroupVersionResource{Group: "silent.example.com", Version: version, Resource: "deployments"},
			func(s *runtime.Scheme) error {
				gv := schema.GroupVersion{Group: "silent.example.com", Version: version}
				s.AddKnownTypeWithName(gv.WithKind("Deployment"), &appsv1.Deployment{})
				s.AddKnownTypeWithName(gv.WithKind("DeploymentList"), &appsv1.DeploymentList{})
				return nil
			})
		g.Expect(err).NotTo(HaveOccurred())
		err = kind.Check(t.Context())
		g.Expect(err).To(HaveOccurred())
		g.Expect(errors.Is(err, cluster.ErrKind)).To(Equal(missing), "%v", err)
	}
}

// kinds returns a kind of a group and a kind of the core group.
func kinds(g *WithT, config *rest.Config) (
	*cluster.Cluster, *kindOfDeployments, *cluster.Kind[*corev1.Pod, *corev1.PodList],
) {
	c, err := cluster.New(config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	apps, err := cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, appsv1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	core, err := cluster.NewKind[*corev1.Pod, *corev1.PodList](c, corev1.SchemeGroupVersion.WithResource("pods"),
		corev1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	return c, apps, core
}
