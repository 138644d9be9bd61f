//go:build e2e

package apisim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/apisim"
)

// eventRows returns the values of an event's fields that are tried one by one:
// the longest that the server accepts, and one byte more. A nil value leaves
// the field out.
func eventRows() map[string]map[string]any {
	rows := map[string]map[string]any{}
	for field, most := range map[string]int{
		"note": 1024, "message": 1024, "reason": 128, "action": 128, "reportingInstance": 128,
		"reportingController": 63, "reportingComponent": 63,
	} {
		rows[field+" is as long as it may be"] = map[string]any{field: strings.Repeat("x", most)}
		rows[field+" is too long"] = map[string]any{field: strings.Repeat("x", most+1)}
		rows[field+" is of long letters"] = map[string]any{field: strings.Repeat("ü", most)}
	}
	for _, field := range []string{
		"reason", "action", "reportingInstance", "type", "eventTime", "reportingController", "reportingComponent",
	} {
		rows["there is no "+field] = map[string]any{field: nil}
	}
	rows["the type is unknown"] = map[string]any{"type": "Strange"}
	return rows
}

// eventOf returns an event of a version with other values in some fields.
func eventOf(version schema.GroupVersion, timed bool, values map[string]any) *unstructured.Unstructured {
	pod := map[string]any{"kind": "Pod", "namespace": "limits", "name": "p"}
	obj := map[string]any{
		"apiVersion": version.String(), "kind": "Event",
		"metadata": map[string]any{"generateName": "e-", "namespace": "limits"},
		"reason":   "Tested", "type": "Normal", "action": "Test", "reportingInstance": "i",
	}
	if timed {
		obj["eventTime"] = "2026-01-01T00:00:00.000000Z"
	}
	if version == corev1.SchemeGroupVersion {
		obj["involvedObject"], obj["reportingComponent"] = pod, "c.example.com/x"
	} else {
		obj["regarding"], obj["reportingController"] = pod, "c.example.com/x"
	}
	for field, value := range values {
		if obj[field] = value; value == nil {
			delete(obj, field)
		}
	}
	return &unstructured.Unstructured{Object: obj}
}

// refusalOf creates an event, and returns what the server answers.
func refusalOf(ctx context.Context, config *rest.Config, event *unstructured.Unstructured) string {
	events := event.GroupVersionKind().GroupVersion().WithResource("events")
	_, err := dynamic.NewForConfigOrDie(config).Resource(events).Namespace("limits").
		Create(ctx, event, metav1.CreateOptions{})
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return fmt.Sprint(err)
	}
	var causes []string
	if details := status.Status().Details; details != nil {
		for _, c := range details.Causes {
			causes = append(causes, fmt.Sprintf("%s %s: %s", c.Type, c.Field, c.Message))
		}
	}
	return fmt.Sprintf("%d %s\n%s", status.Status().Code, status.Status().Reason, strings.Join(causes, "\n"))
}

// The simulated server refuses the same events as the real one, with the same
// causes.
func TestE2ELimitsOfEvents(t *testing.T) {
	g := gomega.NewWithT(t)
	ctx, cluster := t.Context(), conformanceCluster(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	for _, config := range []*rest.Config{cluster.Config(), sim.Admin()} {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limits"}}, metav1.CreateOptions{})
		g.Expect(err).NotTo(gomega.HaveOccurred())
	}
	refused := 0
	for _, version := range []schema.GroupVersion{corev1.SchemeGroupVersion, {Group: "events.k8s.io", Version: "v1"}} {
		for _, timed := range []bool{true, false} {
			for name, values := range eventRows() {
				event := eventOf(version, timed, values)
				want := refusalOf(ctx, cluster.Config(), event.DeepCopy())
				if want != "<nil>" {
					refused++
				}
				if have := refusalOf(ctx, sim.Admin(), event); have != want {
					t.Errorf("%v, with a time: %v, %s: %s\nwant %s", version, timed, name, have, want)
				}
			}
		}
	}
	g.Expect(refused).To(gomega.BeNumerically(">", 10), "the real server refuses some")
}
