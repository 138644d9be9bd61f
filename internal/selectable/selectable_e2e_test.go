//go:build e2e

package selectable_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/selectable"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// For each kind of the server, the table must list the fields that the server
// accepts, and the values that its objects have.
func TestE2ETheTableEqualsTheServers(t *testing.T) {
	g := NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	config := cluster.Config()
	config.WarningHandler = rest.NoWarnings{} // no warnings about deprecated kinds
	client, err := dynamic.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	namespace, err := cluster.Namespace(t.Context(), "selectable")
	g.Expect(err).NotTo(HaveOccurred())
	lists, err := discovery.NewDiscoveryClientForConfigOrDie(cluster.Config()).ServerPreferredResources()
	g.Expect(err).NotTo(HaveOccurred())
	var kinds []schema.GroupVersionResource
	for _, list := range lists {
		of, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).NotTo(HaveOccurred())
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch") {
				g.Expect(selectable.Builtin(of.Group)).To(BeTrue(), "%s", of.Group)
				kinds = append(kinds, of.WithResource(r.Name))
			}
		}
	}
	g.Expect(len(kinds)).To(BeNumerically(">", 40))

	t.Run("fields", func(t *testing.T) {
		fields := map[string]bool{"name": true, "status.replicas": true, "spec.replicas": true}
		for _, kind := range kinds {
			for field := range selectable.Of(kind.GroupResource()) {
				fields[field] = true
			}
		}
		for _, kind := range kinds {
			g := NewWithT(t)
			g.Expect(takes(t.Context(), client, kind, "metadata.name")).To(BeTrue(), "%v", kind)
			g.Expect(takes(t.Context(), client, kind, "metadata.namespace")).
				To(Equal(selectable.TakesNamespace(kind.GroupResource())), "%v metadata.namespace", kind)
			for field := range fields {
				_, known := selectable.RuleFor(kind.GroupResource(), field)
				g.Expect(takes(t.Context(), client, kind, field)).To(Equal(known), "%v %s", kind, field)
			}
		}
	})
	t.Run("values", func(t *testing.T) {
		made := create(t, client, kinds, namespace)
		compared := map[string]bool{}
		for _, kind := range kinds {
			g := NewWithT(t)
			all, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			for field, rule := range selectable.Of(kind.GroupResource()) {
				for _, object := range all.Items {
					if !made[object.GetName()] {
						continue
					}
					value, _, known := rule.Value(object.Object)
					g.Expect(known).To(BeTrue())
					for operator, has := range map[string]bool{"=": true, "!=": false} {
						list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{FieldSelector: field + operator + value})
						g.Expect(err).NotTo(HaveOccurred())
						same := func(u unstructured.Unstructured) bool { return u.GetUID() == object.GetUID() }
						g.Expect(slices.ContainsFunc(list.Items, same)).To(Equal(has), "%v %s: %s%s%s",
							kind, object.GetName(), field, operator, value)
					}
					compared[kind.Resource] = true
				}
			}
		}
		g.Expect(compared).To(And(HaveKey("pods"), HaveKey("nodes"), HaveKey("jobs"), HaveKey("events"), HaveKey("secrets"),
			HaveKey("services"), HaveKey("replicationcontrollers"), HaveKey("namespaces"),
			HaveKey("certificatesigningrequests"), HaveKey("resourceslices")))
	})
}

// custom has a kind with selectable fields of all types, and objects that have
// the fields, lack them, or have null or the zero value.
const custom = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dials.selectable.example.com}
spec:
  group: selectable.example.com
  names: {kind: Dial, listKind: DialList, plural: dials, singular: dial}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields:
    - {jsonPath: .spec.count}
    - {jsonPath: .spec.lit}
    - {jsonPath: .spec.text}
    - {jsonPath: .spec.size}
    - {jsonPath: .spec.flag}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              count: {type: integer, nullable: true}
              lit: {type: boolean, nullable: true}
              text: {type: string, nullable: true}
              size: {type: integer, default: 5}
              flag: {type: boolean, default: true}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: full, namespace: default}, spec: {count: 12345678901, lit: true, text: "a b", size: 7, flag: false}}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: zero, namespace: default}, spec: {count: 0, lit: false, text: "", size: 0, flag: false}}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: nulls, namespace: default}, spec: {count: null, lit: null, text: null, size: null, flag: null}}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: empty, namespace: default}, spec: {}}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: none, namespace: default}}
---
{apiVersion: selectable.example.com/v1, kind: Dial, metadata: {name: negative, namespace: default}, spec: {count: -1, lit: false, text: "0"}}
`

// Custom kinds are selected as the real server selects them.
func TestE2EFieldsOfCustomKindsHaveTheServersValues(t *testing.T) {
	g := NewWithT(t)
	cluster, err := e2e.Start(t.Context(), &e2e.Options{Progress: t.Output()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	g.Expect(cluster.Apply(t.Context(), custom)).To(Succeed())
	client, err := dynamic.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	dials := client.Resource(schema.GroupVersionResource{Group: "selectable.example.com", Version: "v1", Resource: "dials"})
	defer func() {
		_ = client.Resource(schema.GroupVersionResource{
			Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
		}).Delete(context.WithoutCancel(t.Context()), "dials.selectable.example.com", metav1.DeleteOptions{})
	}()
	all, err := dials.List(t.Context(), metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all.Items).To(HaveLen(6))
	for _, field := range []string{"spec.count", "spec.lit", "spec.text", "spec.size", "spec.flag"} {
		rule, known := selectable.RuleOfCustom(field)
		g.Expect(known).To(BeTrue())
		for _, want := range []string{"", "0", "5", "7", "-1", "12345678901", "false", "true", "a b", "null", "<nil>"} {
			selected, err := dials.List(t.Context(), metav1.ListOptions{FieldSelector: field + "=" + want})
			g.Expect(err).NotTo(HaveOccurred())
			for _, object := range all.Items {
				value, _, known := rule.Value(object.Object)
				g.Expect(known).To(BeTrue())
				same := func(u unstructured.Unstructured) bool { return u.GetUID() == object.GetUID() }
				ours := value == want
				g.Expect(slices.ContainsFunc(selected.Items, same)).To(Equal(ours), "%s: %s=%s, our value is %q",
					object.GetName(), field, want, value)
			}
		}
	}
}

// takes reports whether the server selects objects of a kind by a field.
func takes(ctx context.Context, client dynamic.Interface, kind schema.GroupVersionResource, field string) bool {
	_, err := client.Resource(kind).List(ctx, metav1.ListOptions{FieldSelector: field + "=none", Limit: 1})
	if err != nil && !apierrors.IsBadRequest(err) {
		panic(fmt.Sprintf("%v %s: %v", kind, field, err))
	}
	return err == nil
}

// objects holds one object on each line.
const objects = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: x-sa}}
---
{apiVersion: v1, kind: Pod, metadata: {name: x-host}, spec: {hostNetwork: true, nodeName: x-node, serviceAccountName: x-sa, containers: [{name: c, image: i}]},
 status: {phase: Running, podIP: 10.1.2.3, podIPs: [{ip: 10.1.2.3}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: x-pod}, spec: {schedulerName: none, restartPolicy: Never, serviceAccountName: x-sa, containers: [{name: c, image: i}]},
 status: {nominatedNodeName: x-node}}
---
{apiVersion: v1, kind: Node, metadata: {name: x-node}, spec: {unschedulable: true}}
---
{apiVersion: v1, kind: Node, metadata: {name: x-other}}
---
{apiVersion: v1, kind: Secret, metadata: {name: x-secret}, type: example.com/x}
---
{apiVersion: v1, kind: Service, metadata: {name: x-service}, spec: {type: NodePort, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Event, metadata: {name: x-event}, involvedObject: {kind: Pod, name: p, namespace: $ns, uid: u, apiVersion: v1, fieldPath: f, resourceVersion: "7"},
 reason: R, type: Normal, source: {component: kubelet}}
---
{apiVersion: events.k8s.io/v1, kind: Event, metadata: {name: x-new}, regarding: {kind: Pod, name: q, namespace: $ns}, reason: R, type: Warning, action: A,
 reportingController: example.com/c, reportingInstance: i, eventTime: "2030-01-01T00:00:00.000000Z"}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: x-rc}, spec: {replicas: 0, selector: {a: rc}, template: {metadata: {labels: {a: rc}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: x-rs}, spec: {replicas: 0, selector: {matchLabels: {a: rs}}, template: {metadata: {labels: {a: rs}}, spec: {containers: [{name: c, image: i}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: x-job}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}, status: {succeeded: 1}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: x-idle}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}
---
{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: x-csr}, spec: {signerName: example.com/x, usages: [client auth], request: $csr}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: x-slice}, spec: {driver: example.com, nodeName: x-node, pool: {name: p, generation: 1, resourceSliceCount: 1}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: x-all}, spec: {driver: example.com, allNodes: true, pool: {name: q, generation: 1, resourceSliceCount: 1}}}
`

// create creates objects, with their status, and returns their names.
func create(t *testing.T, client dynamic.Interface, kinds []schema.GroupVersionResource, namespace string) map[string]bool {
	t.Helper()
	g := NewWithT(t)
	made := map[string]bool{namespace: true}
	text := strings.ReplaceAll(strings.ReplaceAll(objects, "$ns", namespace), "$csr", request(g))
	for part := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(part), &u.Object)).To(Succeed())
		kind := u.GroupVersionKind()
		resource := strings.ToLower(kind.Kind) + "s"
		if i := slices.IndexFunc(kinds, func(k schema.GroupVersionResource) bool {
			return k.Group == kind.Group && k.Resource == resource
		}); i < 0 {
			t.Fatalf("%s is not served", resource)
		}
		var to dynamic.ResourceInterface = client.Resource(kind.GroupVersion().WithResource(resource))
		if !slices.Contains([]string{"nodes", "certificatesigningrequests", "resourceslices"}, resource) {
			to = client.Resource(kind.GroupVersion().WithResource(resource)).Namespace(namespace)
		} else {
			t.Cleanup(func() { _ = to.Delete(context.WithoutCancel(t.Context()), u.GetName(), metav1.DeleteOptions{}) })
		}
		status, has := u.Object["status"]
		delete(u.Object, "status")
		_, err := to.Create(t.Context(), u, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred(), u.GetName())
		if has {
			patch, err := (&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "status": status,
			}}).MarshalJSON()
			g.Expect(err).NotTo(HaveOccurred())
			_, err = to.Patch(t.Context(), u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
			g.Expect(err).NotTo(HaveOccurred(), u.GetName())
		}
		made[u.GetName()] = true
	}
	return made
}

// request returns a certificate signing request.
func request(g *WithT) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	g.Expect(err).NotTo(HaveOccurred())
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}
