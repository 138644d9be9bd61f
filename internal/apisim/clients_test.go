package apisim_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Widget is a custom resource with a Go type and without generated code.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              WidgetSpec `json:"spec"`
}

// WidgetSpec is the desired state of a Widget.
type WidgetSpec struct {
	N int `json:"n"`
}

// DeepCopyObject copies a Widget.
func (w *Widget) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Widget `json:"items"`
}

// DeepCopyObject copies a WidgetList.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]Widget(nil), l.Items...)
	return &c
}

var widgets = schema.GroupVersionResource{Group: "sim.example.com", Version: "v1", Resource: "widgets"}

func widgetClient(config *rest.Config) *gentype.ClientWithList[*Widget, *WidgetList] {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, widgets.GroupVersion())
	scheme.AddKnownTypes(widgets.GroupVersion(), &Widget{}, &WidgetList{})
	gv := widgets.GroupVersion()
	config.GroupVersion, config.APIPath = &gv, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	return gentype.NewClientWithList("widgets", client, runtime.NewParameterCodec(scheme), "d",
		func() *Widget { return &Widget{} }, func() *WidgetList { return &WidgetList{} })
}

var _ = Describe("Server", func() {
	var (
		sim *apisim.Server
		cs  kubernetes.Interface
	)

	BeforeEach(func() {
		var err error
		sim, err = apisim.New(&apisim.Options{Resources: customResources()})
		Expect(err).NotTo(HaveOccurred())
		cs = kubernetes.NewForConfigOrDie(sim.Config("test"))
	})

	It("rejects options out of bounds, all at once", func() {
		_, err := apisim.New(&apisim.Options{History: -1, Resources: []apisim.Resource{{Kind: "X"}}})
		Expect(err).To(MatchError(And(ContainSubstring("History"), ContainSubstring("Resources[0]"))))
	})

	It("serves generated clients of kinds without generated code", func(ctx SpecContext) {
		client := widgetClient(sim.Config("gen"))
		w := &Widget{
			TypeMeta:   metav1.TypeMeta{APIVersion: "sim.example.com/v1", Kind: "Widget"},
			ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: WidgetSpec{N: 1},
		}
		made, err := client.Create(ctx, w, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.UID).NotTo(BeEmpty())
		Expect(made.CreationTimestamp.Time).NotTo(BeZero())
		made.Spec.N = 2
		updated, err := client.Update(ctx, made, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(updated.Generation).To(Equal(int64(2)))
		list, err := client.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
	})

	It("serves dynamic clients", func(ctx SpecContext) {
		client := dynamic.NewForConfigOrDie(sim.Config("dyn")).Resource(widgets).Namespace("d")
		w := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sim.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"}, "spec": map[string]any{"n": int64(1)},
		}}
		_, err := client.Create(ctx, w, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		got, err := client.Patch(ctx, "w", types.MergePatchType, []byte(`{"spec":{"n":5}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Object["spec"]).To(Equal(map[string]any{"n": int64(5)}))
	})

	It("serves metadata clients, their lists, watches and deletes", func(ctx SpecContext) {
		Expect(sim.Load(configMap("a"))).To(Succeed())
		config := sim.Config("meta")
		client := metadata.NewForConfigOrDie(config).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("d")
		list, err := client.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(list.Items).To(HaveLen(1))
		w, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		Expect(client.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		var e any
		Eventually(w.ResultChan()).WithContext(ctx).Should(Receive(&e))
	}, SpecTimeout(testTimeout))

	It("takes protobuf, and answers in JSON", func(ctx SpecContext) {
		config := sim.Config("proto")
		config.ContentType = runtime.ContentTypeProtobuf
		made, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("d").Create(ctx, configMap("a"),
			metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(made.UID).NotTo(BeEmpty())
	})

	It("lets a hook deny calls, and never the admin's", func(ctx SpecContext) {
		sim.Deny(func(c apisim.Call) error {
			if c.Verb == "create" && c.Client == "test" {
				return apierrors.NewForbidden(c.Resource.GroupResource(), c.Name, nil)
			}
			return nil
		})
		_, err := cs.CoreV1().ConfigMaps("d").Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		kubectl := kubernetes.NewForConfigOrDie(sim.Admin())
		_, err = kubectl.CoreV1().ConfigMaps("d").Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
	})

	It("tells hooks every write in order, with the call that made it, and lets them write", func(ctx SpecContext) {
		var got []string
		sim.OnCommit(func(e apisim.Event) {
			got = append(got, string(e.Type)+" "+e.Key.Name+" by "+e.Call.Client)
			if e.Key.Name == "a" && e.New != nil && e.Old == nil {
				_, _ = cs.CoreV1().ConfigMaps("d").Create(context.Background(), configMap("from-hook"),
					metav1.CreateOptions{})
			}
		})
		_, err := cs.CoreV1().ConfigMaps("d").Create(ctx, configMap("a"), metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cs.CoreV1().ConfigMaps("d").Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
		Expect(got).To(Equal([]string{"ADDED a by test", "ADDED from-hook by test", "DELETED a by test"}))
	})

	It("scales and evicts through the typed client", func(ctx SpecContext) {
		replicas := int32(1)
		Expect(sim.Load(
			&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "app"},
				Spec: appsv1.DeploymentSpec{
					Replicas: &replicas,
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
				},
			},
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}},
		)).To(Succeed())
		scale, err := cs.AppsV1().Deployments("d").GetScale(ctx, "app", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		scale.Spec.Replicas = 3
		_, err = cs.AppsV1().Deployments("d").UpdateScale(ctx, "app", scale, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		app, err := cs.AppsV1().Deployments("d").Get(ctx, "app", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(app.Spec.Replicas).To(HaveValue(Equal(int32(3))))
		Expect(cs.PolicyV1().Evictions("d").Evict(ctx,
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p"}})).To(Succeed())
		_, err = cs.CoreV1().Pods("d").Get(ctx, "p", metav1.GetOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("records the owners of fields from the first write when it is asked to", func(ctx SpecContext) {
		tracking, err := apisim.New(&apisim.Options{ManagedFields: true})
		Expect(err).NotTo(HaveOccurred())
		cs := kubernetes.NewForConfigOrDie(tracking.Config("creator"))
		cm := configMap("a")
		cm.Data = map[string]string{"x": "1"}
		_, err = cs.CoreV1().ConfigMaps("d").Create(ctx, cm, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		apply := applycorev1.ConfigMap("a", "d").WithData(map[string]string{"x": "2"})
		_, err = cs.CoreV1().ConfigMaps("d").Apply(ctx, apply, metav1.ApplyOptions{FieldManager: "other"})
		Expect(err).To(MatchError(ContainSubstring(`conflict with "creator"`)))
	})

	It("answers 404 for what it does not serve", func(ctx SpecContext) {
		gvr := schema.GroupVersionResource{Group: "none.example.com", Version: "v1", Resource: "nones"}
		_, err := dynamic.NewForConfigOrDie(sim.Config("dyn")).Resource(gvr).List(ctx, metav1.ListOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		_, err = dynamic.NewForConfigOrDie(sim.Config("dyn")).Resource(gvr).Watch(ctx, metav1.ListOptions{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
	})

	It("gives 410 to a watch and to a list from before a compaction", func(ctx SpecContext) {
		Expect(sim.Load(configMap("a"), configMap("b"), configMap("c"))).To(Succeed())
		page, err := cs.CoreV1().ConfigMaps("d").List(ctx, metav1.ListOptions{Limit: 1})
		Expect(err).NotTo(HaveOccurred())
		Expect(sim.Load(configMap("later"))).To(Succeed())
		sim.Compact("configmaps")
		_, err = cs.CoreV1().ConfigMaps("d").List(ctx, metav1.ListOptions{Limit: 1, Continue: page.Continue})
		Expect(apierrors.IsResourceExpired(err)).To(BeTrue(), "%v", err)
		w, err := cs.CoreV1().ConfigMaps("d").Watch(ctx, metav1.ListOptions{ResourceVersion: page.ResourceVersion})
		Expect(err).NotTo(HaveOccurred())
		defer w.Stop()
		e := <-w.ResultChan()
		Expect(apierrors.IsResourceExpired(apierrors.FromObject(e.Object))).To(BeTrue(), "%v", e)
	}, SpecTimeout(testTimeout))
})
