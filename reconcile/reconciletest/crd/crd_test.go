package crd_test

import (
	"testing"
	"testing/fstest"

	"github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/crd"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.web.example.com}
spec:
  group: web.example.com
  scope: Namespaced
  names: {plural: sites, singular: site, kind: Site, shortNames: [st]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [host]
            x-kubernetes-validations:
            - {rule: "self.max >= self.min", message: "max is below min"}
            properties:
              host:
                type: string
                pattern: "^[a-z.]+$"
                x-kubernetes-validations: [{rule: "self == oldSelf", message: "host cannot change"}]
              min: {type: integer, default: 1}
              max: {type: integer, default: 3, maximum: 10}
              names: {type: array, x-kubernetes-list-type: set, items: {type: string}}
          status:
            type: object
            properties:
              ready: {type: integer}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
`

var sites = schema.GroupVersionResource{Group: "web.example.com", Version: "v1", Resource: "sites"}

// fixture is a simulated server with the definition.
type fixture struct {
	*gomega.WithT
	t     *testing.T
	sim   *apisim.Server
	sites dynamic.ResourceInterface
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{WithT: gomega.NewWithT(t), t: t}
	found, err := crd.Read(fstest.MapFS{"bases/sites.yaml": {Data: []byte(definition)}, "README.md": {Data: []byte("x")}})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(found).To(gomega.HaveLen(1))
	f.sim, err = apisim.New(&apisim.Options{Resources: found.Parts()})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.sites = dynamic.NewForConfigOrDie(f.sim.Admin()).Resource(sites).Namespace("d")
	return f
}

func (f *fixture) create(name string, spec map[string]any, o metav1.CreateOptions) (*unstructured.Unstructured, error) {
	f.t.Helper()
	return f.sites.Create(f.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": name}, "spec": spec,
	}}, o)
}

func (f *fixture) patch(patch string, subresources ...string) (*unstructured.Unstructured, error) {
	f.t.Helper()
	return f.sites.Patch(f.t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
}

func TestUnknownFieldsArePrunedAndDefaultsSet(t *testing.T) {
	f := newFixture(t)
	got, err := f.create("a", map[string]any{"host": "a.b", "unknown": int64(1)}, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(got.Object["spec"]).To(gomega.Equal(map[string]any{"host": "a.b", "min": int64(1), "max": int64(3)}))
	got, err = f.patch(`{"spec":{"max":null,"unknown":2}}`)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(got.Object["spec"]).To(gomega.Equal(map[string]any{"host": "a.b", "min": int64(1), "max": int64(3)}))
	f.Expect(got.GetGeneration()).To(gomega.BeEquivalentTo(1), "nothing has changed")
}

func TestObjectsOfACaseHaveTheirDefaults(t *testing.T) {
	f := newFixture(t)
	f.Expect(f.sim.Load(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"namespace": "d", "name": "a"},
		"spec": map[string]any{"host": "a.b"}, "status": map[string]any{"ready": int64(2)},
	}})).To(gomega.Succeed())
	got, err := f.sites.Get(f.t.Context(), "a", metav1.GetOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(got.Object["spec"]).To(gomega.Equal(map[string]any{"host": "a.b", "min": int64(1), "max": int64(3)}))
	f.Expect(got.Object["status"]).To(gomega.Equal(map[string]any{"ready": int64(2)}))
}

func TestStrictFieldValidationNamesUnknownFields(t *testing.T) {
	f := newFixture(t)
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	_, err := f.create("a", map[string]any{"host": "a.b", "unknown": int64(1)}, strict)
	f.Expect(err).To(gomega.MatchError(gomega.ContainSubstring(`unknown field "spec.unknown"`)))
	_, err = f.create("a", map[string]any{"host": "a.b"}, strict)
	f.Expect(err).NotTo(gomega.HaveOccurred())
}

func TestValuesAreValidated(t *testing.T) {
	f := newFixture(t)
	for _, spec := range []map[string]any{
		{},
		{"host": "A"},
		{"host": int64(1)},
		{"host": "a", "max": int64(11)},
		{"host": "a", "names": []any{"x", "x"}},
	} {
		_, err := f.create("a", spec, metav1.CreateOptions{})
		f.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v: %v", spec, err)
	}
}

func TestRulesAreHeld(t *testing.T) {
	f := newFixture(t)
	_, err := f.create("a", map[string]any{"host": "a", "min": int64(4)}, metav1.CreateOptions{})
	f.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("max is below min")))
	_, err = f.create("a", map[string]any{"host": "a"}, metav1.CreateOptions{})
	f.Expect(err).NotTo(gomega.HaveOccurred())
	_, err = f.patch(`{"spec":{"host":"b"}}`)
	f.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("host cannot change")))
	_, err = f.patch(`{"status":{"ready":"x"}}`, "status")
	f.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v", err)
	got, err := f.patch(`{"status":{"ready":2,"unknown":1}}`, "status")
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(got.Object["status"]).To(gomega.Equal(map[string]any{"ready": int64(2)}))
}

func TestDiscoveryKnowsItsShortName(t *testing.T) {
	f := newFixture(t)
	list, err := discovery.NewDiscoveryClientForConfigOrDie(f.sim.Admin()).ServerResourcesForGroupVersion("web.example.com/v1")
	f.Expect(err).NotTo(gomega.HaveOccurred())
	f.Expect(list.APIResources[0]).To(gomega.And(gomega.HaveField("ShortNames", gomega.ConsistOf("st")),
		gomega.HaveField("SingularName", "site")))
}

func TestAFolderWithoutDefinitionsIsAnError(t *testing.T) {
	g := gomega.NewWithT(t)
	_, err := crd.Read(fstest.MapFS{})
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("no CustomResourceDefinition")))
	_, err = crd.Parse([]byte("kind: CustomResourceDefinition\nmetadata: {name: x}\n"))
	g.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("no version is the storage version")))
}

func TestACaseTakesDefinitions(t *testing.T) {
	g := gomega.NewWithT(t)
	found, err := crd.Parse([]byte(definition))
	g.Expect(err).NotTo(gomega.HaveOccurred())
	report := reconciletest.Search(t, &reconciletest.Case{
		Definitions: found,
		Run: func(env *reconciletest.Env) error {
			client := dynamic.NewForConfigOrDie(env.Config()).Resource(sites).Namespace("default")
			_, err := client.Create(env.Context(), &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "web.example.com/v1", "kind": "Site", "metadata": map[string]any{"name": "a"},
				"spec": map[string]any{"host": "NO"},
			}}, metav1.CreateOptions{})
			if !apierrors.IsInvalid(err) && env.Context().Err() == nil {
				t.Errorf("an invalid Site: %v", err)
			}
			<-env.Context().Done()
			return nil
		},
	}, &reconciletest.Options{Budget: 1})
	g.Expect(report).NotTo(gomega.BeNil())
}
