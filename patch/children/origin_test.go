package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/patch/children"
)

// hub is a cluster that has owners. Their children are in another cluster.
type hub struct {
	*WithT
	t     *testing.T
	user  kubernetes.Interface
	spoke kubernetes.Interface // the cluster of the children
	set   *children.Set[*corev1.Secret]
	cache *informer.Informer[*corev1.Secret]
}

// newHub returns a hub whose Set has the options o, and whose API server is at
// the address host.
func newHub(t *testing.T, spoke *apisim.Server, host string, o *children.Options) *hub {
	t.Helper()
	h := &hub{WithT: NewWithT(t), t: t, spoke: kubernetes.NewForConfigOrDie(spoke.Admin())}
	sim, err := apisim.New(&apisim.Options{Seed: uint64(len(host))})
	h.Expect(err).NotTo(HaveOccurred())
	h.user = kubernetes.NewForConfigOrDie(sim.Admin())
	config := rest.CopyConfig(sim.Config("controller"))
	config.Host = host
	there, err := cluster.New(config, nil)
	h.Expect(err).NotTo(HaveOccurred())
	here, err := cluster.New(spoke.Config("controller"), nil)
	h.Expect(err).NotTo(HaveOccurred())
	h.cache = informer.For(here.Client().CoreV1().Secrets(""), nil)
	h.set = children.New(ownerKind, there.Client().CoreV1().ConfigMaps, h.cache, here.Client().CoreV1().Secrets, inOrder(o))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.cache.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		h.Expect(<-ended).To(Succeed())
	})
	synctest.Wait()
	return h
}

func (h *hub) owner() *corev1.ConfigMap {
	h.t.Helper()
	owner, err := h.user.CoreV1().ConfigMaps("d").Create(h.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "site"}}, metav1.CreateOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	return owner
}

func (h *hub) ensure(owner *corev1.ConfigMap, names ...string) error {
	h.t.Helper()
	_, err := h.set.Ensure(h.t.Context(), owner, wants(names...)...)
	synctest.Wait()
	return err
}

func (h *hub) deleteOrphans() error {
	err := h.set.DeleteOrphans(h.t.Context(), key("site"))
	synctest.Wait()
	return err
}

// has returns the origins of the children, by name.
func (h *hub) has() map[string]string {
	h.t.Helper()
	all, err := h.spoke.CoreV1().Secrets("d").List(h.t.Context(), metav1.ListOptions{})
	h.Expect(err).NotTo(HaveOccurred())
	origins := map[string]string{}
	for _, s := range all.Items {
		origins[s.Name] = s.Labels["homeostat.dev/owner-origin"]
	}
	return origins
}

func from(origin string) *children.Options { return &children.Options{ByLabel: true, Origin: origin} }

// Two management clusters keep children in the same cluster. Each API server
// says, truthfully, that it does not have the owners of the other one.
func TestTheChildrenOfAnotherClustersOwnersAreNeitherTakenNorDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spoke, err := apisim.New(nil)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		blue, green := newHub(t, spoke, "http://blue", from("blue")), newHub(t, spoke, "http://green", from("green"))
		owner := blue.owner()
		blue.Expect(blue.ensure(owner, "a", "b")).To(Succeed())
		blue.Expect(green.deleteOrphans()).To(Succeed())
		blue.Expect(blue.has()).To(Equal(map[string]string{"a": "blue", "b": "blue"}))

		namesake := green.owner()
		err = green.ensure(namesake, "a", "c")
		blue.Expect(err).To(MatchError(children.ErrForeign))
		blue.Expect(err).To(MatchError(ContainSubstring(`ConfigMap "d/site" of "blue" owns it by its labels`)))
		blue.Expect(green.ensure(namesake, "c")).To(Succeed())
		blue.Expect(blue.ensure(owner, "a")).To(Succeed())
		blue.Expect(blue.has()).To(Equal(map[string]string{"a": "blue", "c": "green"}))

		moved, err := blue.spoke.CoreV1().Secrets("d").Get(t.Context(), "a", metav1.GetOptions{})
		blue.Expect(err).NotTo(HaveOccurred())
		moved.Name, moved.UID, moved.ResourceVersion = "m", "", ""
		moved.Labels["homeostat.dev/owner-origin"], moved.Annotations["homeostat.dev/child"] = "green", "d/m"
		_, err = blue.spoke.CoreV1().Secrets("d").Create(t.Context(), moved, metav1.CreateOptions{})
		blue.Expect(err).NotTo(HaveOccurred())
		blue.Expect(green.ensure(namesake, "c", "m")).To(Succeed(), "it has been given to green")
		moved, err = blue.spoke.CoreV1().Secrets("d").Get(t.Context(), "m", metav1.GetOptions{})
		blue.Expect(err).NotTo(HaveOccurred())
		blue.Expect(moved.Labels).To(HaveKeyWithValue("homeostat.dev/owner-uid", string(namesake.UID)))
		blue.Expect(green.ensure(namesake, "c")).To(Succeed())

		blue.Expect(blue.user.CoreV1().ConfigMaps("d").Delete(t.Context(), "site", metav1.DeleteOptions{})).To(Succeed())
		blue.Expect(green.deleteOrphans()).To(Succeed())
		blue.Expect(blue.deleteOrphans()).To(Succeed())
		blue.Expect(blue.has()).To(Equal(map[string]string{"c": "green"}))
	})
}

// Before Options.Origin was set, the children did not get the label.
func TestAnOwnersChildrenGetItsOriginLater(t *testing.T) {
	inFixture(t, byLabel, func(w *fixture) {
		w.Expect(w.ensure("a", "b")).To(Succeed())
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, from("blue"))
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.has()).To(Equal([]string{"a"}))
		w.Expect(w.secret("a").Labels).To(HaveKeyWithValue("homeostat.dev/owner-origin", "blue"))
		w.set = children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, w.client.CoreV1().Secrets, byLabel)
		w.Expect(w.ensure("a")).To(Succeed())
		w.Expect(w.secret("a").Labels).NotTo(HaveKey("homeostat.dev/owner-origin"))
	})
}

func TestOwnersInAnotherClusterNeedAnOrigin(t *testing.T) {
	for way, o := range map[string]*children.Options{
		"set children.Options.Origin to": byLabel, "set children.Options.ByLabel and Origin": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			spoke, err := apisim.New(nil)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			named, unnamed := newHub(t, spoke, "http://blue", from("blue")), newHub(t, spoke, "http://green", o)
			err = unnamed.ensure(unnamed.owner(), "a")
			named.Expect(err).To(MatchError(And(ContainSubstring("http://green"), ContainSubstring("http://apisim"),
				ContainSubstring(way))))
			named.Expect(terminal.Is(err)).To(BeTrue())
			named.Expect(named.has()).To(BeEmpty())
		})
	}
	synctest.Test(t, func(t *testing.T) { // owners that a dynamic client reads
		spoke, err := apisim.New(nil)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		hub := newHub(t, spoke, "http://blue", byLabel)
		there := dynamic.NewForConfigOrDie(&rest.Config{Host: "http://blue"}).Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		set := children.New(ownerKind, patch.Dynamic(there), hub.cache, hub.spoke.CoreV1().Secrets, byLabel)
		_, err = set.Ensure(t.Context(), hub.owner(), wants("a")...)
		hub.Expect(err).To(MatchError(ContainSubstring("set children.Options.Origin")))
	})
	synctest.Test(t, func(t *testing.T) {
		spoke, err := apisim.New(nil)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		old, unnamed := newHub(t, spoke, "http://apisim", byLabel), newHub(t, spoke, "http://green", byLabel)
		old.Expect(old.ensure(old.owner(), "a")).To(Succeed())
		err = unnamed.deleteOrphans()
		old.Expect(err).To(MatchError(ContainSubstring("set children.Options.Origin")))
		old.Expect(terminal.Is(err)).To(BeTrue())
		old.Expect(old.has()).To(HaveLen(1))
	})
}
