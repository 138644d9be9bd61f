package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/roster"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
	"github.com/homeostat/homeostat/patch"
)

// A Plugin runs the commands of one administrator. All fields are required.
type Plugin struct {
	Nodes  typedcorev1.NodeInterface
	Groups *api.Client
	Out    io.Writer
	// Poll is the interval at which Wait reads the nodes.
	Poll time.Duration
}

// Request requests a reboot of each node. It returns the nodes for which this
// succeeded; pass them to Wait. If request is empty, the request contains the
// current time, so that it differs from earlier requests. An equal request that
// was called off would have to wait for its retry.
//
// The error joins the errors of all nodes.
func (p *Plugin) Request(ctx context.Context, request string, nodes ...string) ([]*corev1.Node, error) {
	request = cmp.Or(request, "kubectl "+time.Now().UTC().Format(time.RFC3339))
	var asked []*corev1.Node
	var errs []error
	for _, name := range nodes {
		node, err := p.edit(ctx, name, func(n *corev1.Node) { protocol.Ask(n, request) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		asked = append(asked, node)
		fmt.Fprintf(p.Out, "node/%s: a reboot is requested: %s\n", name, request)
		last := protocol.Read(node).Last
		if last != nil && last.Result == protocol.CalledOff && last.Request.Request == request {
			fmt.Fprintf(p.Out, "node/%s: this request was called off, and will be tried again later: "+
				"a request with a different text need not wait\n", name)
		}
	}
	return asked, errors.Join(errs...)
}

// Pause pauses nodes if paused is true, and otherwise resumes them. The error
// joins the errors of all nodes.
func (p *Plugin) Pause(ctx context.Context, paused bool, nodes ...string) error {
	var errs []error
	for _, name := range nodes {
		_, err := p.edit(ctx, name, func(n *corev1.Node) {
			if delete(n.Annotations, protocol.Paused); paused {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, protocol.Paused, "true")
			}
		})
		if err == nil {
			fmt.Fprintf(p.Out, "node/%s: %s\n", name, word(paused))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// PauseGroup pauses a group if paused is true, and otherwise resumes it.
func (p *Plugin) PauseGroup(ctx context.Context, paused bool, name string) error {
	group, err := p.Groups.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading RebootGroup %q: %w", name, err)
	}
	_, err = patch.Merge(ctx, patch.ClusterScoped(p.Groups), group, nil, func(g *api.RebootGroup) {
		g.Spec.Paused = paused
	})
	if err == nil {
		fmt.Fprintf(p.Out, "rebootgroup/%s: %s\n", name, word(paused))
	}
	return err
}

func word(paused bool) string {
	if paused {
		return "paused"
	}
	return "resumed"
}

func (p *Plugin) edit(ctx context.Context, name string, edit func(*corev1.Node)) (*corev1.Node, error) {
	node, err := p.Nodes.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading node %q: %w", name, err)
	}
	return patch.Merge(ctx, patch.ClusterScoped(p.Nodes), node, nil, edit)
}

// Status writes a line for each of the named nodes or, without names, for all
// nodes. The error names the given nodes that do not exist, and the groups that
// cannot be decoded.
func (p *Plugin) Status(ctx context.Context, nodes ...string) error {
	members, all, err := p.read(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tGROUP\tSTATE\tREQUEST\tLAST")
	for _, n := range members {
		if len(nodes) > 0 && !slices.Contains(nodes, n.Name) {
			continue
		}
		place := all.PlaceOf(n)
		state := protocol.Read(n)
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n",
			n.Name, nameOf(place), rules.StateOf(n, place), requestOf(state), lastOf(state))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, name := range nodes {
		if !slices.ContainsFunc(members, func(n *corev1.Node) bool { return n.Name == name }) {
			err = errors.Join(err, fmt.Errorf("there is no node %q", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all.Unreadable)) {
		err = errors.Join(err, all.Unreadable[name])
	}
	return err
}

// Why writes the reasons why a node has not rebooted yet. It returns an error
// if there is no such node, or if the node's group cannot be decoded.
func (p *Plugin) Why(ctx context.Context, node string) error {
	members, all, err := p.read(ctx)
	if err != nil {
		return err
	}
	for _, n := range members {
		if n.Name != node {
			continue
		}
		place := all.PlaceOf(n)
		fmt.Fprintf(p.Out, "%s: %s\n", n.Name, rules.StateOf(n, place))
		for _, line := range rules.Why(n, place, time.Now()) {
			fmt.Fprintln(p.Out, "  "+line)
		}
		if place.Group != nil {
			return all.Unreadable[place.Group.Name]
		}
		return nil
	}
	return fmt.Errorf("there is no node %q", node)
}

// read returns all nodes, sorted by name, and all groups.
func (p *Plugin) read(ctx context.Context) ([]*corev1.Node, roster.Roster, error) {
	all, err := roster.Read(ctx, p.Groups, nil)
	if err != nil {
		return nil, all, err
	}
	nodes, err := p.Nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, all, fmt.Errorf("listing nodes: %w", err)
	}
	var members []*corev1.Node
	for i := range nodes.Items {
		members = append(members, &nodes.Items[i])
	}
	slices.SortFunc(members, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return members, all, nil
}

// nameOf returns the name of the node's group, or "-" if the node has no group.
// If several groups select the node, none of them reboots it, and nameOf
// returns all of their names, such as "a,b".
func nameOf(place rules.Place) string {
	switch {
	case len(place.Rivals) > 0:
		return strings.Join(place.Rivals, ",")
	case place.Group == nil:
		return "-"
	default:
		return place.Group.Name
	}
}

func requestOf(s protocol.State) string {
	switch {
	case s.InProgress != nil:
		return cmp.Or(s.InProgress.Request.Request, "-")
	case s.Now != nil:
		return cmp.Or(s.Now.Request.Request, "-")
	case s.Needed != nil:
		return cmp.Or(*s.Needed, "-")
	default:
		return "-"
	}
}

func lastOf(s protocol.State) string {
	if s.Last == nil {
		return "-"
	}
	return s.Last.Result + " " + s.Last.At.UTC().Format(time.RFC3339)
}
