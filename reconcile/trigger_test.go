package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

func secretOwnedBy(name, kind, owner string) *corev1.Secret {
	controller := true
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "d", Name: name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: owner, UID: "1", Controller: &controller}},
	}}
}

func (w *fixture) startWith(trigger func(*informer.Informer[*corev1.Secret]) reconcile.Trigger) (stop func() error) {
	secrets := informer.For(w.client.CoreV1().Secrets("d"), nil)
	return w.start(&reconcile.Options{Triggers: []reconcile.Trigger{trigger(secrets)}},
		func(_ context.Context, r request) (reconcile.Result, error) {
			w.ran(r.Key.String())
			return nothing, nil
		})
}

func TestOwnedLooksAtTheOwner(t *testing.T) {
	inFixture(t, func(w *fixture) {
		stop := w.startWith(reconcile.Owned[*corev1.Secret])
		w.reconciled()
		secrets := w.client.CoreV1().Secrets("d")
		child, err := secrets.Create(t.Context(), secretOwnedBy("s", "ConfigMap", "a"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(Equal([]string{"d/a"}))

		child = child.DeepCopy()
		child.OwnerReferences[0].Name = "b"
		_, err = secrets.Update(t.Context(), child, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(ConsistOf("d/a", "d/b"), "the child was handed over")

		w.Expect(secrets.Delete(t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"d/b"}))

		_, err = secrets.Create(t.Context(), secretOwnedBy("other", "Deployment", "a"), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(BeEmpty(), "another kind's child")
		w.Expect(stop()).To(Succeed())
	})
}

func TestMappedLooksAtWhatTheMapperSays(t *testing.T) {
	inFixture(t, func(w *fixture) {
		stop := w.startWith(func(in *informer.Informer[*corev1.Secret]) reconcile.Trigger {
			return reconcile.Mapped(in, func(_ context.Context, before, after *corev1.Secret) ([]reconcile.Key, error) {
				switch {
				case before == nil:
					return []reconcile.Key{key("added-" + after.Name)}, nil
				case after == nil:
					return []reconcile.Key{key("deleted-" + before.Name)}, nil
				default:
					return []reconcile.Key{key("updated-" + after.Name)}, nil
				}
			})
		})
		w.reconciled()
		secrets := w.client.CoreV1().Secrets("d")
		s, err := secrets.Create(t.Context(), secretOwnedBy("s", "", ""), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(Equal([]string{"d/added-s"}))
		s = s.DeepCopy()
		s.Labels = map[string]string{"a": "b"}
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(w.reconciled()).To(Equal([]string{"d/updated-s"}))
		w.Expect(secrets.Delete(t.Context(), "s", metav1.DeleteOptions{})).To(Succeed())
		w.Expect(w.reconciled()).To(Equal([]string{"d/deleted-s"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMapperThatFailsIsRetriedWithWhatHasChangedSince(t *testing.T) {
	inFixture(t, func(w *fixture) {
		var failing atomic.Bool
		failing.Store(true)
		stop := w.startWith(func(in *informer.Informer[*corev1.Secret]) reconcile.Trigger {
			return reconcile.Mapped(in, func(_ context.Context, before, after *corev1.Secret) ([]reconcile.Key, error) {
				if failing.Load() && after.Labels["v"] == "2" {
					panic("still failing")
				}
				if failing.Load() {
					return nil, errors.New("failing")
				}
				w.Expect(before).To(BeNil(), "the mapper never saw it")
				return []reconcile.Key{key("for-" + after.Labels["v"])}, nil
			})
		})
		w.reconciled()
		secrets := w.client.CoreV1().Secrets("d")
		s, err := secrets.Create(t.Context(), secretOwnedBy("s", "", ""), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		pass(time.Second)
		s = s.DeepCopy()
		s.Labels = map[string]string{"v": "2"}
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		pass(time.Second)
		w.Expect(w.reconciled()).To(BeEmpty())
		failing.Store(false)
		pass(10 * time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"d/for-2"}))
		w.Expect(strings.Join(w.logged(), "\n")).To(And(ContainSubstring("still failing"), ContainSubstring(`Secret \"d/s\"`)))
		w.Expect(stop()).To(Succeed())
	})
}

// The call has not seen the change, nor has any before it.
func TestAMapperThatFailsDuringAChangeIsCalledWithTheNewestObject(t *testing.T) {
	inFixture(t, func(w *fixture) {
		fails := make(chan error)
		stop := w.startWith(func(in *informer.Informer[*corev1.Secret]) reconcile.Trigger {
			return reconcile.Mapped(in, func(_ context.Context, before, after *corev1.Secret) ([]reconcile.Key, error) {
				if after.Labels == nil {
					return nil, <-fails
				}
				w.Expect(before).To(BeNil())
				return []reconcile.Key{key("for-" + after.Labels["v"])}, nil
			})
		})
		secrets := w.client.CoreV1().Secrets("d")
		s, err := secrets.Create(t.Context(), secretOwnedBy("s", "", ""), metav1.CreateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.reconciled()
		s = s.DeepCopy()
		s.Labels = map[string]string{"v": "2"}
		_, err = secrets.Update(t.Context(), s, metav1.UpdateOptions{})
		w.Expect(err).NotTo(HaveOccurred())
		w.reconciled()
		fails <- errors.New("failing")
		pass(time.Minute)
		w.Expect(w.reconciled()).To(Equal([]string{"d/for-2"}))
		w.Expect(stop()).To(Succeed())
	})
}

func TestAMapperThatHangsKeepsNoOtherObjectWaiting(t *testing.T) {
	inFixture(t, func(w *fixture) {
		release := make(chan struct{})
		var secrets *informer.Informer[*corev1.Secret]
		stop := w.startWith(func(in *informer.Informer[*corev1.Secret]) reconcile.Trigger {
			secrets = in
			return reconcile.Mapped(in, func(_ context.Context, _, after *corev1.Secret) ([]reconcile.Key, error) {
				<-release
				return []reconcile.Key{key("for-" + after.Name)}, nil
			})
		})
		w.reconciled()
		for _, name := range []string{"s", "t"} {
			_, err := w.client.CoreV1().Secrets("d").Create(t.Context(), secretOwnedBy(name, "", ""), metav1.CreateOptions{})
			w.Expect(err).NotTo(HaveOccurred())
		}
		w.create("a")
		w.Expect(w.reconciled()).To(Equal([]string{"d/a"}))
		w.Expect(secrets.Snapshot().Len()).To(Equal(2), "the watch goes on")
		close(release)
		w.Expect(w.reconciled()).To(ConsistOf("d/for-s", "d/for-t"))
		w.Expect(stop()).To(Succeed())
	})
}
