package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
)

// All clients are made from one cluster. Package reconcile sees their writes,
// and they do not throttle themselves.
func ExampleNew() {
	c, err := cluster.New(&rest.Config{Host: "https://api.example.com"}, &cluster.Options{UserAgent: "website-operator"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Config().UserAgent, c.Config().QPS)
	_ = c.Client()   // built-in kinds, by protobuf
	_ = c.Dynamic()  // kinds that are known only at run time
	_ = c.Metadata() // the metadata of any kind
	_, err = cluster.New(&rest.Config{}, nil)
	fmt.Println(err)
	// Output:
	// website-operator -1
	// configuring a cluster: rest.Config.Host is "": must name the server
}

// Website is a custom resource. controller-gen generates its DeepCopy
// functions.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		Replicas int `json:"replicas"`
	} `json:"spec"`
}

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Website `json:"items"`
}

// DeepCopyObject is generated in a program.
func (w *Website) DeepCopyObject() runtime.Object {
	c := *w
	w.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject is generated in a program.
func (l *WebsiteList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = append([]Website(nil), l.Items...)
	return &c
}

var websiteVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

func addWebsites(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(websiteVersion, &Website{}, &WebsiteList{})
	return nil
}

// Typed clients for your own kind need no generated code.
func ExampleNewKind() {
	server := httptest.NewServer(http.HandlerFunc(websiteServer))
	defer server.Close()
	ctx := context.Background()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	websites, err := cluster.NewKind[*Website, *WebsiteList](c, websiteVersion.WithResource("websites"), addWebsites)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = informer.ForNamespaces(websites.In, nil) // read by a cache

	site, err := websites.In("shop").Get(ctx, "home", metav1.GetOptions{})
	fmt.Println(site.Name, site.Spec.Replicas, err)
	site, err = patch.Merge(ctx, websites.In, site, nil, func(edit *Website) { edit.Spec.Replicas = 3 })
	fmt.Println(site.Spec.Replicas, err)
	// Output:
	// home 2 <nil>
	// PATCH {"metadata":{"uid":"1f"},"spec":{"replicas":3}}
	// 3 <nil>
}

// A kind may have the scale subresource.
func ExampleKindClient_GetScale() {
	server := httptest.NewServer(http.HandlerFunc(websiteServer))
	defer server.Close()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	websites, err := cluster.NewKind[*Website, *WebsiteList](c, websiteVersion.WithResource("websites"), addWebsites)
	if err != nil {
		fmt.Println(err)
		return
	}
	scale, err := websites.In("shop").GetScale(context.Background(), "home", metav1.GetOptions{})
	fmt.Println(scale.Spec.Replicas, err)
	// Output: 2 <nil>
}

// An autoscaler reads and writes only the scale of an object.
func ExampleKindClient_UpdateScale() {
	server := httptest.NewServer(http.HandlerFunc(websiteServer))
	defer server.Close()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	websites, err := cluster.NewKind[*Website, *WebsiteList](c, websiteVersion.WithResource("websites"), addWebsites)
	if err != nil {
		fmt.Println(err)
		return
	}
	want := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	scale, err := websites.In("shop").UpdateScale(context.Background(), "home", want, metav1.UpdateOptions{})
	fmt.Println(scale.Spec.Replicas, err)
	// Output: 5 <nil>
}

// Without Check, a plural that the server does not serve would only show up as
// an informer that never syncs.
func ExampleKind_Check() {
	server := httptest.NewServer(http.HandlerFunc(websiteServer))
	defer server.Close()
	c, err := cluster.New(&rest.Config{Host: server.URL}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	wrong, err := cluster.NewKind[*Website, *WebsiteList](c, websiteVersion.WithResource("website"), addWebsites)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = wrong.Check(context.Background())
	fmt.Println(errors.Is(err, cluster.ErrKind))
	fmt.Println(err)
	// Output:
	// true
	// checking that the server has website.example.com: the server has no such kind: kind Website is served as "websites"
}

// websiteServer is an API server with one Website, whose discovery knows the
// kind.
func websiteServer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	replicas := 2
	switch {
	case r.URL.Path == "/apis/example.com/v1":
		_, _ = fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1",
			"resources":[{"name":"websites","singularName":"website","namespaced":true,"kind":"Website","verbs":["get"]}]}`)
		return
	case strings.HasSuffix(r.URL.Path, "/scale") && r.Method == http.MethodPut:
		_, _ = io.Copy(w, r.Body)
		return
	case strings.HasSuffix(r.URL.Path, "/scale"):
		_, _ = fmt.Fprint(w, `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":2}}`)
		return
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, string(body))
		replicas = 3
	}
	_, _ = fmt.Fprintf(w, `{"apiVersion":"example.com/v1","kind":"Website",
		"metadata":{"namespace":"shop","name":"home","uid":"1f","resourceVersion":"7"},"spec":{"replicas":%d}}`, replicas)
}
