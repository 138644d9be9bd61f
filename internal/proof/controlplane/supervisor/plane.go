package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A plane is the set of running children. One goroutine uses it.
type plane struct {
	options    *Options
	data       *dataDir
	components []component
	children   map[string]*child
	ended      chan struct{} // signaled when a child has ended
	client     *http.Client
}

func newPlane(o *Options, d *dataDir) (*plane, error) {
	client, err := newProbe(d)
	if err != nil {
		return nil, err
	}
	return &plane{
		options:    o,
		data:       d,
		components: d.components(o),
		children:   map[string]*child{},
		ended:      make(chan struct{}, 1),
		client:     client,
	}, nil
}

// start starts every component that is down and returns when all are ready.
func (p *plane) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	for _, c := range p.components {
		if p.children[c.name] != nil {
			continue
		}
		began := time.Now()
		ch, err := startChild(p.options.Executable, c, p.data.log(c.name), p.ended)
		if err != nil {
			return err
		}
		p.children[c.name] = ch
		if err := p.await(ctx, c); err != nil {
			return err
		}
		p.say("%s is ready after %.1fs", c.name, time.Since(began).Seconds())
	}
	for _, c := range p.components {
		if err := p.await(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// await blocks until the component is ready. An error names the missing condition.
func (p *plane) await(ctx context.Context, c component) error {
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		lacks := probe(ctx, p.client, c.ready)
		if lacks == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return p.timeoutError(ctx, c, lacks)
		case <-p.ended:
			if err := p.failure(); err != nil {
				return err
			}
		case <-tick.C:
		}
	}
}

func (p *plane) timeoutError(ctx context.Context, c component, lacks error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("waiting for %s: %w", c.name, ctx.Err())
	}
	return fmt.Errorf("waiting for %s: not ready within %v: %w; the end of its log:\n%s",
		c.name, p.options.Timeout, lacks, tail(p.data.log(c.name)))
}

// failure returns the error of the first child that ended although it was not
// asked to, or nil.
func (p *plane) failure() error {
	for _, c := range p.components {
		if ch := p.children[c.name]; ch != nil && ch.gone() {
			return ch.exitError()
		}
	}
	return nil
}

// kill ends one component as kill -9 does.
func (p *plane) kill(name string) error {
	ch := p.children[name]
	if ch == nil {
		return fmt.Errorf("killing %q: not running; the running components are: %s", name, strings.Join(p.running(), ", "))
	}
	delete(p.children, name)
	ch.kill()
	p.say("%s is killed", name)
	return nil
}

// restart starts the components that are down. If all are up, it first stops
// all of them.
func (p *plane) restart(ctx context.Context) error {
	if len(p.children) == len(p.components) {
		p.stop()
	}
	return p.start(ctx)
}

// stop ends all children in the reverse order of their start.
func (p *plane) stop() {
	for _, c := range slices.Backward(p.components) {
		if ch := p.children[c.name]; ch != nil {
			delete(p.children, c.name)
			ch.stop()
		}
	}
}

func (p *plane) running() []string {
	var names []string
	for _, c := range p.components {
		if p.children[c.name] != nil {
			names = append(names, c.name)
		}
	}
	return names
}

func (p *plane) say(format string, a ...any) {
	_, _ = fmt.Fprintf(p.options.Progress, "controlplane: "+format+"\n", a...) // The reader may have closed it.
}
