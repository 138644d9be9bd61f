package metrics_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/metrics"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/inspect"
)

// A program that has its own registry registers the collectors there. Package
// operator registers them itself.
func ExampleNew() {
	maps := informer.For(fake.NewClientset().CoreV1().ConfigMaps(""), nil)
	c, err := reconcile.New("owners", maps, reconcile.Func[*corev1.ConfigMap](
		func(context.Context, reconcile.Request[*corev1.ConfigMap]) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Enqueue(reconcile.Key{Namespace: "shop", Name: "a"}, reconcile.Key{Namespace: "shop", Name: "b"})

	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(c))
	families, err := registry.Gather()
	for _, family := range families {
		if family.GetName() == "workqueue_depth" {
			metric := family.GetMetric()[0]
			fmt.Println(metric.GetLabel()[0].GetValue(), metric.GetGauge().GetValue())
		}
	}
	fmt.Println(err)
	// Output:
	// owners 2
	// <nil>
}

// The requests of all clients of the process are counted as other controllers
// count them.
func ExampleRequests() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Requests())

	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	_, err := client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
	fmt.Println(err != nil)
	families, err := registry.Gather()
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range metric.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if strings.HasSuffix(server.URL, labels["host"]) {
				fmt.Println(labels["method"], labels["code"], metric.GetCounter().GetValue())
			}
		}
	}
	fmt.Println(err)
	// Output:
	// true
	// GET 404 1
	// <nil>
}

// A program reports the problems in spite of which it keeps working, by cause.
func ExampleProblems() {
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Problems(func() []inspect.Problem {
		return []inspect.Problem{{Check: "cluster/west", Cause: "unreachable", Reason: "dial tcp 10.0.0.1:443: i/o timeout"}}
	}))
	families, err := registry.Gather()
	for _, family := range families {
		metric := family.GetMetric()[0]
		for _, label := range metric.GetLabel() {
			fmt.Println(label.GetName(), label.GetValue())
		}
		fmt.Println(family.GetName(), metric.GetGauge().GetValue())
	}
	fmt.Println(err)
	// Output:
	// cause unreachable
	// check cluster/west
	// homeostat_problems 1
	// <nil>
}

// A program on controller-runtime or client-go shows the informers that it has
// made with clientgo.Informers.
func ExampleInformers() {
	var informers clientgo.Informers
	informers.New(&cache.ListWatch{}, &corev1.Pod{}, 0, nil)
	informers.New(&cache.ListWatch{}, &corev1.Pod{}, 0, nil) // for another namespace, for example

	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.Informers(informers.Status))
	families, err := registry.Gather()
	for _, family := range families {
		if family.GetName() == "homeostat_informer_objects" {
			for _, metric := range family.GetMetric() {
				fmt.Println(metric.GetLabel()[0].GetValue(), metric.GetGauge().GetValue())
			}
		}
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// pods 0
	// pods-2 0
}
