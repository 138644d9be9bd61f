package stage

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// Reach returns a Cluster for config, like the programs of the examples do. It
// observes the writes of reconciles. Reach panics if config is not usable.
func Reach(config *rest.Config) *cluster.Cluster {
	c, err := cluster.New(config, nil)
	if err != nil {
		panic(err)
	}
	return c
}

// Client returns a client that sends its requests through the Cluster of
// [Reach].
func Client(config *rest.Config) kubernetes.Interface {
	return Reach(config).Client()
}
