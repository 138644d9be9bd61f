// Command gameday causes incidents on a real control plane that a real
// Prometheus monitors, and records what the person on call would see: which
// alert fires, which line of the log and of /readyz names the cause, and how
// long it takes until the system is healthy again.
//
//	two replicas of examples/mirror ──▶ API server, which incidents break
//	       │ /metrics                        │
//	       ▼                                 ▼
//	Prometheus, examples/monitoring/alerts.yaml ──▶ docs/gameday.md
//
// Times in the rules are a fifth of the times in the manifest, so half an hour
// takes six minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// patience is the time limit of each step on a busy machine.
const patience = 8 * time.Minute

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	o := &outputs{}
	flag.StringVar(&o.results, "results", "", "`file` with the results of all incidents. A result replaces the "+
		"earlier result "+
		"of the same incident, and the other results stay")
	flag.StringVar(&o.page, "out", "", "`file` to write the page to")
	flag.StringVar(&o.folders, "folders", "", "`directory` in which to write a folder for each incident. A folder "+
		"has a number as its name, and "+
		"contains what a person on call has: alerts, runbook, probes, pages, logs, and the outputs of the runbook's "+
		"commands. "+
		"The file with this name and -solutions.md contains the incident of each folder")
	flag.StringVar(&o.picture, "picture", "", "`file` in which to draw the dashboard, with the data of Prometheus")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := play(ctx, o, *root, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gameday:", err)
		os.Exit(1)
	}
}

// chosen returns the incidents with these names, or all incidents if names is
// empty.
func chosen(names []string) ([]incident, error) {
	for _, name := range names {
		if !slices.ContainsFunc(incidents, func(i incident) bool { return i.name == name }) {
			return nil, fmt.Errorf("there is no incident %q", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(incidents), func(i incident) bool {
		return len(names) > 0 && !slices.Contains(names, i.name)
	}), nil
}

// play causes the incidents with these names, or all incidents if names is
// empty, one after the other.
func play(ctx context.Context, out *outputs, root string, names []string) (err error) {
	list, err := chosen(names)
	if err != nil {
		return err
	}
	seen, err := readResults(out.results)
	if err != nil {
		return err
	}
	out.commit, out.runbook = commitOf(ctx, root), filepath.Join(root, "docs", "operating.md")
	w, err := open(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.well(ctx); err != nil {
		return err
	}
	var spans []span
	opened := time.Now()
	for _, i := range list {
		began := time.Now()
		r, failure := w.play(ctx, i)
		if failure != nil {
			failure = fmt.Errorf("running the incident %s: %w", i.name, failure)
			r.Failure = failure.Error()
		}
		if ctx.Err() != nil {
			return failure // ctx has ended, so the failure says nothing about the program
		}
		spans = append(spans, span{i.name, began, began.Add(r.After / scale)})
		fmt.Printf("%s: %v after %v, well again after %v\n", r.Name, alertNames(r.Alerts), r.After, r.Healed)
		if seen, err = out.write(seen, &r); err != nil || failure != nil {
			return errors.Join(failure, err)
		}
	}
	if out.picture == "" {
		return nil
	}
	picture, err := w.picture(ctx, opened, spans)
	return errors.Join(err, save(out.picture, picture))
}

// play causes one incident, observes it, and waits until the system is healthy
// again.
func (w *world) play(ctx context.Context, i incident) (report, error) {
	r := report{Name: i.name, Played: time.Now().UTC().Truncate(time.Second)}
	if err := w.calm(ctx); err != nil {
		return r, err
	}
	w.mark()
	began := time.Now()
	heal, err := i.breaks(ctx, w)
	if err != nil {
		return r, fmt.Errorf("causing the incident: %w", err)
	}
	for w.firing(ctx) == "" && time.Since(began) < i.limit {
		if err := pause(ctx, time.Second); err != nil {
			return r, err
		}
	}
	r.After = scale * time.Since(began)
	if err := pause(ctx, time.Minute/scale); err != nil {
		return r, err
	}
	r.Alerts, r.Lines, r.Page, r.evidence = w.alerts(ctx), w.errorLines(), w.notReady(ctx), w.gather(ctx)
	mended := time.Now()
	if err := heal(ctx); err != nil {
		return r, fmt.Errorf("fixing the incident: %w", err)
	}
	if err := w.well(ctx); err != nil {
		return r, fmt.Errorf("waiting until the system is healthy: %w", err)
	}
	r.Healed = time.Since(mended)
	return r, nil
}

// pause waits for the duration d. It returns an error if ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// eventually calls try until it succeeds, but no longer than the time in
// patience.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("giving up after %v: %w", patience, err)
		}
	}
}
