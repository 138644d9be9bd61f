// Command podlog logs what becomes of every Pod. README.md explains each line.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/reconcile"
)

type podlog struct{ logged sync.Map } // the *corev1.Pod of each key, as it was last logged

func (p *podlog) Reconcile(ctx context.Context, request reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
	log := logr.FromContextOrDiscard(ctx)
	pod, exists := request.Object()
	before, _ := p.logged.Swap(request.Key, pod)
	last, _ := before.(*corev1.Pod)
	if last != nil && (!exists || pod.UID != last.UID) {
		log.Info("deleted", "uid", last.UID)
		last = nil
	}
	switch {
	case !exists:
		p.logged.Delete(request.Key)
	case last == nil:
		log.Info("created", "uid", pod.UID, "resourceVersion", pod.ResourceVersion)
	case pod.ResourceVersion != last.ResourceVersion:
		log.Info("updated", "uid", pod.UID, "resourceVersion", pod.ResourceVersion)
	}
	return reconcile.Result{}, nil
}

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "`file` that names the cluster")
	flag.Parse()
	ctx := logr.NewContext(context.Background(), logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	pods := informer.For(kubernetes.NewForConfigOrDie(config).CoreV1().Pods(""), nil)
	if err := reconcile.Run(ctx, "podlog", pods, &podlog{}); err != nil {
		log.Fatal(err)
	}
}
