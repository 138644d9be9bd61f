package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

// world is a real API server that package crowd has filled. There are no
// controllers, because they would change the objects.
type world struct {
	cluster *e2e.Cluster
	client  kubernetes.Interface
	dynamic dynamic.Interface
	charts  net.Listener // the listener of the server of charts
}

// newWorld starts a server that keeps its data in a folder, and fills the
// server unless it has been filled before.
func newWorld(ctx context.Context, folder string) (*world, error) {
	c, err := e2e.Start(ctx, &e2e.Options{DataDir: folder, Progress: os.Stderr, Flags: []string{
		"kube-apiserver:--service-cluster-ip-range=10.0.0.0/16",
		"kube-apiserver:--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
	}})
	if err != nil {
		return nil, err
	}
	w := &world{cluster: c}
	if w.charts, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	go func() { _ = http.Serve(w.charts, http.HandlerFunc(charts)) }() //nolint:gosec // the clients are our own
	if err := w.fill(ctx, filepath.Join(folder, "filled")); err != nil {
		return nil, errors.Join(err, w.stop())
	}
	return w, nil
}

func (w *world) fill(ctx context.Context, done string) error {
	if err := w.cluster.KillControllerManager(); err != nil {
		return err
	}
	config := w.cluster.Config()
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	var err error
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if w.dynamic, err = dynamic.NewForConfig(w.cluster.Config()); err != nil {
		return err
	}
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := crowd.Fill(ctx, w.client, crowd.Share{Pods: 1}); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

func (w *world) stop() error { return errors.Join(w.charts.Close(), w.cluster.Stop()) }

// apply applies the manifests of an operator: files of its module, and text.
func (w *world) apply(ctx context.Context, source string, o *operator) error {
	for _, pattern := range o.Manifests {
		files, err := filepath.Glob(filepath.Join(source, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := w.cluster.Apply(ctx, string(text)); err != nil {
				return err
			}
		}
	}
	return w.cluster.Apply(ctx, strings.ReplaceAll(o.Objects, chartServer, "http://"+w.charts.Addr().String()))
}

// change writes an annotation of objects of the kind in turn, at a steady rate,
// and returns how many it has written. It calls proceed before each change with
// the number of earlier changes and the time since change was called, and ends
// when proceed returns false.
func (w *world) change(ctx context.Context, kind string, proceed func(n int, spent time.Duration) bool) (int, error) {
	const workers = 16
	began := time.Now()
	due := make(chan int)
	go func() {
		defer close(due)
		ticks := time.NewTicker(time.Second / changesPerSecond)
		defer ticks.Stop()
		for n := 0; proceed(n, time.Since(began)); n++ {
			<-ticks.C
			due <- n
		}
	}()
	written := make(chan error)
	for range workers {
		go func() {
			for n := range due {
				written <- w.annotate(ctx, kind, n)
			}
			written <- errDone
		}()
	}
	count := 0
	for running := workers; running > 0; {
		switch err := <-written; {
		case errors.Is(err, errDone):
			running--
		case err != nil:
			return count, err
		default:
			count++
		}
	}
	return count, nil
}

var errDone = errors.New("done")

func (w *world) annotate(ctx context.Context, kind string, n int) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"n":"%d"}}}`, time.Now().UnixNano())
	core, o := w.client.CoreV1(), metav1.PatchOptions{}
	var err error
	n %= changedObjects
	switch {
	case strings.HasPrefix(kind, "Pod"):
		_, err = core.Pods(crowd.Namespace(n)).Patch(ctx, load.Plain(n).Name, types.MergePatchType, patch, o)
	default:
		_, err = core.Secrets(crowd.Namespace(n)).Patch(ctx, fmt.Sprint("s-", n), types.MergePatchType, patch, o)
	}
	return err
}
