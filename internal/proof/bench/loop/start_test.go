package loop_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/homeostat/homeostat/internal/apisim"
)

// Virtual time passes only while a library waits on its own, for polls and
// periods.
func TestTheFirstReconcileDoesNotWait(t *testing.T) {
	for _, program := range programs {
		synctest.Test(t, func(t *testing.T) {
			server, err := apisim.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Load(configMap(0, 0)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			first, ended := make(chan struct{}), make(chan error, 1)
			once := sync.OnceFunc(func() { close(first) })
			began := time.Now()
			go func() { ended <- program.run(ctx, server.Config("bench"), once) }()
			<-first
			waited := time.Since(began)
			t.Logf("%s waits for %v", program.name, waited)
			if program.name == "homeostat" && waited != 0 {
				t.Errorf("%s waits for %v until its first reconcile, without need", program.name, waited)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
