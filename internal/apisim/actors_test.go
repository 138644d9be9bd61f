package apisim_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/homeostat/homeostat/internal/test/conformance"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
	"github.com/homeostat/homeostat/reconcile/reconciletest/actors"
)

const deploymentFile = "testdata/actors/deployment.txt"

// web returns the Deployment whose ReplicaSet and Pods both worlds create.
func web(namespace string) *appsv1.Deployment {
	labels, size := map[string]string{"run": "web"}, int32(2)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

// TestDeploymentEndsAsOnTheRealServer compares the actors of package
// reconciletest with the real controllers, for a Deployment whose Pods have
// become ready. TestE2EDeployment recorded the result.
func TestDeploymentEndsAsOnTheRealServer(t *testing.T) {
	const namespace = "conf-deployment"
	got := ""
	c := &reconciletest.Case{
		Objects: []runtime.Object{web(namespace)},
		Run: func(env *reconciletest.Env) error {
			w, err := env.Client().AppsV1().Deployments(namespace).Watch(env.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			defer w.Stop()
			<-env.Context().Done()
			return nil
		},
		Actors: []reconciletest.Actor{actors.Kubelet(nil), actors.Deployments()},
		Goal: func(w *reconciletest.World) error {
			if got != "" {
				return nil // an earlier run, with another seed, has recorded the result
			}
			var all []*unstructured.Unstructured
			for _, resource := range []string{"deployments.apps", "replicasets.apps", "pods"} {
				objects, err := w.Objects(resource)
				if err != nil {
					return err
				}
				all = append(all, objects...)
			}
			got = picture(t, namespace, all)
			return nil
		},
	}
	o := &reconciletest.Options{Budget: time.Nanosecond, KnownFindings: []string{"the Goal holds without the program"}}
	if r := reconciletest.Search(t, c, o); r.Failure != "" {
		t.Fatal(r.Failure)
	}
	compare(t, deploymentFile, got)
}

// picture returns the part of the objects that both worlds must have in common.
// The hash of a template differs, and the simulated world keeps no revisions.
// It omits the status of Pods, which the kubelet writes, or in the real world
// the test.
func picture(t *testing.T, namespace string, all []*unstructured.Unstructured) string {
	t.Helper()
	m, hash := conformance.NewMask(namespace), ""
	var b bytes.Buffer
	for _, o := range all {
		o = o.DeepCopy()
		if h := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]; h != "" {
			hash = h
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations")
		if o.GetKind() == "Pod" {
			unstructured.RemoveNestedField(o.Object, "status")
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n\n", m.Show(raw))
	}
	if hash == "" {
		t.Error("nothing has the hash of a template")
		return b.String()
	}
	return strings.ReplaceAll(b.String(), hash, "$hash")
}
