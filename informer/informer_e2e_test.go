//go:build e2e

package informer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

const patience = 90 * time.Second

func TestE2EInformer(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cluster, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	client, err := kubernetes.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())

	t.Run("promises", func(t *testing.T) { promisesOnTheServer(ctx, t, cluster, client) })
	t.Run("forbidden", func(t *testing.T) { forbiddenOnTheServer(ctx, t, cluster) })
	t.Run("a kind that comes and goes", func(t *testing.T) { kindThatComesAndGoes(ctx, t, cluster) })
	t.Run("the server dies", func(t *testing.T) { serverThatDies(ctx, t, cluster, client) })
}

// Credentials that were deleted, a permission that was taken away, a version
// that is no longer served, and a server that is away.
func TestE2EOutages(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()
	cluster, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cluster.Stop()).To(Succeed()) })
	admin, err := kubernetes.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	o := &informer.Options{BackoffBase: 100 * time.Millisecond, BackoffCap: time.Second}
	namespace, err := cluster.Namespace(ctx, "outages")
	g.Expect(err).NotTo(HaveOccurred())
	of := func(account string) *informer.Informer[*corev1.ConfigMap] {
		config, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace, Name: account, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
		}})
		g.Expect(err).NotTo(HaveOccurred())
		client, err := kubernetes.NewForConfig(config)
		g.Expect(err).NotTo(HaveOccurred())
		return informer.For(client.CoreV1().ConfigMaps(namespace), o)
	}
	deleted, revoked := of("deleted"), of("revoked")
	const two = "  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, " +
		"x-kubernetes-preserve-unknown-fields: true}}}\n---"
	g.Expect(cluster.Apply(ctx, strings.Replace(gadgets, "---", two, 1))).To(Succeed())
	client, err := dynamic.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	resource := widgets
	resource.Resource, resource.Version = "gadgets", "v2"
	unserved := informer.For(informer.Untyped(client.Resource(resource)), &informer.Options{
		Kind: "Gadget", BackoffBase: o.BackoffBase, BackoffCap: o.BackoffCap,
	})
	defer running(ctx, deleted)()
	defer running(ctx, revoked)()
	defer running(ctx, unserved)()
	g.Expect(deleted.WaitForSync(ctx)).To(Succeed())
	g.Expect(revoked.WaitForSync(ctx)).To(Succeed())
	g.Expect(unserved.WaitForSync(ctx)).To(Succeed())
	causes := func() (all []string) {
		for _, s := range []informer.Status{deleted.Status(), revoked.Status(), unserved.Status()} {
			cause := ""
			for _, p := range s.Problems {
				cause = p.Cause
			}
			g.Expect(s.Synced).To(BeTrue(), "the caches serve")
			all = append(all, cause)
		}
		return all
	}
	g.Expect(causes()).To(Equal([]string{"", "", ""}))

	g.Expect(admin.CoreV1().ServiceAccounts(namespace).Delete(ctx, "deleted", metav1.DeleteOptions{})).To(Succeed())
	bindings := admin.RbacV1().RoleBindings(namespace)
	granted, err := bindings.List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bindings.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	definitions := client.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	serve := func(served string) {
		_, err = definitions.Patch(ctx, "gadgets.example.com", types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "/spec/versions/1/served", "value": `+served+`}]`), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	serve("false")
	g.Expect(cluster.KillAPIServer()).To(Succeed()) // or the watches would last for some minutes
	g.Eventually(causes).WithTimeout(2 * patience).WithPolling(time.Second).Should(HaveEach("unreachable"))
	g.Expect(cluster.Restart(ctx)).To(Succeed())
	g.Eventually(causes).WithTimeout(2 * patience).WithPolling(time.Second).Should(
		Equal([]string{"Unauthorized", "Forbidden", "not served"}))
	g.Expect(deleted.Status().UnauthorizedSince).To(BeTemporally("~", time.Now(), patience))
	g.Expect(revoked.Status().UnauthorizedSince).To(BeZero())

	serve("true")
	for _, b := range granted.Items {
		b.ResourceVersion, b.UID = "", ""
		_, err := bindings.Create(ctx, &b, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Eventually(causes).WithTimeout(patience).WithPolling(time.Second).Should(Equal([]string{"Unauthorized", "", ""}))
}

func promisesOnTheServer(ctx context.Context, t *testing.T, cluster *e2e.Cluster, client kubernetes.Interface) {
	g := NewWithT(t)
	for _, name := range []string{"a", "b", "c"} {
		_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	o := &informer.Options{LabelSelector: "suite", Kind: "ConfigMap"}
	t.Run("typed", func(t *testing.T) {
		keepsPromises(ctx, t, client, informer.For(client.CoreV1().ConfigMaps(""), o), nothing)
	})
	t.Run("several namespaces", func(t *testing.T) {
		each := *o
		each.Namespaces = []string{"a", "b", "c"}
		keepsPromises(ctx, t, client, informer.ForNamespaces(client.CoreV1().ConfigMaps, &each), nothing)
	})
	t.Run("wrapped", func(t *testing.T) { wrappedKeepsPromises(ctx, t, client, o) })
	t.Run("dynamic", func(t *testing.T) {
		untyped, err := dynamic.NewForConfig(cluster.Config())
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		keepsPromises(ctx, t, client, informer.For(informer.Untyped(untyped.Resource(configMaps)), o), nothing)
	})
	t.Run("metadata", func(t *testing.T) {
		untyped, err := metadata.NewForConfig(cluster.Config())
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		keepsPromises(ctx, t, client, informer.For(informer.Untyped(untyped.Resource(configMaps)), o), nothing)
	})
}

func nothing(string) {}

func wrappedKeepsPromises(ctx context.Context, t *testing.T, client kubernetes.Interface, o *informer.Options) {
	g := NewWithT(t)
	selected := informers.WithTweakListOptions(func(l *metav1.ListOptions) { l.LabelSelector = o.LabelSelector })
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, selected)
	shared := factory.Core().V1().ConfigMaps().Informer()
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	keepsPromises(ctx, t, client, clientgo.Wrap[*corev1.ConfigMap](shared, o), func(version string) {
		// Its LastSyncResourceVersion runs ahead of its store.
		g.Eventually(shared.GetStore().List).WithTimeout(patience).Should(ContainElement(HaveField("ResourceVersion", version)))
	})
}

// keepsPromises runs the suite of all informers on the real server. While in
// does not run, stopped waits until the cache behind it, if there is one, has
// reached version.
func keepsPromises[T informer.Object](
	ctx context.Context, t *testing.T, client kubernetes.Interface, in *informer.Informer[T], stopped func(version string),
) {
	t.Helper()
	g := NewWithT(t)
	var version string
	var written types.NamespacedName
	base := worldOf(client)
	w := world{
		create: func(ctx context.Context, namespace, name string) error {
			made := configMap(namespace, name)
			made.Labels = map[string]string{"suite": ""}
			created, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{})
			if err == nil {
				version, written = created.ResourceVersion, keyOf(created)
			}
			if err == nil && !in.Status().Running {
				stopped(version)
			}
			return err
		},
		label: func(ctx context.Context, namespace, name, value string) error {
			if err := base.label(ctx, namespace, name, value); err != nil {
				return err
			}
			now, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				version, written = now.ResourceVersion, keyOf(now)
			}
			return err
		},
		remove: func(ctx context.Context, namespace, name string) error {
			version, written = "", types.NamespacedName{Namespace: namespace, Name: name}
			return base.remove(ctx, namespace, name)
		},
	}
	settled := func() {
		switch {
		case !in.Status().Running:
		case version == "": // a removal, whose resourceVersion is not known
			g.Eventually(func() bool {
				_, there := in.Snapshot().Get(written)
				return there || in.Status().Lag > 0
			}).WithTimeout(patience).Should(BeFalse())
		default:
			seen := make(chan struct{})
			defer in.Parts().OnSeen(written.Namespace, version, func() { close(seen) })()
			g.Eventually(seen).WithTimeout(patience).Should(BeClosed())
		}
	}
	promises(g, ctx, in, w, settled)
	g.Expect(client.CoreV1().ConfigMaps("a").Delete(ctx, "2", metav1.DeleteOptions{})).To(Succeed())
}

func keyOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}

func forbiddenOnTheServer(ctx context.Context, t *testing.T, cluster *e2e.Cluster) {
	g := NewWithT(t)
	namespace, err := cluster.Namespace(ctx, "forbidden")
	g.Expect(err).NotTo(HaveOccurred())
	config, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{Namespace: namespace, Name: "reader", Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	client, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())

	everywhere := informer.For(client.CoreV1().ConfigMaps(""), nil)
	stop := running(ctx, everywhere)
	defer stop()
	g.Eventually(func() string { return everywhere.Status().Reason }).WithTimeout(patience).
		Should(And(ContainSubstring("cannot list resource"), ContainSubstring("the verbs list and watch are needed")))
	here := informer.ForNamespaces(client.CoreV1().ConfigMaps, &informer.Options{Namespaces: []string{namespace}})
	stopHere := running(ctx, here)
	defer stopHere()
	g.Expect(here.WaitForSync(ctx)).To(Succeed(), "rights in the namespace are enough")
}

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetCollection}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: example.com/v1
kind: Gadget
metadata: {name: one, namespace: default}
`

func kindThatComesAndGoes(ctx context.Context, t *testing.T, cluster *e2e.Cluster) {
	g := NewWithT(t)
	client, err := dynamic.NewForConfig(cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	resource := widgets
	resource.Resource = "gadgets"
	in := informer.For(informer.Untyped(client.Resource(resource)), &informer.Options{
		Kind: "Gadget", BackoffBase: 50 * time.Millisecond, BackoffCap: 200 * time.Millisecond,
	})
	stop := running(ctx, in)
	defer stop()
	g.Eventually(func() string { return in.Status().Reason }).WithTimeout(patience).
		Should(ContainSubstring("could not find the requested resource"))
	g.Expect(cluster.Apply(ctx, gadgets)).To(Succeed())
	g.Expect(in.WaitForSync(ctx)).To(Succeed())
	g.Eventually(func() int { return in.Snapshot().Len() }).WithTimeout(patience).Should(Equal(1))

	definitions := resource
	definitions.Group, definitions.Resource = "apiextensions.k8s.io", "customresourcedefinitions"
	g.Expect(client.Resource(definitions).Delete(ctx, "gadgets.example.com", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(func() int { return in.Snapshot().Len() }).WithTimeout(patience).Should(BeZero())
	g.Eventually(func() string { return in.Status().LastError }).WithTimeout(patience).ShouldNot(BeEmpty())
}

func serverThatDies(ctx context.Context, t *testing.T, cluster *e2e.Cluster, client kubernetes.Interface) {
	g := NewWithT(t)
	maps := client.CoreV1().ConfigMaps("default")
	for _, name := range []string{"stays", "goes"} {
		_, err := maps.Create(ctx, configMap("default", name), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	in := informer.For(maps, &informer.Options{BackoffBase: 50 * time.Millisecond, BackoffCap: 500 * time.Millisecond})
	gone := make(chan string, 100)
	in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
		if e.Type == informer.Deleted {
			gone <- e.Old.Name
		}
	})
	stop := running(ctx, in)
	defer stop()
	g.Expect(in.WaitForSync(ctx)).To(Succeed())

	g.Expect(cluster.KillAPIServer()).To(Succeed())
	g.Eventually(func() string { return in.Status().LastError }).WithTimeout(patience).ShouldNot(BeEmpty())
	_, ok := in.Get(types.NamespacedName{Namespace: "default", Name: "goes"})
	g.Expect(ok).To(BeTrue(), "what is known stays readable")
	g.Expect(cluster.Restart(ctx)).To(Succeed())
	g.Expect(maps.Delete(ctx, "goes", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(gone).WithTimeout(patience).Should(Receive(Equal("goes")))
	g.Consistently(gone, "500ms").ShouldNot(Receive())
	g.Eventually(func() string { return in.Status().LastError }).WithTimeout(patience).Should(BeEmpty())
	g.Expect(strings.Join(keys(in), " ")).To(ContainSubstring("default/stays"))
}

// The storage of a real server is replaced by a copy that was made before the
// last writes.
func TestE2EARestoredServerIsListedAgain(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	data := filepath.Join(t.TempDir(), "data")
	start := func() (*e2e.Cluster, kubernetes.Interface) {
		cluster, err := e2e.Start(ctx, &e2e.Options{DataDir: data, Progress: t.Output()})
		g.Expect(err).NotTo(HaveOccurred())
		return cluster, kubernetes.NewForConfigOrDie(cluster.Config())
	}
	write := func(client kubernetes.Interface, name, value string) {
		maps := client.CoreV1().ConfigMaps("default")
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"suite": "restored"}},
			Data:       map[string]string{"v": value},
		}
		_, err := maps.Update(ctx, object, metav1.UpdateOptions{})
		if err != nil {
			_, err = maps.Create(ctx, object, metav1.CreateOptions{})
		}
		g.Expect(err).NotTo(HaveOccurred())
	}

	cluster, client := start()
	write(client, "a", "1")
	write(client, "b", "1")
	g.Expect(cluster.Stop()).To(Succeed())
	backup := filepath.Join(t.TempDir(), "backup")
	g.Expect(os.CopyFS(backup, os.DirFS(filepath.Join(data, "etcd")))).To(Succeed())

	cluster, client = start()
	maps := informer.For(client.CoreV1().ConfigMaps(""), &informer.Options{LabelSelector: "suite"})
	defer running(ctx, maps)()
	g.Expect(maps.WaitForSync(ctx)).To(Succeed())
	write(client, "a", "lost")
	for n := range 3000 { // more than the start of a server writes
		write(client, "new", fmt.Sprint(n))
	}
	cached := func() (all []string) {
		for object := range maps.Snapshot().All() {
			all = append(all, object.Name+"="+object.Data["v"])
		}
		return all
	}
	g.Eventually(cached, patience).Should(Equal([]string{"a=lost", "b=1", "new=2999"}))
	g.Expect(cluster.Stop()).To(Succeed())
	g.Expect(os.RemoveAll(filepath.Join(data, "etcd"))).To(Succeed())
	g.Expect(os.CopyFS(filepath.Join(data, "etcd"), os.DirFS(backup))).To(Succeed())

	cluster, client = start()
	defer func() { g.Expect(cluster.Stop()).To(Succeed()) }()
	g.Eventually(cached, patience).Should(Equal([]string{"a=1", "b=1"}))
	g.Expect(maps.Status().Restores).To(Equal(int64(1)))
	write(client, "a", "2")
	g.Eventually(cached, patience).Should(Equal([]string{"a=2", "b=1"}))
}
