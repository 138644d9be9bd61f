package stage

import (
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/cluster"
)

// Reach returns config as a program has it: writes of reconciles are seen. It panics if
// config is not usable.
func Reach(config *rest.Config) *cluster.Cluster {
	c, err := cluster.New(config, nil)
	if err != nil {
		panic(err)
	}
	return c
}

// Client returns a client of Reach's server.
func Client(config *rest.Config) kubernetes.Interface {
	return Reach(config).Client()
}
