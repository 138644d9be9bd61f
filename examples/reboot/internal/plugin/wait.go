package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// How a request may end without a reboot. Wait returns them with the name of
// the node.
var (
	// ErrCalledOff says that a drain did not end in time: it is tried again later.
	ErrCalledOff = errors.New("the reboot was called off, and waits to be tried again")
	// ErrUnproven says that the machine was told to reboot, and reports the
	// same boot: a person has to look, and it is not tried again.
	ErrUnproven = errors.New("the machine was told to reboot, and reports the same boot")
	// ErrWithdrawn says that the request is no longer there.
	ErrWithdrawn = errors.New("the request was withdrawn before a reboot")
	// ErrDeleted says that the node was deleted, or recreated.
	ErrDeleted = errors.New("the node was deleted")
	// ErrUnreadable says that the operator moves nothing before a person
	// corrects it.
	ErrUnreadable = errors.New("an annotation cannot be read")
)

// A wait is for one node.
type wait struct {
	asked *corev1.Node // as Request has left it
	state string       // as was told last
	err   error
	done  bool
}

// Wait returns when each of the nodes that Request has returned is back from a
// reboot, or will not reboot for this request, and writes a line whenever the
// state of one changes. Errors: [ErrCalledOff], [ErrUnproven], [ErrWithdrawn],
// [ErrDeleted] and [ErrUnreadable] of every node, joined; a permission is
// missing; or ctx has ended. While the server is unreachable it keeps waiting.
func (p *Plugin) Wait(ctx context.Context, asked ...*corev1.Node) error {
	var all []*wait
	for _, n := range asked {
		all = append(all, &wait{asked: n})
	}
	for {
		open, err := p.look(ctx, all)
		switch {
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case err != nil: // The API server may run on a node that reboots.
			fmt.Fprintf(p.Out, "%s  %v, retrying\n", time.Now().Format(time.TimeOnly), err)
			open = names(asked)
		case len(open) == 0:
			return ends(all)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the reboot of %v: %w: kubectl reboot why %s says more", open, ctx.Err(), open[0])
		case <-time.After(p.Poll):
		}
	}
}

func names(nodes []*corev1.Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Name)
	}
	return all
}

func ends(all []*wait) error {
	var errs []error
	for _, w := range all {
		errs = append(errs, w.err)
	}
	return errors.Join(errs...)
}

// look returns the names of the unfinished waits, and prints the changes.
func (p *Plugin) look(ctx context.Context, all []*wait) ([]string, error) {
	nodes, groups, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, w := range all {
		if w.done {
			continue
		}
		name, state := w.asked.Name, "Deleted"
		i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.UID == w.asked.UID })
		if i < 0 {
			w.end(ErrDeleted, "")
		} else {
			state = rules.StateOf(nodes[i], rules.PlaceOf(nodes[i], groups))
			w.judge(protocol.Read(nodes[i]), state)
		}
		if w.state != state {
			fmt.Fprintf(p.Out, "%s  node/%s: %s\n", time.Now().Format(time.TimeOnly), name, state)
			w.state = state
		}
		if !w.done {
			open = append(open, name)
		}
	}
	return open, nil
}

// judge ends the wait if nothing more can happen. Events on the node since the
// request are in epochs after those that were spent when the reboot was
// requested.
func (w *wait) judge(s protocol.State, state string) {
	since := s.Last != nil && s.Last.Epoch > protocol.Read(w.asked).Spent()
	ours := since && (s.Needed == nil || *s.Needed == s.Last.Request.Request)
	switch state {
	case rules.StateFaulty:
		w.end(ErrUnreadable, s.Fault().Error())
	case rules.StateRequested, rules.StateOverlap, rules.StateCalledOff:
		switch {
		case ours && s.Last.Result == protocol.CalledOff:
			w.end(ErrCalledOff, s.Last.Why)
		case ours && s.Last.Result == protocol.Unproven:
			w.end(ErrUnproven, s.Last.Why)
		case s.Needed == nil:
			w.end(ErrWithdrawn, "")
		}
	case rules.StateDone, rules.StateIdle:
		if !since {
			w.end(ErrWithdrawn, "")
		}
		w.done = true
	}
}

func (w *wait) end(err error, why string) {
	w.done, w.err = true, fmt.Errorf("waiting for node %q: %w", w.asked.Name, err)
	if why != "" {
		w.err = fmt.Errorf("%w: %s", w.err, why)
	}
}
