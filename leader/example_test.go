package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/leader"
)

func ExampleRun() {
	clientset := fake.NewClientset()
	lease := leader.Lease{
		Client:    clientset.CoordinationV1(),
		Namespace: "default",
		Name:      "reboot",
		Identity:  "reboot-7d9f",
	}
	err := leader.Run(context.Background(), lease, nil, func(ctx context.Context) error {
		fmt.Println("leading; over:", ctx.Err() != nil)
		return nil // the lease is released, and Run returns
	})
	fmt.Println(err)
	// Output:
	// leading; over: false
	// <nil>
}

// The Lease has connections of its own, which a fence does not close.
func ExampleClient() {
	config := &rest.Config{Host: "https://api.example"}
	leases, err := leader.Client(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = leader.New(leader.Lease{
		Client: leases, Namespace: "default", Name: "reboot", Identity: "reboot-7d9f",
	}, nil)
	fmt.Println(err)
	// Output: <nil>
}

func ExampleElector_Fence() {
	config := &rest.Config{Host: "https://api.example"}
	lease := leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "reboot", Identity: "reboot-7d9f",
	}
	elector, err := leader.New(lease, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fenced, err := rest.UnversionedRESTClientFor(serializing(elector.Fence(config)))
	if err != nil {
		fmt.Println(err)
		return
	}
	err = fenced.Delete().AbsPath("/api/v1/nodes/n1").Do(context.Background()).Error()
	fmt.Println(errors.Is(err, leader.ErrFenced))
	// Output: true
}

func ExampleNew_badOptions() {
	lease := leader.Lease{Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "reboot"}
	_, err := leader.New(lease, &leader.Options{RenewDeadline: 14 * time.Second})
	fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n  "))
	// Output:
	// making an elector for lease "default/reboot":
	//   leader.Lease.Identity is "":
	//   use a name that no other replica has, such as the pod's
	// leader.Options.RenewDeadline is 14s:
	//   must be less than LeaseDuration 15s minus RequestTimeout 750ms and 300ms for drift, or a late write could arrive after the next leader has started
}

// The methods for probes and pages, and a process that leads only once.
func ExampleElector_RunOnce() {
	lease := leader.Lease{
		Client: fake.NewClientset().CoordinationV1(), Namespace: "default", Name: "reboot", Identity: "reboot-7d9f",
	}
	elector, err := leader.New(lease, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.LeaseName()+":", elector.Status())
	err = elector.RunOnce(context.Background(), func(context.Context) error {
		fmt.Println("leading:", elector.Status().Leading)
		fmt.Println("readyz:", elector.Ready(), "livez:", elector.Healthy())
		return nil
	})
	fmt.Println(err)
	// Output:
	// reboot: no replica leads
	// leading: true
	// readyz: <nil> livez: <nil>
	// <nil>
}
