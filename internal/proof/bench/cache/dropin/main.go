// Command dropin prints how much heap a shared informer of 20,000 Pods uses,
// and how long its first list took. The informer is client-go's or the one of
// package clientgo. It is not a benchmark of package testing, because informers
// keep a second copy of each object in tests.
//
//	go run ./cache/dropin client-go; go run ./cache/dropin clientgo
package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/apart"
	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

const pods = 20_000

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dropin client-go|clientgo")
		os.Exit(1)
	}
	if err := measure(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dropin:", err)
		os.Exit(1)
	}
}

func measure(which string) error {
	made, err := load.NewServer(pods, load.Pod)
	if err != nil {
		return err
	}
	server := httptest.NewServer(made)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeProtobuf},
	})
	if err != nil {
		return err
	}
	before := apart.Heap()
	factory := informers.NewSharedInformerFactory(client, 0)
	if which == "clientgo" {
		factory.InformerFor(&corev1.Pod{}, newInformer)
	}
	shared := factory.Core().V1().Pods().Informer()
	began := time.Now()
	ctx := context.Background()
	factory.StartWithContext(ctx)
	cache.WaitFor(ctx, "", shared.HasSyncedChecker())
	took := time.Since(began)
	after := apart.Heap()
	fmt.Printf("%s: %d Pods, %d MiB, first list in %v\n", which, len(shared.GetStore().ListKeys()),
		(after.HeapAlloc-before.HeapAlloc)>>20, took.Round(time.Millisecond)) //nolint:mnd // MiB
	return nil
}

func newInformer(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
	source := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", "", func(*metav1.ListOptions) {})
	return clientgo.NewSharedIndexInformer(source, &corev1.Pod{}, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}
