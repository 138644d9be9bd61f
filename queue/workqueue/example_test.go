package workqueue_test

import (
	"fmt"

	"github.com/homeostat/homeostat/queue"
	"github.com/homeostat/homeostat/queue/workqueue"
)

// A controller that was written for client-go's queue runs on this one.
func ExampleNew() {
	q, err := queue.New[string](nil)
	if err != nil {
		panic(err)
	}
	w := workqueue.New(q, nil)
	w.Add("default/web")
	key, shutdown := w.Get()
	fmt.Println(key, shutdown)
	w.Forget(key)
	w.Done(key)

	w.ShutDown()
	_, shutdown = w.Get()
	fmt.Println(shutdown)
	// Output:
	// default/web false
	// true
}
