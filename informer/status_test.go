package informer_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/homeostat/homeostat/informer"
)

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		gate := make(chan struct{})
		nodes, _ := scripted(t, nil,
			refuse(http.StatusForbidden, metav1.StatusReasonForbidden), refuse(http.StatusForbidden, metav1.StatusReasonForbidden),
			stream(hold, added(versioned("a", "1", "5")), listEnd("10"), gate, modified(versioned("a", "1", "11")), bookmark("12")),
			stream(hold, listEnd("20")))
		nodes.Handle(func(informer.Event[*corev1.Node]) {})
		g.Expect(nodes.Status()).To(show(informer.Status{
			Name: "nodes", Kind: "Node", Handlers: 1, Reason: "the informer is not running", Server: "http://script",
		}))

		stop := running(t.Context(), nodes)
		defer stop()
		synctest.Wait()
		s := nodes.Status()
		g.Expect(s.Running).To(BeTrue())
		g.Expect(s.Synced).To(BeFalse())
		g.Expect(s.Reason).To(ContainSubstring("Forbidden"))
		g.Expect(s.LastError).To(ContainSubstring("Forbidden"))
		g.Expect(s.Failures).To(BeEquivalentTo(2))

		g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
		synctest.Wait()
		synced := time.Now()
		<-time.After(time.Minute)
		g.Expect(nodes.Status()).To(show(informer.Status{
			Name: "nodes", Kind: "Node", Running: true, Synced: true, Objects: 1, Handlers: 1, ResourceVersion: "10", Server: "http://script",
			LastActivity: time.Unix(0, synced.UnixNano()), WatchSince: synced, Lists: 1, Watches: 1, Failures: 2, Events: 1,
			FullDecode: `the server sends "application/json"`,
		}))
		close(gate)
		synctest.Wait()
		g.Expect(nodes.Status().ResourceVersion).To(Equal("12"))
		g.Expect(nodes.Status().Events).To(BeEquivalentTo(2))
		<-time.After(2 * watchIdle)
		synctest.Wait()
		g.Expect(nodes.Status().Stalls).NotTo(BeZero())
		g.Expect(nodes.Status().Watches).NotTo(BeEquivalentTo(1))
	})
}

// show matches a Status that is equal to want in the fields that the tests
// compare.
func show(want informer.Status) types.GomegaMatcher {
	fields := func(s informer.Status) map[string]any {
		out := map[string]any{}
		for field, value := range reflect.ValueOf(s).Fields() {
			if field.IsExported() {
				out[field.Name] = value.Interface()
			}
		}
		return out
	}
	return WithTransform(fields, Equal(fields(want)))
}

func TestStatusNamesTheScope(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	pods := informer.ForNamespaces(client.CoreV1().Pods, &informer.Options{
		Namespaces: []string{"b", "a"}, LabelSelector: "app=web", FieldSelector: "spec.nodeName=n",
	})
	g.Expect(pods.Status()).To(show(informer.Status{
		Name: "pods", Kind: "Pod", Reason: "the informer is not running",
		Namespaces: []string{"a", "b"}, LabelSelector: "app=web", FieldSelector: "spec.nodeName=n",
	}))
	g.Expect(pods.SetNamespaces()).To(Succeed())
	g.Expect(pods.Status().Namespaces).To(BeEmpty(), "all")

	known := metadatafake.NewTestScheme()
	g.Expect(metav1.AddMetaToScheme(known)).To(Succeed())
	api := metadatafake.NewSimpleMetadataClient(known).Resource(configMaps)
	g.Expect(informer.For(informer.Untyped(api), nil).Status().MetadataOnly).To(BeTrue())
	g.Expect(pods.Status().MetadataOnly).To(BeFalse())
}

func TestStatusShowsTheLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(pod("a", "1"))
		pods := informer.For(client.CoreV1().Pods(""), nil)
		gate := make(chan struct{})
		pods.Handle(func(informer.Event[*corev1.Pod]) { <-gate })
		g.Expect(pods.Status().Lag).To(BeZero())
		stop := running(t.Context(), pods)
		defer stop()
		synctest.Wait()
		<-time.After(time.Minute)
		g.Expect(pods.Status().Lag).To(Equal(time.Minute))
		close(gate)
		synctest.Wait()
		g.Expect(pods.Status().Lag).To(BeZero())
	})
}

func TestStatusEstimatesTheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const small, large = 1000, 3000
		var all []runtime.Object
		for n := range small + large {
			c := configMap("a", fmt.Sprint("small", n))
			if n >= small {
				c = configMap("b", fmt.Sprint("large", n))
				c.Data = map[string]string{"text": strings.Repeat("x", 1000) + fmt.Sprint(n)}
			}
			all = append(all, c)
		}
		in := informer.For(fake.NewClientset(all...).CoreV1().ConfigMaps(""), nil)
		g.Expect(in.Status().Size()).To(BeZero())
		stop := running(t.Context(), in)
		defer stop()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		empty, text := int64(unsafe.Sizeof(corev1.ConfigMap{})), int64(1000)
		want := (small+large)*empty + large*(text+300) // and the map
		g.Expect(in.Status().Size()).To(BeNumerically("~", want, want/8))
		g.Expect(informer.Status{}.Size()).To(BeZero())
	})
}

func TestNamespacesChangeWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(pod("a", "1"), pod("b", "1"), pod("c", "1"))
		pods := informer.ForNamespaces(client.CoreV1().Pods, &informer.Options{Namespaces: []string{"a", "b"}})
		var told []string
		pods.Handle(func(e informer.Event[*corev1.Pod]) {
			object := e.New
			if object == nil {
				object = e.Old
			}
			told = append(told, e.Type.String()+" "+object.Namespace)
		})
		change := func(namespaces ...string) []string {
			told = nil
			g.Expect(pods.SetNamespaces(namespaces...)).To(Succeed())
			g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
			synctest.Wait()
			return told
		}
		stop := running(t.Context(), pods)
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		g.Expect(keys(pods)).To(Equal([]string{"a/1", "b/1"}))

		watches := func(namespace string) (n int) {
			for _, a := range client.Actions() {
				if a.GetVerb() == "watch" && a.GetNamespace() == namespace {
					n++
				}
			}
			return n
		}
		ofB := watches("b")
		g.Expect(change("b", "c")).To(Equal([]string{"deleted a", "added c"}))
		g.Expect(watches("b")).To(Equal(ofB), "it goes on, and no second one begins")
		g.Expect(matches(pods.Matches(pod("a", "1")))).To(BeFalse())
		g.Expect(change("b", "c")).To(BeEmpty())
		g.Expect(change()).To(Equal([]string{"added a"}), "all")
		g.Expect(change("c")).To(Equal([]string{"deleted a", "deleted b"}))

		g.Expect(client.CoreV1().Pods("c").Delete(t.Context(), "1", metav1.DeleteOptions{})).To(Succeed())
		_, err := client.CoreV1().Pods("a").Create(t.Context(), pod("a", "2"), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(keys(pods)).To(BeEmpty(), "the watch of a has ended, the watch of c continues")

		stop()
		g.Expect(pods.SetNamespaces("a")).To(Succeed())
		stop = running(t.Context(), pods)
		defer stop()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		g.Expect(keys(pods)).To(Equal([]string{"a/1", "a/2"}))
	})
}

func TestNamespacesThatCannotBeSet(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	fixed := informer.For(client.CoreV1().Pods("a"), nil)
	g.Expect(fixed.SetNamespaces("b")).To(MatchError(ContainSubstring("make the informer with ForNamespaces")))
	pods := informer.ForNamespaces(client.CoreV1().Pods, nil)
	g.Expect(pods.SetNamespaces("Not A Name")).To(MatchError(ContainSubstring(`Namespaces[0] is "Not A Name"`)))
}
