package bound_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/bound"
)

func TestClientsShowTheirNamespace(t *testing.T) {
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	set := kubernetes.NewForConfigOrDie(config)
	custom := func(namespace string) *gentype.Client[*corev1.Pod] {
		return gentype.NewClient("pods", set.CoreV1().RESTClient(), nil, namespace, func() *corev1.Pod { return &corev1.Pod{} })
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for name, c := range map[string]struct {
		of      func(namespace string) any
		visible bool
	}{
		"metadata": {func(namespace string) any {
			return metadata.NewForConfigOrDie(config).Resource(pods).Namespace(namespace)
		}, true},
		"embedded": {func(namespace string) any {
			return embedding{dynamic.NewForConfigOrDie(config).Resource(pods).Namespace(namespace)}
		}, true},
		"embedded, of all namespaces": {func(string) any {
			return embedding{dynamic.NewForConfigOrDie(config).Resource(pods)}
		}, false},
		"written by hand": {func(namespace string) any { return struct{ namespace string }{namespace} }, false},
		"generated":       {func(namespace string) any { return set.CoreV1().Pods(namespace) }, true},
		"gentype":         {func(namespace string) any { return custom(namespace) }, true},
		"fake":            {func(namespace string) any { return fake.NewClientset().CoreV1().Pods(namespace) }, true},
		"dynamic": {func(namespace string) any {
			return dynamic.NewForConfigOrDie(config).Resource(pods).Namespace(namespace)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}
			_, err := bound.ClientFor(c.of, pod)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = bound.ClientFor(func(string) any { return c.of("b") }, pod)
			if !c.visible {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(`the client is for namespace "b"`)))
		})
	}
}

// embedding is a client as programs wrap it.
type embedding struct{ dynamic.ResourceInterface }
