package shard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

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

// The state that probes and status pages show.
func ExampleShards_Status() {
	shards, err := shard.New(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "ingress", Identity: "ingress-7d9f",
	}, &shard.Options{Slots: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	err = shards.Run(ctx, func(ctx context.Context, _ int) error {
		status := shards.Status()
		fmt.Println(len(status.Members), "member,", status.Count(shard.Here), "slot here")
		fmt.Println("readyz:", shards.Ready(), "livez:", shards.Healthy())
		stop()
		<-ctx.Done()
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 member, 1 slot here
	// readyz: <nil> livez: <nil>
	// <nil>
}

// Without a membership that the others believe in, nothing is written.
func ExampleShards_Fence() {
	shards, err := shard.New(leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "ingress", Identity: "ingress-7d9f",
	}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fenced, err := kubernetes.NewForConfig(shards.Fence(&rest.Config{Host: "https://api.example"}))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = fenced.CoreV1().Nodes().Delete(context.Background(), "n1", metav1.DeleteOptions{})
	fmt.Println(errors.Is(err, leader.ErrFenced))
	// Output: true
}
