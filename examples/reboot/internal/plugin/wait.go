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

// The errors of Wait for a request that has ended without a reboot. They
// contain the name of the node.
var (
	// ErrCalledOff is the result if the reboot was called off, for example
	// because the drain took too long. The operator tries again later.
	ErrCalledOff = errors.New("the reboot was called off, and will be retried")
	// ErrUnproven is the result if the machine was told to reboot, but reports
	// the same boot. The operator does not try again, because a person must
	// find the cause.
	ErrUnproven = errors.New("the machine was told to reboot, but reports the same boot")
	// ErrWithdrawn is the result if the request was removed.
	ErrWithdrawn = errors.New("the request was withdrawn before a reboot")
	// ErrDeleted is the result if the node was deleted or recreated.
	ErrDeleted = errors.New("the node was deleted")
	// ErrUnreadable is the result if an annotation is malformed. The operator
	// does not continue until a person corrects it.
	ErrUnreadable = errors.New("an annotation cannot be read")
)

// A wait is the state of waiting for one node.
type wait struct {
	asked *corev1.Node // the node as Request returned it
	state string       // the state that was last written
	err   error
	done  bool
}

// Wait waits for nodes that Request has returned. It returns when each of them
// is back from its reboot, or will not reboot for this request. It writes a
// line whenever the state of a node changes, and whenever the nodes or the
// groups cannot be read. While the server is unreachable, Wait continues.
//
// If nodes have not rebooted, the error joins [ErrCalledOff], [ErrUnproven],
// [ErrWithdrawn], [ErrDeleted] or [ErrUnreadable] of each of them. Wait also
// returns an error if the server does not accept the program's credentials, if
// a permission is missing, or if ctx ends.
func (p *Plugin) Wait(ctx context.Context, asked ...*corev1.Node) error {
	var waits []*wait
	for _, n := range asked {
		waits = append(waits, &wait{asked: n})
	}
	for {
		open, err := p.look(ctx, waits)
		switch {
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return err
		case err != nil: // The API server may run on a node that reboots.
			fmt.Fprintf(p.Out, "%s  %v, retrying\n", time.Now().Format(time.TimeOnly), err)
			open = names(asked)
		case len(open) == 0:
			return ends(waits)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the reboot of %v: %w (for details, run \"kubectl reboot why %s\")",
				open, ctx.Err(), open[0])
		case <-time.After(p.Poll):
		}
	}
}

func names(nodes []*corev1.Node) []string {
	var list []string
	for _, n := range nodes {
		list = append(list, n.Name)
	}
	return list
}

func ends(waits []*wait) error {
	var errs []error
	for _, w := range waits {
		errs = append(errs, w.err)
	}
	return errors.Join(errs...)
}

// look reads the nodes, writes a line for each change, and returns the names of
// the nodes that are still being waited for.
func (p *Plugin) look(ctx context.Context, waits []*wait) ([]string, error) {
	nodes, all, err := p.read(ctx)
	if err != nil {
		return nil, err
	}
	var open []string
	for _, w := range waits {
		if w.done {
			continue
		}
		name, state := w.asked.Name, "Deleted"
		i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.UID == w.asked.UID })
		if i < 0 {
			w.end(ErrDeleted, "")
		} else {
			state = rules.StateOf(nodes[i], all.PlaceOf(nodes[i]))
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

// judge ends the wait if the reboot is over, if the request was withdrawn, or
// if the node's annotations cannot be read. A reboot counts if its epoch is
// later than the epochs that were spent when it was requested.
func (w *wait) judge(s protocol.State, state string) {
	concluded := s.Last != nil && s.Last.Epoch > protocol.Read(w.asked).Spent()
	isRequested := concluded && (s.Needed == nil || *s.Needed == s.Last.Request.Request)
	switch state {
	case rules.StateFaulty:
		w.end(ErrUnreadable, s.Fault().Error())
	case rules.StateRequested, rules.StateOverlap, rules.StateCalledOff:
		switch {
		case isRequested && s.Last.Result == protocol.CalledOff:
			w.end(ErrCalledOff, s.Last.Why)
		case isRequested && s.Last.Result == protocol.Unproven:
			w.end(ErrUnproven, s.Last.Why)
		case s.Needed == nil:
			w.end(ErrWithdrawn, "")
		}
	case rules.StateDone, rules.StateIdle:
		if !concluded {
			w.end(ErrWithdrawn, "")
		}
		w.done = true
	}
}

func (w *wait) end(err error, reason string) {
	w.done, w.err = true, fmt.Errorf("waiting for node %q: %w", w.asked.Name, err)
	if reason != "" {
		w.err = fmt.Errorf("%w: %s", w.err, reason)
	}
}
