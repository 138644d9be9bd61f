package supervisor

import (
	"context"
	"errors"
	"fmt"
)

// A Supervisor runs one control plane. Its methods may be called from several
// goroutines at once.
type Supervisor struct {
	options  Options
	requests chan request
	ended    chan struct{} // closed when Run has returned
}

// A request is handled by the goroutine of Run, which owns the children.
type request struct {
	kill   string // the component to kill; empty asks for a restart
	answer chan error
}

// New returns a Supervisor. It does not start it. If there are mistakes in the
// options, New returns an error that joins all of them.
func New(o *Options) (*Supervisor, error) {
	options, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("checking the options: %w", err)
	}
	return &Supervisor{options: options, requests: make(chan request), ended: make(chan struct{})}, nil
}

// Run starts the control plane, and returns when it has stopped. It returns nil
// if ctx has ended, and an [*ExitError] if a component ended by itself. When
// ctx has ended, Run writes the cause to the progress. Run may be called once.
func (s *Supervisor) Run(ctx context.Context) (err error) {
	defer close(s.ended)
	data, err := openDataDir(s.options.DataDir, s.options.Port)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, data.close()) }()
	p, err := newPlane(&s.options, data)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := s.serve(ctx, p); ctx.Err() == nil {
		return err
	}
	p.say("ending: %v", context.Cause(ctx))
	return nil
}

func (s *Supervisor) serve(ctx context.Context, p *plane) error {
	p.say("data in %s", p.data.path)
	if err := p.start(ctx); err != nil {
		return err
	}
	path, err := s.publish(p.data)
	if err != nil {
		return err
	}
	s.options.Ready(path)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.ended:
			if err := p.failure(); err != nil {
				return err
			}
		case r := <-s.requests:
			if err := r.serve(ctx, p); err != nil {
				return err
			}
		}
	}
}

// publish writes the administrator's kubeconfig, and returns its path.
func (s *Supervisor) publish(d *dataDir) (string, error) {
	if s.options.Kubeconfig == "" {
		return d.file(adminName + ".kubeconfig"), nil
	}
	k, err := d.kubeconfig(adminName)
	if err != nil {
		return "", err
	}
	return s.options.Kubeconfig, k.write(s.options.Kubeconfig)
}

// serve handles the request. An error means that the control plane cannot
// continue.
func (r request) serve(ctx context.Context, p *plane) error {
	if r.kill != "" {
		r.answer <- p.kill(r.kill)
		return nil
	}
	err := p.restart(ctx)
	r.answer <- err
	return err
}

// Kill ends the named component as kill -9 does, and returns after its process
// has ended. The component stays down until Restart.
func (s *Supervisor) Kill(ctx context.Context, component string) error {
	return s.ask(ctx, request{kill: component})
}

// Restart starts the components that Kill has ended, and returns when all are
// ready. If all components run, it stops the whole control plane and starts it
// again with the same data and ports.
func (s *Supervisor) Restart(ctx context.Context) error {
	return s.ask(ctx, request{})
}

func (s *Supervisor) ask(ctx context.Context, r request) error {
	r.answer = make(chan error, 1)
	select {
	case s.requests <- r:
	case <-s.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
