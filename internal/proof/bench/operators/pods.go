package main

import "fmt"

const registerPods = "sharedInformerFactory.InformerFor(&v1.Pod{}, newPods)"

// newPods is the text of a Go file. Its function newPods makes the informer of
// Pods, which the program registers in its factory of client-go.
const newPods = `package descheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/informer/clientgo"
)

func newPods(client clientset.Interface, resync time.Duration) cache.SharedIndexInformer {
	pods := client.CoreV1().Pods(v1.NamespaceAll)
	all := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, o)
		},
	}, client)
	return clientgo.NewSharedIndexInformer(all, &v1.Pod{}, resync,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}
`

const (
	wrapConfig    = "cfg.Wrap(clientgo.ReuseSpecs)"
	withTransform = "informers.WithTransform(clientgo.DropManagedFields)"
)

// deschedulers returns the variants of the descheduler.
func deschedulers() []variant {
	const file, client = "pkg/descheduler/descheduler.go", "pkg/descheduler/client/client.go"
	files := map[string]string{"pkg/descheduler/newpods.go": newPods}
	const imports = "import (\n\t\"github.com/homeostat/homeostat/informer/clientgo\"\n"
	register := edit{
		file, "\n\tvar eventClient clientset.Interface\n",
		"\t" + registerPods + "\n\n\tvar eventClient clientset.Interface\n",
	}
	return []variant{
		{Name: released},
		{Name: informer, Line: registerPods, Files: files, Edits: []edit{register}},
		{
			Name: reusing, Line: wrapConfig + "`, `" + withTransform, Files: files,
			Edits: []edit{
				register,
				{file, "informers.WithTransform(trimManagedFields)", withTransform},
				{client, "\tif len(userAgt) != 0 {\n", "\t" + wrapConfig + "\n\tif len(userAgt) != 0 {\n"},
				{file, "import (\n", imports},
				{client, "import (\n", imports},
			},
		},
	}
}

const tooManyRestarts = 1_000_000

// deschedulerPolicy evicts Pods that have restarted too often.
var deschedulerPolicy = fmt.Sprintf(`apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - name: DefaultEvictor
  - name: RemovePodsHavingTooManyRestarts
    args: {podRestartThreshold: %d}
  plugins:
    deschedule:
      enabled: [RemovePodsHavingTooManyRestarts]
`, tooManyRestarts)
