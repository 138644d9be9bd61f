package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockVariable is the environment variable that contains the name of a file.
// The file contains a number: how many seconds the replica's clock is ahead of
// the machine's clock.
const clockVariable = "GAMEDAY_CLOCK"

// These texts make the clock wrong. The changed copy of package time adds the
// offset to the wall clock only. Durations, timers and deadlines stay right, as
// on a machine whose clock is set. A goroutine reads the offset from the file,
// because Now is also called where no file can be read, for example by a timer.
const (
	rightClock = "\tsec, nsec, mono := runtimeNow()\n"
	wrongClock = rightClock + "\tsec += hostOffset.Load()\n"

	offsetSource = `package time

import (
	"sync/atomic"
	"syscall"
)

// hostOffset is the number in the file that ` + clockVariable + ` names.
var hostOffset atomic.Int64

func init() {
	name, named := syscall.Getenv("` + clockVariable + `")
	if !named {
		return
	}
	read := func() {
		if text, err := readFile(name); err == nil {
			seconds, _ := atoi(text)
			hostOffset.Store(int64(seconds))
		}
	}
	read()
	go func() {
		for {
			Sleep(100 * Millisecond)
			read()
		}
	}()
}
`
)

// build builds examples/mirror with a clock that can be set. There is no other
// way to give one process its own clock: time namespaces do not have the wall
// clock, and a static program loads no library that could replace it.
func (w *world) build(ctx context.Context) error {
	overlay, err := w.overlay(ctx)
	if err != nil {
		return fmt.Errorf("replacing the clock of package time: %w", err)
	}
	w.program = filepath.Join(w.folder, name)
	//nolint:gosec // the arguments are names of files of this process
	c := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", w.program, "./examples/"+name)
	c.Dir, c.Stderr = w.root, os.Stderr
	if err := c.Run(); err != nil {
		return fmt.Errorf("building examples/%s: %w", name, err)
	}
	return nil
}

// overlay writes an overlay for go build. The overlay replaces the file of
// package time that has Now, and adds a file. It returns the name of the
// overlay.
func (w *world) overlay(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	original, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		return "", err
	}
	changed, err := withWrongClock(string(original))
	if err != nil {
		return "", err
	}
	files := map[string]string{"time.go": changed, "gameday.go": offsetSource}
	replace := map[string]string{}
	for file, text := range files {
		replace[filepath.Join(folder, file)] = filepath.Join(w.folder, file)
		if err := save(filepath.Join(w.folder, file), text); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(w.folder, "overlay.json")
	return file, save(file, string(overlay))
}

// withWrongClock returns the source of package time with a clock that can be
// set. It returns an error if this Go release reads the clock in another way.
func withWrongClock(source string) (string, error) {
	if n := strings.Count(source, rightClock); n != 1 {
		return "", fmt.Errorf("the source of package time contains the line %q %d times: want once",
			strings.TrimSpace(rightClock), n)
	}
	return strings.Replace(source, rightClock, wrongClock, 1), nil
}

// setClock makes the clock of a replica's machine wrong by d. The file is
// renamed, because the replica must always read a whole number.
func (r *replica) setClock(d time.Duration) error {
	if err := save(r.clock+".new", strconv.Itoa(int(d.Seconds()))); err != nil {
		return err
	}
	r.offset = d
	return os.Rename(r.clock+".new", r.clock)
}

// date returns the output of date -u on the machine of the replica.
func (r *replica) date() string {
	if r.lost {
		return "no answer: " + r.node + " does not answer\n"
	}
	return time.Now().Add(r.offset).UTC().Format(time.UnixDate) + "\n"
}

// clockOfLeader sets the clock of the leader's machine.
func clockOfLeader(ctx context.Context, w *world, d time.Duration) (func(context.Context) error, error) {
	r, err := w.leader(ctx)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { return r.setClock(0) }, r.setClock(d)
}

// clockAhead sets the clock of the leader's machine forward. Every certificate
// stays valid, so nothing fails.
func clockAhead(ctx context.Context, w *world) (func(context.Context) error, error) {
	return clockOfLeader(ctx, w, 2*time.Hour)
}

// clockBehind sets the clock of the leader's machine back, to a time at which
// the certificate of the API server was not yet valid, and ends the connections
// of all replicas, as a load balancer does from time to time.
func clockBehind(ctx context.Context, w *world) (func(context.Context) error, error) {
	heal, err := clockOfLeader(ctx, w, -2*time.Hour)
	w.proxy.cut()
	return heal, err
}
