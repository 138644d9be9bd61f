package ranges_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard/ranges"
)

func ExampleNew() {
	clientset := fake.NewClientset()
	shards, err := ranges.New(leader.Lease{
		Client: clientset.CoordinationV1(), Namespace: "default", Name: "ingress", Identity: "ingress-7d9f",
	}, nil)
	fmt.Println(err)
	fmt.Println(shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "web"}) ==
		shards.Slot(types.NamespacedName{Namespace: "team-a", Name: "api"}))
	// Output:
	// <nil>
	// true
}
