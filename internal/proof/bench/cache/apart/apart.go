// Package apart measures caches against one server. The server and each cache
// run in processes of their own. So the cost of one does not affect the others.
package apart

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
)

// A Program measures each of its Implementations in a process of its own, and
// prints the results in the format of Go benchmarks.
type Program struct {
	Name            string // the name of the benchmark
	Implementations []string
	Measure         func(impl, url string, pods int) ([]Value, error)
	// Server makes a server with count objects of the given shape. Defaults to
	// a server of Pods.
	Server func(shape string, count int) (*load.Server, error)
}

// Value is a measured number with its unit, such as 12.5 and "MiB".
type Value struct {
	Number float64
	Unit   string
}

// Main parses the flags and runs p. Each process runs the same program. The
// first one starts the others.
func (p Program) Main() {
	o := options{}
	flag.IntVar(&o.pods, "pods", 100_000, "number of Pods")
	flag.StringVar(&o.shape, "shape", "full", "shape of the Pods: full, plain or unlike")
	flag.StringVar(&o.implementations, "impl", "", "measure only these implementations, separated by /")
	flag.IntVar(&o.rounds, "rounds", 1, "runs of each implementation")
	flag.StringVar(&o.server, "server", "", "URL of the server; if empty, a server is started")
	flag.BoolVar(&o.serve, "serve", false, "run the server")
	flag.StringVar(&o.profile, "cpuprofile", "", "write a profile of the last implementation to this file")
	flag.Parse()
	if err := p.run(&o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	pods, rounds                   int
	shape, implementations, server string
	serve                          bool
	profile                        string
}

func (p Program) run(o *options) error {
	names := p.Implementations
	if o.implementations != "" {
		names = strings.Split(o.implementations, "/")
	}
	for _, impl := range names {
		if !slices.Contains(p.Implementations, impl) {
			return fmt.Errorf("-impl is %q: must be one of %s", impl, strings.Join(p.Implementations, ", "))
		}
	}
	switch {
	case o.serve:
		return p.serve(o)
	case o.server == "":
		return p.measureAll(names, o)
	}
	stop, err := startProfile(o.profile)
	if err != nil {
		return err
	}
	values, err := p.Measure(names[0], o.server, o.pods)
	if err := errors.Join(err, stop()); err != nil {
		return fmt.Errorf("measuring %s: %w", names[0], err)
	}
	fmt.Printf("Benchmark%s/pods=%d/impl=%s 1", p.Name, o.pods, names[0])
	for _, v := range values {
		fmt.Printf(" %.5g %s", v.Number, v.Unit)
	}
	fmt.Println()
	return nil
}

// startProfile begins to write a CPU profile to a new file at path. stop ends
// the profile. If path is empty, startProfile and stop do nothing.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("writing the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("writing the profile: %w", errors.Join(err, file.Close()))
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// serve runs the server until its parent closes standard input.
func (p Program) serve(o *options) error {
	made := p.Server
	if made == nil {
		made = podsOf
	}
	s, err := made(o.shape, o.pods)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening for connections: %w", err)
	}
	fmt.Printf("http://%s %d\n", listener.Addr(), s.Size())
	go func() { // ends this process when its parent ends
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	return http.Serve(listener, s) //nolint:gosec // a benchmark on loopback
}

func podsOf(name string, count int) (*load.Server, error) {
	shape, err := load.Shape(name)
	if err != nil {
		return nil, err
	}
	return load.NewServer(count, shape)
}

func (p Program) measureAll(impls []string, o *options) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the executable of this program: %w", err)
	}
	url, size, stop, err := startServer(executable)
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	defer stop()
	fmt.Printf("%d Pods (%s) of %s bytes in protobuf, %d replicas of each Deployment; %s, GOMAXPROCS=%d\n",
		o.pods, o.shape, size, load.Replicas, runtime.Version(), runtime.GOMAXPROCS(0))
	fmt.Println("pkg: github.com/homeostat/homeostat/internal/proof/bench/cache")
	for range o.rounds {
		for _, impl := range impls {
			command := exec.Command(executable, append(slices.Clone(os.Args[1:]), "-impl", impl, "-server", url)...)
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			if err := command.Run(); err != nil {
				return fmt.Errorf("measuring %s: %w", impl, err)
			}
		}
	}
	return nil
}

// startServer starts this program as the server. It returns the server's URL
// and the size of its Pods.
func startServer(executable string) (url, size string, stop func(), err error) {
	server := exec.Command(executable, append(slices.Clone(os.Args[1:]), "-serve")...)
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return "", "", nil, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return "", "", nil, errors.Join(err, stdin.Close())
	}
	if err := server.Start(); err != nil {
		return "", "", nil, err
	}
	stop = func() {
		_ = stdin.Close()
		_ = server.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", "", nil, err
	}
	url, size, _ = strings.Cut(strings.TrimSpace(line), " ")
	return url, size, stop, nil
}

// Order makes the server send count events, one in each interval. If the
// interval is empty, the server sends them as fast as possible. Order returns
// after the last event.
func Order(url string, count int, interval string) error {
	order := fmt.Sprintf("%s/events?count=%d&every=%s", url, count, interval)
	answer, err := http.Post(order, "", http.NoBody)
	if err != nil {
		return fmt.Errorf("requesting events from the server: %w", err)
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting events from the server: %s: %s", answer.Status, text)
	}
	return nil
}
