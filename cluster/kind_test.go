package cluster_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

var ofDeployments = appsv1.SchemeGroupVersion.WithResource("deployments")

type (
	kindOfDeployments = cluster.Kind[*appsv1.Deployment, *appsv1.DeploymentList]
	deploymentClient  = cluster.KindClient[*appsv1.Deployment, *appsv1.DeploymentList]
)

func newKind(g *WithT, config *rest.Config) *kindOfDeployments {
	c, err := cluster.New(config, nil)
	g.Expect(err).NotTo(HaveOccurred())
	k, err := cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, appsv1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	return k
}

func TestAKindReadsAndWritesWithoutGeneratedCode(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	k := newKind(g, sim.Admin())
	replicas := int32(1)
	_, err = k.In("d").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	all, err := k.In("").List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(HaveExactElements(HaveField("ObjectMeta.Namespace", "d")))
	got, err := k.In("d").Get(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.TypeMeta).To(Equal(metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}), "for Events about it")
	found := &all.Items[0]
	found, err = patch.Status(t.Context(), k.In, found, nil, func(d *appsv1.Deployment) {
		d.Status.ReadyReplicas = 1
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.Status.ReadyReplicas).To(BeEquivalentTo(1))

	scale, err := k.In("d").GetScale(t.Context(), "a", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(scale.Spec.Replicas).To(BeEquivalentTo(1))
	scale.Spec.Replicas = 3
	_, err = k.In("d").UpdateScale(t.Context(), "a", scale, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(k.In("d").Get(t.Context(), "a", metav1.GetOptions{})).To(HaveField("Spec.Replicas", HaveValue(BeEquivalentTo(3))))

	g.Expect(k.In("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	_, err = k.In("d").Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	g.Expect(err).To(MatchError(ContainSubstring("not found")))
}

func TestAKindAppliesServerSide(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	k := newKind(g, sim.Admin())
	config := applyappsv1.Deployment("a", "d").WithSpec(applyappsv1.DeploymentSpec().WithReplicas(2).
		WithSelector(applymetav1.LabelSelector().WithMatchLabels(map[string]string{"a": "b"})).
		WithTemplate(applycorev1.PodTemplateSpec().WithLabels(map[string]string{"a": "b"}).
			WithSpec(applycorev1.PodSpec().WithContainers(applycorev1.Container().WithName("c").WithImage("i")))))
	made, err := k.In("d").Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "me", Force: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(made.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	status := applyappsv1.Deployment("a", "d").WithStatus(applyappsv1.DeploymentStatus().WithReadyReplicas(1))
	got, err := k.In("d").ApplyStatus(t.Context(), status, metav1.ApplyOptions{FieldManager: "me", Force: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Status.ReadyReplicas).To(BeEquivalentTo(1))
	got, err = patch.NewApplier(k.In).Apply(t.Context(), got, &patch.Options{FieldManager: "me"},
		config.WithLabels(map[string]string{"a": "b"}))
	g.Expect(err).NotTo(HaveOccurred(), "an Applier takes the clients of a kind")
	g.Expect(got.Labels).To(HaveKeyWithValue("a", "b"))
}

// Informers accept the clients of a kind.
var _ = func(k *kindOfDeployments) *informer.Informer[*appsv1.Deployment] {
	return informer.ForNamespaces[*deploymentClient](k.In, nil)
}

func TestAKindNamesWhatIsWrongWithItsTypes(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, schema.GroupVersionResource{}, appsv1.AddToScheme)
	g.Expect(err).To(MatchError(ContainSubstring("a resource needs a name and a version")))
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, corev1.AddToScheme)
	g.Expect(err).To(MatchError(And(ContainSubstring(
		"creating clients for deployments.apps: type *v1.Deployment is not registered"))))
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c,
		ofDeployments.GroupResource().WithVersion("v2"), appsv1.AddToScheme)
	g.Expect(err).To(MatchError(ContainSubstring("none of which is in apps/v2")))
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.ReplicaSetList](c, ofDeployments, appsv1.AddToScheme)
	g.Expect(err).To(MatchError(ContainSubstring("is registered as kind ReplicaSetList, but must be registered as DeploymentList")))
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments,
		func(*runtime.Scheme) error { return http.ErrAbortHandler })
	g.Expect(err).To(MatchError(http.ErrAbortHandler))
	for _, kind := range []string{"ListOptions", "DeleteOptions", "WatchEvent"} {
		for _, early := range []bool{true, false} { // AddToScheme of many packages adds the others itself
			_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, func(s *runtime.Scheme) error {
				if early {
					metav1.AddToGroupVersion(s, ofDeployments.GroupVersion())
				}
				s.AddKnownTypeWithName(ofDeployments.GroupVersion().WithKind(kind), &appsv1.Deployment{})
				s.AddKnownTypeWithName(ofDeployments.GroupVersion().WithKind(kind+"List"), &appsv1.DeploymentList{})
				return nil
			})
			g.Expect(err).To(MatchError(And(ContainSubstring("give the kind another name"), ContainSubstring("Kind="+kind))))
		}
	}
}

func TestAKindNeedsAClusterAndTypes(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "https://h"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](nil, ofDeployments, appsv1.AddToScheme)
	g.Expect(err).To(MatchError("creating clients for deployments.apps: " +
		"the cluster is nil: check the error that cluster.New returned"))
	_, err = cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, nil)
	g.Expect(err).To(MatchError("creating clients for deployments.apps: register is nil: " +
		"pass the AddToScheme of the types' package"))
}

// discovers returns the config of a server that only knows the resources of
// apps/v1.
func discovers(t *testing.T, resources ...metav1.APIResource) *rest.Config {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/apps/v1":
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[
				{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`))
			return
		default:
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(&metav1.APIResourceList{
			TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
			GroupVersion: "apps/v1", APIResources: resources,
		})
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestCheckNamesWhatTheServerHasInstead(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(discovers(t, metav1.APIResource{Name: "deployments", Kind: "Deployment", Namespaced: true}), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Check(t.Context())).To(Succeed(), "no kinds")
	right := newKind(g, c.Config())
	g.Expect(right.Check(t.Context())).To(Succeed())

	other := newKind(g, discovers(t, metav1.APIResource{Name: "deploys", Kind: "Deployment", Namespaced: true}))
	g.Expect(other.Check(t.Context())).To(MatchError(
		`checking that the server has deployments.apps: the server has no such kind: kind Deployment is served as "deploys"`))
	other = newKind(g, discovers(t, metav1.APIResource{Name: "deployments", Kind: "Rollout", Namespaced: true}))
	g.Expect(other.Check(t.Context())).To(MatchError(ContainSubstring(
		"the resource has kind Rollout on the server, but Deployment in Go")))
	other = newKind(g, discovers(t))
	g.Expect(other.Check(t.Context())).To(And(MatchError(cluster.ErrKind), MatchError(
		ContainSubstring("apps/v1 has neither the resource nor kind Deployment"))))
	_, err = cluster.NewKind[*batchv1.Job, *batchv1.JobList](c, batchv1.SchemeGroupVersion.WithResource("jobs"), batchv1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Check(t.Context())).To(MatchError(ContainSubstring(
		"checking that the server has jobs.batch: the server has no such kind: nothing is served as batch/v1: install its")), "checks every kind of the cluster")
}

// With a wrong scope, Owned would look for owners in the namespaces of their
// children.
func TestCheckNamesAWrongScope(t *testing.T) {
	g := NewWithT(t)
	wide := discovers(t, metav1.APIResource{Name: "deployments", Kind: "Deployment"})
	err := newKind(g, wide).Check(t.Context())
	g.Expect(err).To(And(MatchError(cluster.ErrKind), MatchError(ContainSubstring("call cluster.Kind.ClusterScoped"))))
	g.Expect(newKind(g, wide).ClusterScoped().Check(t.Context())).To(Succeed())
	narrow := discovers(t, metav1.APIResource{Name: "deployments", Kind: "Deployment", Namespaced: true})
	err = newKind(g, narrow).ClusterScoped().Check(t.Context())
	g.Expect(err).To(And(MatchError(cluster.ErrKind), MatchError(ContainSubstring("do not call cluster.Kind.ClusterScoped"))))
}

func TestInformersKnowTheScopeOfAKind(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "https://h"}
	for _, in := range []*informer.Informer[*appsv1.Deployment]{
		informer.ForNamespaces(newKind(g, config).ClusterScoped().In, nil), informer.For(newKind(g, config).ClusterScoped().In(""), nil),
	} {
		g.Expect(in.Parts().Validate()).To(Succeed())
		g.Expect(in.Parts().Mapping()).To(HaveField("Scope", meta.RESTScopeRoot))
		g.Expect(in.Parts().InScope(types.NamespacedName{Name: "a"})).To(BeTrue())
	}
	g.Expect(informer.For(newKind(g, config).In(""), nil).Parts().Mapping()).To(HaveField("Scope", meta.RESTScopeNamespace))
}

func TestAnInformerRefusesAScopeThatContradictsTheKind(t *testing.T) {
	g := NewWithT(t)
	config := &rest.Config{Host: "https://h"}
	for why, in := range map[string]*informer.Informer[*appsv1.Deployment]{
		`Options.Scope is "root": the client says "namespace"`: informer.For(newKind(g, config).In(""),
			&informer.Options{Scope: meta.RESTScopeNameRoot}),
		`Options.Scope is "namespace": the client says "root"`: informer.For(newKind(g, config).ClusterScoped().In(""),
			&informer.Options{Scope: meta.RESTScopeNameNamespace}),
		`Options.Namespaces is [a]: must be empty`: informer.ForNamespaces(newKind(g, config).ClusterScoped().In,
			&informer.Options{Namespaces: []string{"a"}}),
		`Options.Namespaces is [b]: must be empty`: informer.For(newKind(g, config).ClusterScoped().In("b"), nil),
	} {
		g.Expect(in.Parts().Validate()).To(MatchError(ContainSubstring(why)))
	}
}

func TestAKindThatIsCheckedByItselfMayBeMissing(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(discovers(t), nil)
	g.Expect(err).NotTo(HaveOccurred())
	k, err := cluster.NewKind[*appsv1.Deployment, *appsv1.DeploymentList](c, ofDeployments, appsv1.AddToScheme)
	g.Expect(err).NotTo(HaveOccurred())
	for range 2 {
		g.Expect(c.Check(t.Context())).To(MatchError(cluster.ErrKind), "it is needed")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(k.Check(ended)).To(MatchError(context.Canceled))
	g.Expect(c.Check(t.Context())).To(MatchError(cluster.ErrKind), "there was no answer")
	g.Expect(k.Check(t.Context())).To(MatchError(cluster.ErrKind))
	g.Expect(c.Check(t.Context())).To(Succeed())
	g.Expect(k.Check(t.Context())).To(MatchError(cluster.ErrKind))
}

func TestTheClientOfBuiltInKindsSpeaksProtobuf(t *testing.T) {
	g := NewWithT(t)
	var accepted, sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted, sent = r.Header.Get("Accept"), r.Header.Get("Content-Type")
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer server.Close()
	create := func(config *rest.Config) {
		c, err := cluster.New(config, nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Client()).To(BeIdenticalTo(c.Client()))
		_, err = c.Client().CoreV1().Pods("d").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
		g.Expect(err).To(HaveOccurred())
	}
	create(&rest.Config{Host: server.URL})
	g.Expect(sent).To(Equal(runtime.ContentTypeProtobuf))
	g.Expect(accepted).To(HavePrefix(runtime.ContentTypeProtobuf + ","))
	create(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}})
	g.Expect(sent).To(Equal(runtime.ContentTypeJSON))
}

func TestClientsOfAThrottledConfigCannotFail(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1", QPS: 5}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Client()).NotTo(BeNil())
	g.Expect(c.Dynamic()).NotTo(BeNil())
	g.Expect(c.Metadata()).NotTo(BeNil())
	_, err = cluster.New(&rest.Config{Host: "http://127.0.0.1:1", QPS: 5, Burst: -1}, nil)
	g.Expect(err).To(MatchError(ContainSubstring("rest.Config.Burst is -1: must not be negative")))
}
