package samplecontroller

import (
	"context"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/queue"
)

// Program is made by main.
type Program struct {
	// Client writes. Made from elector.Fence(config), it does so only while this
	// replica leads.
	Client  kubernetes.Interface
	Factory informers.SharedInformerFactory
	Elector *leader.Elector
}

// Run leads once: its error should end the process, which the kubelet starts
// again, as in programs with client-go's leaderelection.
func (p *Program) Run(ctx context.Context) error {
	p.start(ctx)
	return p.Elector.RunOnce(ctx, p.term)
}

// Campaign leads again after a loss, without a restart and with warm caches.
func (p *Program) Campaign(ctx context.Context) error {
	p.start(ctx)
	return p.Elector.Run(ctx, p.term)
}

// start starts the informers, even in a standby. ctx must not end with a
// leadership, because a stopped informer cannot start again.
func (p *Program) start(ctx context.Context) {
	p.Factory.Core().V1().ConfigMaps().Informer()
	p.Factory.StartWithContext(ctx)
}

// term makes a controller for one leadership, and runs it.
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
