package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/cert"

	"github.com/homeostat/homeostat/internal/proof/bench/crowd"
)

const (
	patience         = 10 * time.Minute
	rests            = 30 * time.Second // the default of -rest
	changing         = 30 * time.Second // the default of -changes
	changesPerSecond = 200
	// changedObjects is the number of objects that are changed in turn.
	changedObjects = 500
)

// figures describe the resource usage of one program.
type figures struct {
	Ready         float64 // seconds until the program was ready
	Peak, Rest    float64 // resident MiB: the peak until the program was at rest, and at that time
	Start, Change float64 // processor seconds until the program was at rest, and for 1,000 changes
	Changed       float64 // resident MiB after the changes
	Rate          float64 // changes in each second
}

// measure runs the variants of an operator in alternation, and keeps the median
// of each figure.
func (l *laboratory) measure(ctx context.Context, w *world, o *operator) error {
	if err := w.apply(ctx, l.source(o), o); err != nil {
		return err
	}
	runs := map[string][]figures{}
	for round := range l.rounds {
		for _, v := range o.Variants {
			f, err := l.measureOnce(ctx, w, o, v)
			if err != nil {
				return fmt.Errorf("%s: %w", v.Name, err)
			}
			_, _ = fmt.Fprintf(os.Stdout, "%s %s %d: %+v\n", o.Name, v.Name, round, f)
			runs[v.Name] = append(runs[v.Name], f)
		}
	}
	typical := map[string]figures{}
	for name, rounds := range runs {
		typical[name] = medians(rounds)
	}
	return l.keep(o, typical)
}

// measureOnce starts a program, waits until it is at rest, changes objects,
// checks that the program does its work, and stops it.
func (l *laboratory) measureOnce(ctx context.Context, w *world, o *operator, v variant) (f figures, err error) {
	began := time.Now()
	p, err := l.start(ctx, w, o, v)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	if err := p.await(ctx); err != nil {
		return f, err
	}
	f.Ready = time.Since(began).Seconds()
	pause(ctx, l.rest)
	started, err := p.Processor()
	if err != nil {
		return f, err
	}
	f.Start = started.Seconds()
	if f.Peak, err = p.Peak(); err != nil {
		return f, err
	}
	if f.Rest, err = p.Resident(); err != nil {
		return f, err
	}
	count, cost, err := p.changes(ctx, w, o.Changes, l.changing)
	if err != nil {
		return f, err
	}
	f.Rate, f.Change = count/l.changing.Seconds(), cost
	if err := o.Works(w, ctx); err != nil {
		return f, err
	}
	f.Changed, err = p.Resident()
	return f, err
}

// changes writes to objects of the kind for a period. It returns the number of
// changes, and the processor seconds that 1,000 of them cost the program. Each
// object is changed once before the measurement, because its first change after
// a list can cost more than its later ones.
func (p *running) changes(
	ctx context.Context, w *world, kind string, period time.Duration,
) (count, per1000 float64, err error) {
	first := func(n int, _ time.Duration) bool { return n < changedObjects }
	if _, err := w.change(ctx, kind, first); err != nil {
		return 0, 0, err
	}
	pause(ctx, time.Second)
	start, err := p.Processor()
	if err != nil {
		return 0, 0, err
	}
	written, err := w.change(ctx, kind, func(_ int, spent time.Duration) bool { return spent < period })
	if err != nil {
		return 0, 0, err
	}
	pause(ctx, time.Second)
	end, err := p.Processor()
	count = float64(written)
	return count, (end - start).Seconds() / count * 1000, err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// medians returns the median of each figure.
func medians(rounds []figures) figures {
	median := func(figure func(f figures) float64) float64 {
		var values []float64
		for _, f := range rounds {
			values = append(values, figure(f))
		}
		slices.Sort(values)
		return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
	}
	return figures{
		Ready:   median(func(f figures) float64 { return f.Ready }),
		Peak:    median(func(f figures) float64 { return f.Peak }),
		Rest:    median(func(f figures) float64 { return f.Rest }),
		Start:   median(func(f figures) float64 { return f.Start }),
		Change:  median(func(f figures) float64 { return f.Change }),
		Changed: median(func(f figures) float64 { return f.Changed }),
		Rate:    median(func(f figures) float64 { return f.Rate }),
	}
}

// running is a running program.
type running struct {
	crowd.Process

	command *exec.Cmd
	ready   chan struct{} // closed after the program has reported that it is ready
	ended   chan struct{}
}

// start starts a program. Its output goes to a file.
func (l *laboratory) start(ctx context.Context, w *world, o *operator, v variant) (*running, error) {
	command := exec.CommandContext(ctx, l.program(o, v), o.Args...)
	command.Dir = filepath.Join(l.scratch, "run-"+o.Name)
	command.Env = append(os.Environ(), "KUBECONFIG=kubeconfig")
	if err := writeConfig(command.Dir, w, o); err != nil {
		return nil, err
	}
	reader, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	log, err := os.Create(filepath.Join(l.scratch, o.Name+"-"+v.Name+".log"))
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &running{
		Process: crowd.Process(command.Process.Pid), command: command,
		ready: make(chan struct{}), ended: make(chan struct{}),
	}
	var times atomic.Int64
	go func() {
		defer func() { _ = log.Close() }()
		for lines := bufio.NewReader(reader); ; {
			line, err := lines.ReadString('\n')
			_, _ = log.WriteString(line)
			if strings.Contains(line, o.Ready) && times.Add(1) == int64(o.Times) {
				close(p.ready)
			}
			if err != nil {
				return
			}
		}
	}()
	go func() {
		_ = command.Wait()
		_ = writer.Close()
		close(p.ended)
	}()
	return p, nil
}

// writeConfig writes the files of a program's working directory.
func writeConfig(folder string, w *world, o *operator) error {
	kubeconfig, err := os.ReadFile(w.cluster.Kubeconfig())
	if err != nil {
		return err
	}
	files := maps.Clone(o.Config)
	if files == nil {
		files = map[string]string{}
	}
	files["kubeconfig"] = string(kubeconfig)
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return err
	}
	files["tls.crt"], files["tls.key"] = string(certificate), string(key)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return err
}

// await waits until the program is ready.
func (p *running) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("the program ended before it was ready: %v", p.command.ProcessState)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("the program was not ready after %v", patience)
	}
}

// end kills the program. It returns an error if the program has ended before.
func (p *running) end() error {
	select {
	case <-p.ended:
		return fmt.Errorf("the program ended before it was killed: %v", p.command.ProcessState)
	default:
	}
	err := p.command.Process.Kill()
	<-p.ended
	return err
}
