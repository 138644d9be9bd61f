package website_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"

	"github.com/homeostat/homeostat/cluster"
	v1 "github.com/homeostat/homeostat/examples/website/api/v1"
	"github.com/homeostat/homeostat/examples/website/internal/website"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

// fixture is the operator on fake clients, in a bubble of virtual time.
type fixture struct {
	*WithT
	t        *testing.T
	client   *fake.Clientset
	websites fakeWebsites // the Websites of namespace d
	cdn      website.CDN
	events   *events.FakeRecorder
}

// inFixture calls f with the operator running.
func inFixture(t *testing.T, f func(w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		websites := newFakeWebsites()
		w := &fixture{
			WithT: NewWithT(t), t: t, client: fake.NewClientset(), websites: websites("d"),
			cdn: newCDN(t), events: events.NewFakeRecorder(100),
		}
		of := func(namespace string) website.Client { return websites(namespace) }
		c, err := website.New(w.client, of, w.cdn, &reconcile.Options{Events: w.events})
		w.Expect(err).NotTo(HaveOccurred())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait() // fakes lose writes between list and watch
		f(w)
		stop()
		w.Expect(<-ended).To(Succeed())
	})
}

type fakeWebsites = *gentype.FakeClientWithList[*v1.Website, *v1.WebsiteList]

// newFakeWebsites returns fake clients of Websites, which client-gen would have
// generated.
func newFakeWebsites() func(namespace string) fakeWebsites {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	metav1.AddToGroupVersion(scheme, v1.GroupVersion)
	tracker := clienttesting.NewObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder())
	server := &clienttesting.Fake{}
	server.AddReactor("*", "*", clienttesting.ObjectReaction(&numbered{ObjectTracker: tracker}))
	server.AddWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		return true, w, err
	})
	return func(namespace string) fakeWebsites {
		return gentype.NewFakeClientWithList(server, namespace,
			v1.GroupVersion.WithResource("websites"), v1.GroupVersion.WithKind("Website"),
			func() *v1.Website { return &v1.Website{} }, func() *v1.WebsiteList { return &v1.WebsiteList{} },
			func(to, from *v1.WebsiteList) { to.ListMeta = from.ListMeta },
			func(l *v1.WebsiteList) []*v1.Website { return gentype.ToPointerSlice(l.Items) },
			func(l *v1.WebsiteList, items []*v1.Website) { l.Items = gentype.FromPointerSlice(items) })
	}
}

// numbered gives stored objects a resourceVersion, as a server does: only then
// a reconcile waits for its own writes.
type numbered struct {
	clienttesting.ObjectTracker
	last int
}

func (n *numbered) next(o runtime.Object) runtime.Object {
	n.last++
	o.(*v1.Website).ResourceVersion = strconv.Itoa(n.last)
	return o
}

func (n *numbered) Create(
	r schema.GroupVersionResource, o runtime.Object, ns string, opts ...metav1.CreateOptions,
) error {
	return n.ObjectTracker.Create(r, n.next(o), ns, opts...)
}

func (n *numbered) Update(
	r schema.GroupVersionResource, o runtime.Object, ns string, opts ...metav1.UpdateOptions,
) error {
	return n.ObjectTracker.Update(r, n.next(o), ns, opts...)
}

func (n *numbered) Patch(
	r schema.GroupVersionResource, o runtime.Object, ns string, opts ...metav1.PatchOptions,
) error {
	return n.ObjectTracker.Patch(r, n.next(o), ns, opts...)
}

// settle returns when the operator has nothing to do. The fake clientset
// numbers no versions, so that a key may wait for its own writes until the
// deadline of ten seconds.
func (w *fixture) settle() {
	<-time.After(20 * time.Second)
	synctest.Wait()
}

func (w *fixture) createSite(name, secret string) {
	w.t.Helper()
	site := siteOf(name, secret)
	site.UID, site.Generation = types.UID("uid-of-"+name), 1 // which a fake server does not give
	_, err := w.websites.Create(w.t.Context(), site, metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.settle()
}

func (w *fixture) createSecret(name, value string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Secrets("d").Create(w.t.Context(), secretOf(name, value), metav1.CreateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.settle()
}

func (w *fixture) site(name string) *v1.Website {
	w.t.Helper()
	w.settle()
	site, err := w.websites.Get(w.t.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return site
}

func (w *fixture) ready(name string) *metav1.Condition {
	w.t.Helper()
	return meta.FindStatusCondition(w.site(name).Status.Conditions, "Ready")
}

func (w *fixture) deployment(name string) *appsv1.Deployment {
	w.t.Helper()
	w.settle()
	d, err := w.client.AppsV1().Deployments("d").Get(w.t.Context(), name, metav1.GetOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	return d
}

func (w *fixture) entry(name string) string {
	w.settle()
	return entryIn(w.cdn, name)
}

// rollout makes the replicas of a Deployment available.
func (w *fixture) rollout(name string) {
	w.t.Helper()
	d := w.deployment(name)
	d.Status.AvailableReplicas = *d.Spec.Replicas
	_, err := w.client.AppsV1().Deployments("d").UpdateStatus(w.t.Context(), d, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.settle()
}

func TestAWebsiteGetsWhatItAsksFor(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		owner := *metav1.NewControllerRef(w.site("shop"), v1.GroupVersion.WithKind("Website"))
		d := w.deployment("shop")
		w.Expect(d.OwnerReferences).To(ConsistOf(owner))
		w.Expect(d.Labels).To(HaveKeyWithValue("app.kubernetes.io/managed-by", website.Name))
		w.Expect(d.Spec.Template.Spec.Containers).To(ConsistOf(And(HaveField("Image", "web:1"),
			HaveField("EnvFrom", ConsistOf(HaveField("SecretRef.Name", "one"))))))
		s, err := w.client.CoreV1().Services("d").Get(t.Context(), "shop", metav1.GetOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(s.OwnerReferences).To(ConsistOf(owner))
		w.Expect(d.Spec.Template.Labels).To(Equal(s.Spec.Selector))
		w.Expect(d.Spec.Template.Labels).To(Equal(d.Spec.Selector.MatchLabels))
		w.Expect(w.entry("shop")).To(Equal("shop.example.com http://shop.d.svc\n"))
		w.Expect(w.site("shop").Finalizers).To(ConsistOf("web.homeostat.dev/cdn"))
	})
}

func TestTheStatusSaysWhatAWebsiteLacks(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSite("shop", "one")
		w.Expect(w.ready("shop")).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse),
			HaveField("Message", `Secret "one" does not exist`), HaveField("ObservedGeneration", int64(1)))))
		w.createSecret("one", "first")
		w.Expect(w.ready("shop").Message).To(Equal("0 of 1 replicas are up to date and available"))
		w.rollout("shop")
		w.Expect(w.ready("shop")).To(HaveValue(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", ""))))
		w.Expect(w.emitted()).To(HaveExactElements(
			ContainSubstring(`Incomplete Secret "one" does not exist`), ContainSubstring("Complete")))
		w.createSite("blog", "two")
		w.createSecret("two", "first") // the message changes, and the state does not
		w.Expect(w.ready("blog").Message).To(Equal("0 of 1 replicas are up to date and available"))
		w.Expect(w.emitted()).To(HaveExactElements(ContainSubstring(`Incomplete Secret "two" does not exist`)))
		w.rollout("blog")
		w.rollout("shop")
		w.Expect(w.emitted()).To(HaveExactElements(ContainSubstring("Complete")), "when it turns, and no more")
	})
}

// An image that cannot be pulled leaves the Pods of the last image available.
func TestReplicasOfTheLastImageDoNotMakeAWebsiteReady(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		w.deployed(appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1})
		w.Expect(w.ready("shop")).To(HaveValue(HaveField("Status", metav1.ConditionTrue)))
		site := w.site("shop")
		site.Spec.Image, site.Generation = "web:misspelt", 2
		_, err := w.websites.Update(t.Context(), site, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.deployment("shop").Spec.Template.Spec.Containers[0].Image).To(Equal("web:misspelt"))
		for _, last := range []appsv1.DeploymentStatus{
			{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
			{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 1, UnavailableReplicas: 1},
		} {
			w.deployed(last)
			w.Expect(w.ready("shop")).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse),
				HaveField("Message", "0 of 1 replicas are up to date and available"), HaveField("ObservedGeneration", int64(2)))))
		}
		w.deployed(appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2})
		w.Expect(w.ready("shop")).To(HaveValue(HaveField("Status", metav1.ConditionTrue)), "the last Pod is still ending")
	})
}

// deployed gives the Deployment of the Website shop the generation of the
// Website, and a status.
func (w *fixture) deployed(s appsv1.DeploymentStatus) {
	w.t.Helper()
	d := w.deployment("shop")
	d.Generation, d.Status = w.site("shop").Generation, s
	_, err := w.client.AppsV1().Deployments("d").Update(w.t.Context(), d, metav1.UpdateOptions{})
	w.Expect(err).NotTo(HaveOccurred())
	w.settle()
}

// emitted returns the events since the last call.
func (w *fixture) emitted() (events []string) {
	w.settle()
	for range len(w.events.Events) {
		events = append(events, <-w.events.Events)
	}
	return events
}

func TestAChangedSecretRestartsTheWebServersThatUseIt(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.createSecret("two", "first")
		w.createSite("shop", "one")
		w.createSite("blog", "two")
		shop, blog := w.deployment("shop"), w.deployment("blog")
		_, err := w.client.CoreV1().Secrets("d").Update(t.Context(), secretOf("one", "second"), metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.deployment("shop").Spec.Template.Annotations).NotTo(Equal(shop.Spec.Template.Annotations))
		w.Expect(w.deployment("blog")).To(Equal(blog))
	})
}

func TestTheEntryIsRemovedBeforeTheWebsite(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		w.Expect(w.entry("shop")).NotTo(BeEmpty())
		site, now := w.site("shop"), metav1.Now()
		site.DeletionTimestamp = &now // as a server does while there are finalizers
		_, err := w.websites.Update(t.Context(), site, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.site("shop").Finalizers).To(BeEmpty())
		w.Expect(w.entry("shop")).To(BeEmpty())
	})
}

func TestADirectoryThatCannotBeWrittenIsAnErrorOfTheStart(t *testing.T) {
	g := NewWithT(t)
	c, err := cluster.New(&rest.Config{Host: "http://127.0.0.1:1"}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	_, err = website.Setup(operator.Env{Cluster: c}, website.CDN(dir+"/missing"))
	g.Expect(err).To(MatchError(And(ContainSubstring("/missing"), ContainSubstring("no such file or directory"))))
	_, err = website.Setup(operator.Env{Cluster: c}, website.CDN(dir))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.ReadDir(dir)).To(BeEmpty())
}

func TestALostOrChangedEntryIsRestored(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		entry := w.entry("shop")
		for _, tamper := range []func() error{
			func() error { return w.cdn.Remove(key("shop")) },
			func() error { return w.cdn.Publish(key("shop"), "elsewhere") },
		} {
			w.Expect(tamper()).To(Succeed())
			w.Expect(entryIn(w.cdn, "shop")).NotTo(Equal(entry))
			<-time.After(2 * time.Minute)
			w.settle()
			w.Expect(w.entry("shop")).To(Equal(entry))
		}
	})
}

func TestADeploymentOfAnotherClientIsLeftAlone(t *testing.T) {
	inFixture(t, func(w *fixture) {
		theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "shop", UID: "theirs"}}
		_, err := w.client.AppsV1().Deployments("d").Create(t.Context(), theirs, metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		w.Expect(w.ready("shop").Message).To(ContainSubstring("it exists and has no owner"))
		w.Expect(w.deployment("shop").Spec).To(Equal(theirs.Spec))
	})
}

// No event follows a status that was not written: only the error makes it try
// again.
func TestAStatusThatIsRefusedIsWrittenLater(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var refuses atomic.Bool
		synctest.Wait() // nothing reads the reactors now
		w.websites.PrependReactor("patch", "websites", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetSubresource() == "status" && refuses.Load(), nil, apierrors.NewInternalError(errors.New("not now"))
		})
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		refuses.Store(true)
		w.rollout("shop")
		w.Expect(w.ready("shop").Message).To(Equal("0 of 1 replicas are up to date and available"))
		refuses.Store(false)
		<-time.After(5 * time.Minute)
		w.Expect(w.ready("shop").Status).To(Equal(metav1.ConditionTrue))
	})
}

// The next look at the CDN would make it try again, a minute after the start.
func TestAFinalizerThatIsRefusedIsSetSoon(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var refused atomic.Bool
		synctest.Wait() // nothing reads the reactors now
		w.websites.PrependReactor("patch", "websites", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return a.GetSubresource() == "" && refused.CompareAndSwap(false, true), nil, apierrors.NewInternalError(errors.New("not now"))
		})
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		w.Expect(refused.Load()).To(BeTrue())
		w.Expect(entryIn(w.cdn, "shop")).NotTo(BeEmpty())
	})
}

// Its entry is there, so that no look at the CDN makes it try again either.
func TestADeploymentThatIsRefusedIsMadeLater(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var refuses atomic.Bool
		refuses.Store(true)
		synctest.Wait() // nothing reads the reactors now
		w.client.PrependReactor("create", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refuses.Load(), nil, apierrors.NewInternalError(errors.New("not now"))
		})
		w.createSecret("one", "first")
		w.createSite("shop", "one")
		w.Expect(w.ready("shop").Message).To(ContainSubstring("not now"))
		w.Expect(w.entry("shop")).NotTo(BeEmpty())
		refuses.Store(false)
		<-time.After(5 * time.Minute)
		w.Expect(w.deployment("shop").Name).To(Equal("shop"))
		w.Expect(w.ready("shop").Message).To(Equal("0 of 1 replicas are up to date and available"))
	})
}

// The cache is late: the server has deleted the Website, or has a recreated
// one.
func TestAWebsiteThatOnlyTheCacheHasIsNotPublished(t *testing.T) {
	recreated := siteOf("shop", "one")
	recreated.UID = "of another one"
	for name, live := range map[string]*v1.Website{"deleted": nil, "recreated": recreated} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, func(w *fixture) {
				synctest.Wait() // nothing reads the reactors now
				w.websites.PrependReactor("get", "websites", func(clienttesting.Action) (bool, runtime.Object, error) {
					if live == nil {
						return true, nil, apierrors.NewNotFound(v1.GroupVersion.WithResource("websites").GroupResource(), "shop")
					}
					return true, live.DeepCopy(), nil
				})
				w.createSecret("one", "first")
				w.createSite("shop", "one")
				w.Expect(w.entry("shop")).To(BeEmpty())
			})
		})
	}
}

func TestACDNThatFailsIsNamedAndTriedAgain(t *testing.T) {
	inFixture(t, func(w *fixture) {
		w.createSecret("one", "first")
		w.Expect(os.Remove(string(w.cdn))).To(Succeed())
		w.createSite("shop", "one")
		w.Expect(w.ready("shop").Message).To(ContainSubstring("no such file or directory"))
		w.Expect(w.deployment("shop").Name).To(Equal("shop"), "the rest is there")
		w.Expect(os.Mkdir(string(w.cdn), 0o755)).To(Succeed())
		<-time.After(time.Minute)
		w.Expect(w.entry("shop")).NotTo(BeEmpty())
		w.Expect(w.ready("shop").Message).To(Equal("0 of 1 replicas are up to date and available"))
	})
}

// The CDN must not read a part of an entry, such as what was written to a full
// disk.
func TestAnEntryIsReplacedAsAWhole(t *testing.T) {
	g, cdn, site := NewWithT(t), newCDN(t), reconcile.Key{Namespace: "d", Name: "shop"}
	g.Expect(cdn.Publish(site, "one\n")).To(Succeed())
	before, err := os.Open(string(cdn) + "/d.shop")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(before.Close()).To(Succeed()) })
	g.Expect(cdn.Publish(site, "two\n")).To(Succeed())
	g.Expect(io.ReadAll(before)).To(Equal([]byte("one\n")), "who reads at this moment")
	g.Expect(cdn.Entry(site)).To(Equal([]byte("two\n")))
	g.Expect(os.ReadDir(string(cdn))).To(HaveLen(1))
}
