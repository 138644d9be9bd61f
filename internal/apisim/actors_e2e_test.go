//go:build e2e

package apisim_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/conformance"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// TestE2EDeployment records, with -update, the objects that the real
// controllers make of a Deployment. There are no kubelets: the test sets its
// Pods ready.
func TestE2EDeployment(t *testing.T) {
	g := gomega.NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cluster, err := e2e.Start(ctx, nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	t.Cleanup(func() { _ = cluster.Stop() })
	namespace, err := cluster.Namespace(ctx, "conf-deployment")
	g.Expect(err).NotTo(gomega.HaveOccurred())
	client := kubernetes.NewForConfigOrDie(cluster.Config())
	_, err = client.AppsV1().Deployments(namespace).Create(ctx, web(namespace), metav1.CreateOptions{})
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Eventually(func() error { return runPods(ctx, client, namespace) }).WithTimeout(time.Minute).Should(gomega.Succeed())
	g.Eventually(func() error { return complete(ctx, client, namespace) }).WithTimeout(time.Minute).Should(gomega.Succeed())

	asRecorded(t, cluster)
	got := picture(t, namespace, fetch(ctx, t, cluster, namespace))
	if *update {
		g.Expect(os.MkdirAll("testdata/actors", 0o750)).To(gomega.Succeed())
		g.Expect(os.WriteFile(conformance.Golden(deploymentFile), []byte(got), 0o600)).To(gomega.Succeed())
	}
	compare(t, deploymentFile, got)
}

var errNotYet = errors.New("not yet")

// runPods binds the two Pods and says that they are ready.
func runPods(ctx context.Context, client kubernetes.Interface, namespace string) error {
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) < 2 {
		return errors.Join(err, errNotYet)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName == "" {
			err := client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: p.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
			}, metav1.CreateOptions{})
			return errors.Join(err, errNotYet)
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		}}
		if _, err := client.CoreV1().Pods(namespace).UpdateStatus(ctx, &p, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// complete waits for the final status: all Pods are available, and the
// Deployment has progressed.
func complete(ctx context.Context, client kubernetes.Interface, namespace string) error {
	d, err := client.AppsV1().Deployments(namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable" &&
			d.Status.AvailableReplicas == 2 && d.Status.ObservedGeneration == d.Generation {
			return nil
		}
	}
	status, _ := json.Marshal(d.Status)
	return errors.Join(errNotYet, errors.New(string(status)))
}

func fetch(ctx context.Context, t *testing.T, cluster *e2e.Cluster, namespace string) []*unstructured.Unstructured {
	t.Helper()
	client := dynamic.NewForConfigOrDie(cluster.Config())
	var all []*unstructured.Unstructured
	for _, r := range []struct{ group, resource string }{{"apps", "deployments"}, {"apps", "replicasets"}, {"", "pods"}} {
		gvr := appsv1.SchemeGroupVersion.WithResource(r.resource)
		gvr.Group = r.group
		list, err := client.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	return all
}
