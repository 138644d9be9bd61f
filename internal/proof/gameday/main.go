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
	"math/rand/v2"
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
	out := flag.String("out", "", "`file` to write the page to")
	folders := flag.String("folders", "", "`directory` to write a folder for each incident to, without its name, and "+
		"with what a person on call has: alerts, probes, pages, logs, and the outputs of the runbook's commands; and "+
		"key.md, which says what each was")
	drawn := flag.String("picture", "", "`file` to draw the dashboard to, with what Prometheus has seen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := play(ctx, &outputs{page: *out, picture: *drawn, folders: *folders}, *root, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gameday:", err)
		os.Exit(1)
	}
}

// outputs contains the names of the files and of the directory to write. An
// output with an empty name is not written.
type outputs struct{ page, picture, folders string }

// play plays the incidents with these names, or all.
func play(ctx context.Context, out *outputs, root string, only []string) (err error) {
	w, err := open(ctx, root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.well(ctx); err != nil {
		return err
	}
	var seen []report
	var spans []span
	opened, places := time.Now(), rand.Perm(len(incidents))
	for n, i := range incidents {
		if len(only) > 0 && !slices.Contains(only, i.name) {
			continue
		}
		began := time.Now()
		r, err := w.play(ctx, i)
		if err != nil {
			return fmt.Errorf("playing the incident %s: %w", i.name, err)
		}
		r.place = places[n] + 1
		spans = append(spans, span{i.name, began, began.Add(r.after / scale)})
		fmt.Printf("%s: %v after %v, well again after %v\n", r.name, alertNames(r.alerts), r.after, r.healed)
		seen = append(seen, r)
		if err := out.write(seen); err != nil {
			return err
		}
	}
	if out.picture == "" {
		return nil
	}
	picture, err := w.picture(ctx, opened, spans)
	return errors.Join(err, save(out.picture, picture))
}

// write writes the page, and the folder of the last report.
func (o *outputs) write(seen []report) error {
	err := save(o.page, page(seen))
	if o.folders == "" {
		return err
	}
	last := seen[len(seen)-1]
	return errors.Join(err, last.evidence.save(filepath.Join(o.folders, fmt.Sprintf("%02d", last.place))),
		save(filepath.Join(o.folders, "key.md"), key(seen)))
}

// save writes text to the file with this name, unless the name is empty.
func save(file, text string) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a document
}

// report contains the observations during one incident.
type report struct {
	incident

	alerts      []alert       // the alerts that fire a minute after the first alert
	after       time.Duration // the time until the first alert, as if the rules were not shortened
	lines, page []string
	evidence    evidence
	healed      time.Duration
	place       int // the number of the folder
}

// play causes one incident, observes it, and waits until the system is healthy
// again.
func (w *world) play(ctx context.Context, i incident) (report, error) {
	r := report{incident: i}
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
	r.after = scale * time.Since(began)
	if err := pause(ctx, time.Minute/scale); err != nil {
		return r, err
	}
	r.alerts, r.lines, r.page, r.evidence = w.alerts(ctx), w.errorLines(), w.notReady(ctx), w.gather(ctx)
	mended := time.Now()
	if err := heal(ctx); err != nil {
		return r, fmt.Errorf("fixing the incident: %w", err)
	}
	if err := w.well(ctx); err != nil {
		return r, fmt.Errorf("waiting until the system is healthy: %w", err)
	}
	r.healed = time.Since(mended)
	return r, nil
}

// pause waits, unless ctx ends.
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
			return fmt.Errorf("no success within %v: %w", patience, err)
		}
	}
}
