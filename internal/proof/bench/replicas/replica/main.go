// Command replica is one replica of a controller of ConfigMaps or Pods whose
// reconciler has no effect. For each line of standard input it prints its
// resource usage since its start as a line of JSON. It stops at the end of the
// input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard/ranges"
	"github.com/homeostat/homeostat/reconcile"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig `file` of the cluster")
	name := flag.String("name", "", "name of the replica, which shares the work with others; empty: the replica "+
		"works alone, without shards")
	kind := flag.String("kind", "configmaps", "kind of the objects to reconcile: configmaps or pods")
	profiles := flag.String("profiles", "", "`prefix` of the files for profiles of processor time and memory; "+
		"empty: no profiles are written")
	flag.Parse()
	if err := run(*kubeconfig, *name, *kind, *profiles); err != nil {
		fmt.Fprintln(os.Stderr, "replica:", err)
		os.Exit(1)
	}
}

// replica is the program with its counters.
type replica struct {
	objects              func() int
	received, reconciles atomic.Int64
}

func run(kubeconfig, name, kind, profiles string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	r := &replica{}
	config.Dial = r.dial
	home, err := cluster.New(config, nil)
	if err != nil {
		return err
	}
	stopProfiling, err := profile(profiles)
	if err != nil {
		return err
	}
	options := &reconcile.Options{}
	if name != "" {
		shards, err := ranges.New(leader.Lease{
			Client: home.Client().CoordinationV1(), Namespace: "default", Name: "replicas-" + kind, Identity: name,
		}, nil)
		if err != nil {
			return err
		}
		options.Shards = shards
	}
	var controller *reconcile.Controller
	switch kind {
	case "configmaps":
		controller, err = controllerOf(r, informer.For(home.Client().CoreV1().ConfigMaps(""), nil), options)
	case "pods":
		controller, err = controllerOf(r, informer.For(home.Client().CoreV1().Pods(""), nil), options)
	default:
		err = fmt.Errorf("-kind is %q: must be configmaps or pods", kind)
	}
	if err != nil {
		return err
	}
	klog.SetLogger(logr.Discard())
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer stop()
		r.answer()
	}()
	return errors.Join(controller.Run(ctx), stopProfiling())
}

func controllerOf[T informer.Object](
	r *replica, cache *informer.Informer[T], options *reconcile.Options,
) (*reconcile.Controller, error) {
	r.objects = func() int { return cache.Snapshot().Len() }
	return reconcile.New("replicas", cache, reconcile.Func[T](
		func(context.Context, reconcile.Request[T]) (reconcile.Result, error) {
			r.reconciles.Add(1)
			return reconcile.Result{}, nil
		}), options)
}

// dial returns a connection that counts the received bytes.
func (r *replica) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &counted{c, &r.received}, nil
}

// counted is a connection that counts the received bytes.
type counted struct {
	net.Conn

	received *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// answer prints the replica's resource usage for each line of its input. After
// the line "measure" it prints all measurements, and after other lines only the
// cheap ones.
func (r *replica) answer() {
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		used := map[string]float64{
			"objects": float64(r.objects()), "reconciles": float64(r.reconciles.Load()),
			"received": float64(r.received.Load()), "processor": processor().Seconds(),
		}
		if lines.Text() == "measure" {
			used["resident"], used["program"] = status("VmRSS:"), status("RssFile:")
			for range 3 {
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			used["heap"], used["measuring"] = float64(m.HeapAlloc), processor().Seconds()-used["processor"]
		}
		if err := out.Encode(used); err != nil {
			return
		}
	}
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the own process
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// status returns the value of an entry of /proc/self/status, such as "VmRSS:",
// in bytes.
func status(entry string) float64 {
	text, _ := os.ReadFile("/proc/self/status") // after an error, the value is 0, and a reader notices that
	_, rest, _ := strings.Cut(string(text), entry)
	kib := 0.0
	_, _ = fmt.Sscanf(rest, "%g", &kib)
	return kib * 1024
}

// profile records the use of the processor until stop is called. stop then
// writes this profile and a profile of the memory. The names of their files
// begin with prefix. If prefix is empty, nothing is recorded.
func profile(prefix string) (stop func() error, err error) {
	if prefix == "" {
		return func() error { return nil }, nil
	}
	runtime.MemProfileRate = 16 << 10
	cpu, err := os.Create(prefix + "cpu.pprof")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		memory, err := os.Create(prefix + "memory.pprof")
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.WriteHeapProfile(memory), memory.Close(), cpu.Close())
	}, nil
}
