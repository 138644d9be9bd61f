package shard_test

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

func ExampleNewRanges() {
	clientset := fake.NewClientset()
	shards, err := shard.NewRanges(leader.Lease{
		Client: clientset.CoordinationV1(), Namespace: "default", Name: "ingress", Identity: "ingress-7d9f",
	}, nil)
	fmt.Println(err)
	fmt.Println(shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "web"}) ==
		shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "api"}))
	// Output:
	// <nil>
	// true
}

func ExampleShards() {
	clientset := fake.NewClientset()
	shards, err := shard.New(leader.Lease{
		Client: clientset.CoordinationV1(), Namespace: "default", Name: "ingress", Identity: "ingress-7d9f",
	}, &shard.Options{Slots: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var slots sync.WaitGroup
	slots.Add(4)
	go func() { slots.Wait(); stop() }()
	err = shards.Run(ctx, func(ctx context.Context, slot int) error {
		slots.Done() // caches fresh, keys of the slot taken up, workers started
		<-ctx.Done()
		return nil // reconciles in flight have ended: now another replica may have the slot
	})
	fmt.Println(err)
	fmt.Println(shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "web"}) ==
		shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "api"}))
	// Output:
	// <nil>
	// true
}
