// Command gameday lets things fail, on a real control plane beside a real
// Prometheus, and writes down what the person on call would see: which alert
// fires, which line of the log and of /readyz names the cause, and how long it
// takes until all is well again.
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
	"slices"
	"syscall"
	"time"
)

// patience is the time limit of each step on a busy machine.
const patience = 8 * time.Minute

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	program := flag.String("program", "bin/gameday-mirror", "the built examples/mirror, a `file`")
	out := flag.String("out", "", "`file` to write the page to")
	drawn := flag.String("picture", "", "`file` to draw the dashboard to, with what Prometheus has seen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := play(ctx, *root, *program, *out, *drawn, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gameday:", err)
		os.Exit(1)
	}
}

// play plays the incidents with these names, or all. It writes the page to out,
// and the picture to drawn, unless these are empty.
func play(ctx context.Context, root, program, out, drawn string, only []string) (err error) {
	w, err := open(ctx, root, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.well(ctx); err != nil {
		return err
	}
	var seen []report
	var spans []span
	opened := time.Now()
	for _, i := range incidents {
		if len(only) > 0 && !slices.Contains(only, i.name) {
			continue
		}
		began := time.Now()
		r, err := w.play(ctx, i)
		if err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		spans = append(spans, span{i.name, began, began.Add(r.after / scale)})
		fmt.Printf("%+v\n", r)
		seen = append(seen, r)
		if err := save(out, page(seen)); err != nil {
			return err
		}
	}
	if drawn == "" {
		return nil
	}
	picture, err := w.picture(ctx, opened, spans)
	return errors.Join(err, save(drawn, picture))
}

// save writes a document, unless its name is empty.
func save(file, text string) error {
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // a document
}

// report contains the observations during one incident.
type report struct {
	name, does string
	alert      string        // the alert's name and text, or empty if none fired
	after      time.Duration // until the alert, in the time of the rules
	line, page string
	healed     time.Duration
}

// play causes one incident, observes it, and waits until the system is healthy
// again.
func (w *world) play(ctx context.Context, i incident) (report, error) {
	r := report{name: i.name, does: i.does}
	w.mark()
	began := time.Now()
	heal, err := i.breaks(ctx, w)
	if err != nil {
		return r, fmt.Errorf("breaking: %w", err)
	}
	for r.alert == "" && time.Since(began) < i.limit {
		if err := pause(ctx, time.Second); err != nil {
			return r, err
		}
		r.alert = w.firing(ctx)
	}
	r.after, r.line, r.page = scale*time.Since(began), w.lastError(), w.notReady(ctx)
	mended := time.Now()
	if err := heal(ctx); err != nil {
		return r, fmt.Errorf("mending: %w", err)
	}
	if err := w.well(ctx); err != nil {
		return r, fmt.Errorf("waiting until all is well: %w", err)
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

// eventually calls try until it succeeds or patience is over.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if pause(ctx, 200*time.Millisecond) != nil {
			return fmt.Errorf("not within %v: %w", patience, err)
		}
	}
}
