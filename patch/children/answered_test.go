package children_test

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch/children"
)

// answering is a client whose creations are answered with another object.
type answering struct {
	typedcorev1.SecretInterface
	answer *corev1.Secret
}

func (a answering) Create(context.Context, *corev1.Secret, metav1.CreateOptions) (*corev1.Secret, error) {
	return a.answer, nil
}

// A proxy answers a creation with an object that exists, so the child does not
// exist, and the children that it replaces must stay.
func TestAnotherObjectInTheAnswerToACreationIsNotAChild(t *testing.T) {
	for name, o := range map[string]*children.Options{"by reference": nil, "by label": {ByLabel: true}} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, o, func(w *fixture) {
				w.Expect(w.ensure("old")).To(Succeed())
				yes := true
				for name, m := range map[string]metav1.ObjectMeta{
					"of another owner": {OwnerReferences: []metav1.OwnerReference{
						{APIVersion: "v1", Kind: "Node", Name: "n", UID: "other", Controller: &yes},
					}},
					"of nobody": {},
				} {
					m.Namespace, m.Name, m.UID, m.ResourceVersion = "d", "new", "77", "3"
					set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, w.secrets, func(namespace string) answering {
						return answering{w.client.CoreV1().Secrets(namespace), &corev1.Secret{ObjectMeta: m}}
					}, o)
					_, err := set.Ensure(w.t.Context(), w.owner, wants("new")...)
					w.Expect(err).To(MatchError(ContainSubstring("perhaps a proxy or gateway")), name)
					w.Expect(w.has()).To(Equal([]string{"old"}), name)
				}
			})
		})
	}
}

// The owner must not go while one of its children is left.
func TestDeleteAllNamesTheChildrenThatCannotBeRead(t *testing.T) {
	for name, o := range map[string]*children.Options{"by reference": nil, "by label": {ByLabel: true}} {
		t.Run(name, func(t *testing.T) {
			inFixture(t, o, func(w *fixture) {
				w.Expect(w.ensure("a", "b", "c")).To(Succeed())
				other := w.newOwner("other")
				_, err := w.set.Ensure(w.t.Context(), other, wants("x")...)
				w.Expect(err).NotTo(HaveOccurred())
				secrets := informer.For(w.client.CoreV1().Secrets(""), &informer.Options{
					Transform: func(obj informer.Object) {
						if name := obj.GetName(); name == "b" || name == "x" {
							panic("this object cannot be read")
						}
					},
				})
				ctx, stop := context.WithCancel(w.t.Context())
				ended := make(chan error, 1)
				go func() { ended <- secrets.Run(ctx) }()
				synctest.Wait()
				set := children.New(ownerKind, w.client.CoreV1().ConfigMaps, secrets, w.client.CoreV1().Secrets, inOrder(o))
				now := metav1.Now()
				w.owner.DeletionTimestamp = &now
				err = set.DeleteAll(w.t.Context(), w.owner)
				w.Expect(err).To(MatchError(ContainSubstring(`child "d/b" cannot be read: correct or delete it`)))
				w.Expect(err).NotTo(MatchError(ContainSubstring(`"d/x"`)), "it belongs to another owner")
				w.Expect(w.has()).To(Equal([]string{"b", "x"}))
				w.Expect(w.user.CoreV1().Secrets("d").Delete(w.t.Context(), "b", metav1.DeleteOptions{})).To(Succeed())
				w.Expect(set.DeleteAll(w.t.Context(), w.owner)).To(Succeed())
				stop()
				w.Expect(<-ended).To(Succeed())
			})
		})
	}
}
