package children_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/terminal"
	"github.com/homeostat/homeostat/patch/children"
)

func configMap(namespace, name string, uid types.UID) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
}

func secretIn(namespace string, refs ...metav1.OwnerReference) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", OwnerReferences: refs}}
}

// punished are owners in namespaces of children, with the reason.
var punished = map[string]struct {
	owner     *corev1.ConfigMap
	namespace string
}{
	"no UID":                 {configMap("d", "a", ""), "d"},
	"no name":                {configMap("d", "", "1"), "d"},
	`in namespace "e"`:       {configMap("d", "a", "1"), "e"},
	"but its child does not": {configMap("d", "a", "1"), ""},
}

func TestOwnRefusesReferencesThatTheGarbageCollectorPunishes(t *testing.T) {
	for why, c := range punished {
		t.Run(why, func(t *testing.T) {
			g, child := NewWithT(t), secretIn(c.namespace)
			err := children.Own(c.owner, ownerKind, child)
			g.Expect(err).To(MatchError(And(ContainSubstring(why),
				ContainSubstring(`setting the owner of "`+c.namespace+`/s"`))))
			g.Expect(terminal.Is(err)).To(BeTrue())
			g.Expect(child).To(Equal(secretIn(c.namespace)), "unchanged")
		})
	}
	g := NewWithT(t)
	for _, kind := range []schema.GroupVersionKind{{Version: "v1"}, {Kind: "ConfigMap"}} {
		err := children.Own(configMap("d", "a", "1"), kind, secretIn("d"))
		g.Expect(err).To(MatchError(ContainSubstring("must have a version and a kind")))
		g.Expect(terminal.Is(err)).To(BeTrue())
	}
}

func TestOwnRefusesNil(t *testing.T) {
	g := NewWithT(t)
	owner := configMap("d", "a", "1")
	for _, err := range []error{
		children.Own(nil, ownerKind, secretIn("d")), children.Own((*corev1.ConfigMap)(nil), ownerKind, secretIn("d")),
		children.Own(owner, ownerKind, nil), children.Own(owner, ownerKind, (*corev1.Secret)(nil)),
	} {
		g.Expect(err).To(MatchError("setting the owner of a child of a ConfigMap: the owner and the child must not be nil"))
		g.Expect(terminal.Is(err)).To(BeTrue())
	}
}

func TestOwnKeepsOtherReferencesAndRenewsItsOwn(t *testing.T) {
	g := NewWithT(t)
	owner := configMap("d", "a", "1")
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "2"}
	outdated := metav1.OwnerReference{APIVersion: "v0", Kind: "ConfigMap", Name: "a", UID: "1"}
	refs := []metav1.OwnerReference{outdated, other}
	child := secretIn("d", refs...)
	g.Expect(children.Own(owner, ownerKind, child)).To(Succeed())
	g.Expect(child.OwnerReferences).To(Equal([]metav1.OwnerReference{*metav1.NewControllerRef(owner, ownerKind), other}))
	g.Expect(refs[0]).To(Equal(outdated), "a list that the cache may share is not written to")
	before := child.DeepCopy()
	g.Expect(children.Own(owner, ownerKind, child)).To(Succeed())
	g.Expect(child).To(Equal(before))
}

func TestAClusterScopedOwnerMayOwnEverything(t *testing.T) {
	g := NewWithT(t)
	for _, namespace := range []string{"", "d", "e"} {
		child := secretIn(namespace)
		g.Expect(children.Own(configMap("", "a", "1"), ownerKind, child)).To(Succeed())
		g.Expect(metav1.IsControlledBy(child, configMap("", "a", "1"))).To(BeTrue())
	}
}

func TestOwnRefusesAChildOfAnotherOwner(t *testing.T) {
	for why, owner := range map[string]*corev1.ConfigMap{
		`ConfigMap "b" with UID "2" controls it: give the child of ConfigMap "d/a" a different name`: configMap("d", "b", "2"),
		`it belongs to a deleted ConfigMap "d/a" of that name, with UID "2"`:                         configMap("d", "a", "2"),
	} {
		g := NewWithT(t)
		child := secretIn("d", *metav1.NewControllerRef(owner, ownerKind))
		before := child.DeepCopy()
		err := children.Own(configMap("d", "a", "1"), ownerKind, child)
		g.Expect(err).To(MatchError(ContainSubstring(why)))
		g.Expect(terminal.Is(err)).To(BeFalse(), "the garbage collector may cure it")
		g.Expect(child).To(Equal(before))
	}
}

func TestAnOwnerWithoutANamespaceIsNamedWithoutASlash(t *testing.T) {
	g, controls := NewWithT(t), true
	child := secretIn("d", metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "2", Controller: &controls})
	err := children.Own(configMap("", "a", "1"), ownerKind, child)
	g.Expect(err).To(MatchError(HaveSuffix(`give the child of ConfigMap "a" a different name`)))
}
