package names_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

// A zone file still knows two names of a cluster in which only default/web is
// left.
func Example() {
	zone := names.Func(func(context.Context) ([]names.Name, error) {
		return []names.Name{
			{Key: types.NamespacedName{Namespace: "default", Name: "web"}},
			{Key: types.NamespacedName{Namespace: "default", Name: "deleted-while-we-were-down"}},
		}, nil
	})
	sweep, err := names.NewSweep(zone, cluster{"default/web": "2f7a"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := sweep.Once(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: default/deleted-while-we-were-down looks orphaned
}

// A cluster is a Target: in a program, a controller is one.
type cluster map[string]types.UID

func (c cluster) Sync(context.Context) error { return nil }

func (c cluster) Find(key types.NamespacedName) (types.UID, bool) {
	uid, ok := c[key.String()]
	return uid, ok
}

func (c cluster) Orphan(o names.Orphan) { fmt.Println(o.Key, "looks orphaned") }

// The safety limit refuses a sweep that would clean everything, until its
// number is confirmed.
func ExampleSweep_Confirm() {
	zone := returning(many(12), nil)
	sweep, err := names.NewSweep(zone, counting{new(int)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = sweep.Once(context.Background())
	refused, _ := errors.AsType[*names.RefusedError](err)
	fmt.Println("refused:", refused.Orphans, "of", refused.Known)
	sweep.Confirm(12)
	enqueued, err := sweep.Once(context.Background())
	fmt.Println(enqueued, err)
	// Output:
	// refused: 12 of 12
	// 12 <nil>
}

// counting is a Target without any object.
type counting struct{ orphans *int }

func (c counting) Sync(context.Context) error                  { return nil }
func (c counting) Find(types.NamespacedName) (types.UID, bool) { return "", false }
func (c counting) Orphan(names.Orphan)                         { *c.orphans++ }

// A Service that another client has deleted already is deleted. A Service may
// exist if only a proxy says that it was not found.
func ExampleIsNotFound() {
	byServer := apierrors.NewNotFound(corev1.Resource("services"), "web")
	byProxy := apierrors.NewGenericServerResponse(404, "delete", corev1.Resource("services"), "web", "no route", 0, true)
	for _, err := range []error{byServer, byProxy} {
		fmt.Println(apierrors.IsNotFound(err), names.IsNotFound(err, corev1.Resource("services"), "web"))
	}
	// Output:
	// true true
	// true false
}

// The names of two systems, one of which keeps UIDs.
func ExampleUnion() {
	zone := names.Func(func(context.Context) ([]names.Name, error) {
		web := types.NamespacedName{Namespace: "default", Name: "web"}
		return []names.Name{{Key: web, UID: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}}, nil
	})
	exports := names.Func(func(context.Context) ([]names.Name, error) {
		return []names.Name{{Key: types.NamespacedName{Namespace: "default", Name: "nfs"}}}, nil
	})
	all := names.Union(zone, exports)
	known, err := all.Names(context.Background())
	for _, name := range known {
		fmt.Printf("%s %q\n", name.Key, name.UID)
	}
	fmt.Println(err)
	// Output:
	// default/web "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	// default/nfs ""
	// <nil>
}

// For a probe and a page: why orphans are not being cleaned, and what was
// found.
func ExampleSweep_Ready() {
	sweep, err := names.NewSweep(returning(many(3), nil), counting{new(int)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(errors.Is(sweep.Ready(), names.ErrNotSwept))
	if _, err := sweep.Once(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sweep.Ready(), sweep.Stats().Known, sweep.Stats().Orphans)
	// Output:
	// true
	// <nil> 3 3
}

// The next sweep is in minutes, unless there is a reason for one now.
func ExampleSweep_Wake() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var sweep *names.Sweep
	listings := 0
	zone := names.Func(func(context.Context) ([]names.Name, error) {
		if listings++; listings == 1 {
			sweep.Wake() // more names are in scope now
		} else {
			stop()
		}
		return nil, nil
	})
	sweep, err := names.NewSweep(zone, counting{new(int)}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	sweep.Run(ctx)
	fmt.Println(listings, "listings")
	// Output: 2 listings
}
