package samplecontroller

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/queue"
)

// Program is a sample-controller with leader election. All fields are required.
type Program struct {
	// Client is the client for writes. It must be made from
	// elector.Fence(config), so that it can write only while this replica
	// leads.
	Client  kubernetes.Interface
	Factory informers.SharedInformerFactory
	Elector *leader.Elector
}

// Run waits until this replica leads, and runs the controller until the
// leadership ends. After that the process should exit, so that the kubelet
// restarts it. Programs with client-go's leaderelection work in the same way.
func (p *Program) Run(ctx context.Context) error {
	p.start(ctx)
	return p.Elector.RunOnce(ctx, p.term)
}

// Campaign runs the controller whenever this replica leads. When it has lost
// the leadership, it waits until it leads again, so the process need not
// restart and its caches stay filled.
func (p *Program) Campaign(ctx context.Context) error {
	p.start(ctx)
	return p.Elector.Run(ctx, p.term)
}

// start starts the informers, even while this replica does not lead. ctx must
// outlive the leadership, because a stopped informer cannot be started again.
func (p *Program) start(ctx context.Context) {
	p.Factory.Core().V1().ConfigMaps().Informer()
	p.Factory.StartWithContext(ctx)
}

// term creates a controller for one term of leadership, and runs it.
func (p *Program) term(ctx context.Context) error {
	keys, err := queue.New[cache.ObjectName](nil)
	if err != nil {
		return err
	}
	c, err := NewController(p.Client, p.Factory.Core().V1().ConfigMaps(), keys)
	if err != nil {
		return err
	}
	return c.Run(ctx, 2)
}
