package informer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

func vandalize(p *corev1.Pod) {
	p.Labels["app"] = "other"
	p.Annotations = map[string]string{"new": "1"}
	p.Spec.Containers[0].Image = "evil"
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{})
}

var vandalized = []string{"metadata.annotations", "metadata.labels.app", "spec.containers[0].image", "spec.containers[1]"}

func webPod() *corev1.Pod {
	p := pod("d", "web-1")
	p.Labels = map[string]string{"app": "web"}
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "good"}}
	return p
}

func TestMutationIsFoundAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(webPod(), pod("d", "untouched"))
		pods := informer.For(client.CoreV1().Pods(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		key := types.NamespacedName{Namespace: "d", Name: "web-1"}
		g.Expect(pods.CheckMutations()).To(Succeed())

		web, _ := pods.Get(key)
		vandalize(web)
		g.Expect(pods.CheckMutations(types.NamespacedName{Namespace: "d", Name: "untouched"})).To(Succeed())
		err := pods.CheckMutations(key, types.NamespacedName{Name: "unknown"})
		mutation, ok := errors.AsType[*informer.MutationError](err)
		g.Expect(ok).To(BeTrue())
		g.Expect(mutation).To(Equal(&informer.MutationError{Kind: "Pod", Key: key, Fields: vandalized}))
		g.Expect(err).To(MatchError(ContainSubstring(`the cached Pod "d/web-1" was modified in place (metadata.annotations, `)))
		g.Expect(pods.CheckMutations()).To(Succeed(), "each is told once")

		cancel()
		g.Expect(<-ended).To(MatchError(And(ContainSubstring("informer of pods"), ContainSubstring("d/web-1"))))
	})
}

func TestMutationOfWhatHasLeftTheCacheIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset(webPod())
		pods := informer.For(client.CoreV1().Pods(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		web, _ := pods.Get(types.NamespacedName{Namespace: "d", Name: "web-1"})
		web.Spec.NodeName = "elsewhere"
		synctest.Wait()
		g.Expect(client.CoreV1().Pods("d").Delete(t.Context(), "web-1", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		cancel()
		g.Expect(<-ended).To(MatchError(ContainSubstring("(spec.nodeName)")))
	})
}

func TestMutationOfUnstructured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{widgets: "WidgetList"}, widget("d", "a")).Resource(widgets)
		in := informer.For(informer.Untyped(client), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- in.Run(ctx) }()
		g.Expect(in.WaitForSync(t.Context())).To(Succeed())
		for w := range in.Snapshot().All() {
			w.SetLabels(map[string]string{"color": "red"})
		}
		cancel()
		g.Expect(<-ended).To(MatchError(ContainSubstring(`the cached Widget "d/a" was modified in place (metadata.labels)`)))
	})
}

func TestMutationsAreNotLookedForIfTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := informer.For(fake.NewClientset(webPod()).CoreV1().Pods(""), &informer.Options{MutationCheck: "never"})
		stop := running(t.Context(), pods)
		defer stop()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		web, _ := pods.Get(types.NamespacedName{Namespace: "d", Name: "web-1"})
		vandalize(web)
		g.Expect(pods.CheckMutations()).To(Succeed())
	})
}

func TestManyMutationsAreNotAllReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		const modified, reported = 150, 100
		client := fake.NewClientset()
		for n := range modified {
			g.Expect(client.Tracker().Add(pod("d", fmt.Sprint(n)))).To(Succeed())
		}
		pods := informer.For(client.CoreV1().Pods(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		for p := range pods.Snapshot().All() {
			p.Spec.NodeName = "elsewhere"
		}
		count := func(err error) int { return strings.Count(err.Error(), "was modified in place") }
		g.Expect(count(pods.CheckMutations())).To(Equal(modified))
		cancel()
		g.Expect(count(<-ended)).To(Equal(reported))
	})
}

func TestMutationOfWhatTheWatchHasBroughtIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		pods := informer.For(client.CoreV1().Pods(""), nil)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		_, err := client.CoreV1().Pods("d").Create(t.Context(), webPod(), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		web, _ := pods.Get(types.NamespacedName{Namespace: "d", Name: "web-1"})
		web.Spec.NodeName = "elsewhere"
		cancel()
		g.Expect(<-ended).To(MatchError(ContainSubstring("(spec.nodeName)")))
	})
}
