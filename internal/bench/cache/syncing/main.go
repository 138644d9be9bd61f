// Command syncing measures what it costs to fill a cache with Pods over HTTP:
// time, peak memory of the process, and memory that stays. Each implementation
// runs in a process of its own against one server process.
//
//	go run ./cache/syncing -pods 100000
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/homeostat/homeostat/internal/bench/cache/load"
)

func main() {
	pods := flag.Int("pods", 100_000, "number of Pods")
	only := flag.String("impl", "", "one implementation alone, in this process (needs -server)")
	server := flag.String("server", "", "URL of the server; empty starts one")
	serve := flag.Bool("serve", false, "be the server")
	profile := flag.String("memprofile", "", "write a profile of the heap of -impl to this file")
	rounds := flag.Int("rounds", 1, "runs of each implementation")
	flag.Parse()
	var err error
	switch {
	case *serve:
		err = runServer(*pods)
	case *only != "":
		err = measure(*only, *server, *pods, *profile)
	default:
		err = runAll(*pods, *rounds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runServer(pods int) error {
	s, err := load.NewServer(pods)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Printf("http://%s %d\n", listener.Addr(), s.Size())
	go func() { // the parent's end is this process's end
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	return http.Serve(listener, s) //nolint:gosec // a benchmark on loopback
}

func runAll(pods, rounds int) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	server := exec.Command(self, "-serve", "-pods", fmt.Sprint(pods))
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	if err := server.Start(); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	defer func() {
		_ = stdin.Close()
		_ = server.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	url, size, _ := strings.Cut(strings.TrimSpace(line), " ")
	fmt.Printf("%d Pods of %s bytes in protobuf, %d replicas of each Deployment; %s, GOMAXPROCS=%d\n\n",
		pods, size, load.Replicas, runtime.Version(), runtime.GOMAXPROCS(0))
	fmt.Println("| implementation | time to sync | CPU time | heap per Pod | heap objects per Pod | peak RSS |")
	fmt.Println("|---|---|---|---|---|---|")
	for range rounds {
		for _, impl := range order {
			command := exec.Command(self, "-impl", impl, "-server", url, "-pods", fmt.Sprint(pods))
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			if err := command.Run(); err != nil {
				return fmt.Errorf("measuring %s: %w", impl, err)
			}
		}
	}
	return nil
}

func measure(impl, url string, pods int, profile string) error {
	start, ok := implementations[impl]
	if !ok {
		return fmt.Errorf("-impl %q: must be one of %s", impl, strings.Join(order, ", "))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := heap()
	began := time.Now()
	cache, err := start(ctx, url)
	if err != nil {
		return err
	}
	took := time.Since(began)
	cpu, err := cpuTime()
	if err != nil {
		return err
	}
	peak, err := peakRSS()
	if err != nil {
		return err
	}
	after := heap()
	if n := cache.len(); n != pods {
		return fmt.Errorf("the cache of %s holds %d Pods, not %d", impl, n, pods)
	}
	fmt.Printf("| %s | %.2f s | %.2f s | %d B | %.1f | %d MB |\n", impl, took.Seconds(), cpu.Seconds(),
		(after.HeapAlloc-before.HeapAlloc)/uint64(pods), float64(after.HeapObjects-before.HeapObjects)/float64(pods), peak>>20)
	if profile != "" {
		if err := writeProfile(profile); err != nil {
			return err
		}
	}
	runtime.KeepAlive(cache)
	return nil
}

func writeProfile(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the profile: %w", err)
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}

func heap() runtime.MemStats {
	var stats runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats
}

// cpuTime is what the process has used on all cores.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading the CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

func peakRSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("reading the peak of memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kb int64
			_, err := fmt.Sscanf(value, "%d kB", &kb)
			return kb << 10, err
		}
	}
	return 0, errors.New("reading the peak of memory: no VmHWM")
}
