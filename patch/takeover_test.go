package patch_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
)

// taking applies and patches, and answers a patch of the managed fields with
// the object that has them.
type taking struct {
	applying
	cached *corev1.Node
	bodies []string
}

func (s *taking) Patch(
	_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string,
) (*corev1.Node, error) {
	s.bodies = append(s.bodies, string(data))
	var ops []struct {
		Path  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(data, &ops); err != nil {
		return nil, err
	}
	out := s.cached.DeepCopy()
	for _, op := range ops {
		if op.Path == "/metadata/managedFields" {
			out.ManagedFields = nil
			if err := json.Unmarshal(op.Value, &out.ManagedFields); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestAnApplierTakesOverOnceWhatManagersHaveUpdated(t *testing.T) {
	const update, apply = metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	g := NewWithT(t)
	cached := applied(5, "doorman", `{"f:metadata":{"f:labels":{"f:zone":{}}}}`)
	cached.ManagedFields[0].APIVersion, cached.ManagedFields[0].FieldsType = "v1", "FieldsV1"
	cached.ManagedFields = append(cached.ManagedFields,
		entry("doorman", update, `{"f:metadata":{"f:labels":{"f:old":{}},"f:finalizers":{".":{},"v:\"x\"":{}},`+
			`"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`),
		entry("manager", update, `{"f:spec":{"f:unschedulable":{}}}`),
		entry("stranger", update, `{"f:spec":{"f:taints":{}}}`),
	)
	others := []metav1.ManagedFieldsEntry{
		entry("manager", apply, `{"f:spec":{"f:podCIDR":{}}}`), entry("manager", update, `{"f:spec":{"f:renamed":{}}}`),
		entry("manager", update, `{"f:status":{"f:phase":{}}}`),
	}
	others[1].APIVersion, others[2].Subresource = "v1beta1", "status"
	cached.ManagedFields = append(cached.ManagedFields, others...)
	server := &taking{cached: cached}
	a := patch.NewApplier(always(server))
	o := &patch.Options{FieldManager: "doorman", TakeOver: []string{"doorman", "manager"}}
	_, err := a.Apply(t.Context(), cached, o, zoned("a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.asked).To(HaveLen(1))
	g.Expect(server.bodies).To(HaveLen(1))
	g.Expect(server.bodies[0]).To(ContainSubstring(`{"op":"add","path":"/metadata/resourceVersion","value":"5"}`))
	after, err := server.Patch(t.Context(), "n1", types.JSONPatchType, []byte(server.bodies[0]), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after.ManagedFields).To(ContainElements(others), "applied, of a different version, of a subresource")
	got := map[string]string{}
	for _, e := range after.ManagedFields {
		if e.Manager != "manager" {
			got[e.Manager+" "+string(e.Operation)] = e.FieldsV1.GetRawString()
		}
	}
	g.Expect(after.ManagedFields).To(HaveLen(3 + len(others)))
	g.Expect(got["stranger Update"]).To(MatchJSON(`{"f:spec":{"f:taints":{}}}`))
	g.Expect(got["doorman Update"]).To(MatchJSON(
		`{"f:metadata":{"f:finalizers":{".":{},"v:\"x\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}`))
	g.Expect(got["doorman "+string(apply)]).To(MatchJSON(
		`{"f:metadata":{"f:labels":{"f:zone":{},"f:old":{}}},"f:spec":{"f:unschedulable":{}}}`))

	server.bodies = nil
	_, err = a.Apply(t.Context(), after, o, zoned("a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(server.bodies).To(BeEmpty(), "once")
}

func TestAnApplierWhoseClientCannotPatchTakesNothingOver(t *testing.T) {
	g := NewWithT(t)
	cached := applied(5, "doorman", `{}`)
	cached.ManagedFields[0].APIVersion = "v1"
	cached.ManagedFields = append(cached.ManagedFields, entry("doorman", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{}}`))
	server := &applying{}
	_, err := patch.NewApplier(always(server)).Apply(t.Context(), cached,
		&patch.Options{FieldManager: "doorman", TakeOver: []string{"doorman"}}, zoned("a"))
	g.Expect(err).To(MatchError(ContainSubstring("the client has no method Patch")))
	g.Expect(server.asked).To(BeEmpty())
}

// A cache may have dropped the managed fields (informer.Options). Their absence
// does not mean that there is nothing to take over.
func TestAnApplierReadsTheManagedFieldsThatTheCacheHasDropped(t *testing.T) {
	g := NewWithT(t)
	sim, err := apisim.New(&apisim.Options{ManagedFields: true})
	g.Expect(err).NotTo(HaveOccurred())
	reads := 0
	config := sim.Config("doorman")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet {
				reads++
			}
			return next.RoundTrip(r)
		})
	})
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "a"}, Data: map[string]string{"old": "x", "k": "v"}}
	cached, err := maps("d").Create(t.Context(), old, metav1.CreateOptions{FieldManager: "doorman"})
	g.Expect(err).NotTo(HaveOccurred())
	a, o := patch.NewApplier(maps), &patch.Options{FieldManager: "doorman", TakeOver: []string{"doorman"}}
	wanted := corev1ac.ConfigMap("a", "d").WithData(map[string]string{"k": "v"})
	for range 3 {
		cached = cached.DeepCopy()
		cached.ManagedFields = nil
		cached, err = a.Apply(t.Context(), cached, o, wanted)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(cached.Data).To(Equal(map[string]string{"k": "v"}))
	}
	g.Expect(reads).To(Equal(1), "once for each object")

	g.Expect(maps("d").Delete(t.Context(), "a", metav1.DeleteOptions{})).To(Succeed())
	cached = cached.DeepCopy()
	cached.ManagedFields = nil
	_, err = patch.NewApplier(maps).Apply(t.Context(), cached, o, wanted)
	g.Expect(patch.IsStale(err)).To(BeTrue(), "%v", err)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
