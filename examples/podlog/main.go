// Command podlog logs the life of every Pod. README.md explains each line.
package main

import (
	"context"
	"os"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
)

type podlog struct{ logged sync.Map } // the *corev1.Pod of each key, as it was last logged

func (p *podlog) Reconcile(ctx context.Context, request reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
	log := logr.FromContextOrDiscard(ctx)
	pod, exists := request.Object()
	value, _ := p.logged.Swap(request.Key, pod)
	previous, _ := value.(*corev1.Pod)
	if previous != nil && (!exists || pod.UID != previous.UID) {
		log.Info("deleted", "uid", previous.UID)
		previous = nil
	}
	switch {
	case !exists:
		p.logged.Delete(request.Key)
	case previous == nil:
		log.Info("created", "uid", pod.UID, "resourceVersion", pod.ResourceVersion)
	case pod.ResourceVersion != previous.ResourceVersion:
		log.Info("updated", "uid", pod.UID, "resourceVersion", pod.ResourceVersion)
	}
	return reconcile.Result{}, nil
}

func setup(env operator.Env) ([]*reconcile.Controller, error) {
	pods := informer.For(env.Cluster.Client().CoreV1().Pods(""), nil)
	controller, err := reconcile.New("podlog", pods, &podlog{}, env.Options())
	return []*reconcile.Controller{controller}, err
}

func main() {
	podlog := operator.Program{Name: "podlog", Needs: []string{"list,watch pods"}, Setup: setup}
	os.Exit(podlog.Main(os.Args[1:], os.Stderr))
}
