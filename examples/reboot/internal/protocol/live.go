package protocol

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/names"
)

// Live returns the live node, or nil if it does not exist.
//
// It returns an error for an answer without a UID, or with a different name,
// because only a proxy sends such an answer. Without this check, an existing
// node would look like a recreated one, and lose its slot.
func Live(ctx context.Context, nodes interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error)
}, name string,
) (*corev1.Node, error) {
	node, ok, err := names.Live(ctx, nodes, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading node %q: %w", name, err)
	case !ok:
		return nil, nil
	case node.UID == "":
		return nil, fmt.Errorf("reading node %q: the answer has no UID", name)
	}
	return node, nil
}
