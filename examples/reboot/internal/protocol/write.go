package protocol

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/homeostat/homeostat/patch"
)

// Write writes the annotations and the cordon of a node, as edit leaves them on
// a copy of the node. It fails if the node on the server is newer than node, or
// if edit fails. It sends no request if edit changes nothing.
func Write(
	ctx context.Context, nodes patch.Client[*corev1.Node], node *corev1.Node, edit func(*corev1.Node) error,
) error {
	next := node.DeepCopy()
	if err := edit(next); err != nil {
		return err
	}
	_, err := patch.Merge(ctx, patch.ClusterScoped(nodes), node, &patch.Options{Lock: true}, func(n *corev1.Node) {
		n.Annotations, n.Spec.Unschedulable = next.Annotations, next.Spec.Unschedulable
	})
	return err
}
