package roll

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/patch"
)

const (
	// GroupName is the name of the roll's RebootGroup.
	GroupName = "demo"
	label     = "reboot-demo"
	neededKey = "reboot.homeostat.dev/reboot-needed"

	pollInterval = 100 * time.Millisecond
	tidyTimeout  = 20 * time.Second
)

// A cluster makes the requests of the roll to the API server.
type cluster struct {
	config  *rest.Config
	core    kubernetes.Interface
	dynamic dynamic.Interface
}

func newCluster(config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit, because all simulated kubelets share the client
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &cluster{config, core, d}, nil
}

func (c *cluster) definitions() dynamic.ResourceInterface {
	return c.dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
}

func (c *cluster) groups() dynamic.ResourceInterface {
	return c.dynamic.Resource(schema.GroupVersionResource{
		Group: "reboot.homeostat.dev", Version: "v1alpha1", Resource: "rebootgroups",
	})
}

// install creates the CustomResourceDefinition of RebootGroup, and returns when
// the server serves RebootGroups. definition is the YAML text.
func (c *cluster) install(ctx context.Context, definition string) error {
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(definition), &crd.Object); err != nil {
		return fmt.Errorf("reading the definition of RebootGroup: %w", err)
	}
	_, err := c.definitions().Apply(ctx, crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "reboot-demo", Force: true})
	if err != nil {
		return fmt.Errorf("installing the definition of RebootGroup: %w", err)
	}
	for {
		_, err := c.groups().List(ctx, metav1.ListOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for RebootGroups to be served: %w", err)
		}
		if err := pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("waiting for RebootGroups to be served: %w", err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// furnish creates the RebootGroup and the nodes. limit is the number of nodes
// that may be unavailable.
func (c *cluster) furnish(ctx context.Context, names []string, limit int) error {
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "reboot.homeostat.dev/v1alpha1", "kind": "RebootGroup",
		"metadata": map[string]any{"name": GroupName},
		"spec": map[string]any{
			"nodeSelector":   map[string]any{"matchLabels": map[string]any{label: "true"}},
			"maxUnavailable": int64(limit), "minReadySeconds": int64(1),
			"drain": map[string]any{"policy": "wait"},
		},
	}}
	if _, err := c.groups().Create(ctx, group, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating RebootGroup %q: %w", GroupName, err)
	}
	for _, name := range names {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "true"}}}
		if _, err := c.core.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating node %q: %w", name, err)
		}
	}
	return nil
}

// ask requests a reboot of the node, as an administrator would: it sets the
// annotation reboot-needed.
func (c *cluster) ask(ctx context.Context, name string) error {
	nodes := patch.ClusterScoped(c.core.CoreV1().Nodes())
	_, err := patch.Merge(ctx, nodes, named(name), nil, func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, neededKey, "demo")
	})
	return err
}

// report posts a node's status, as a kubelet would.
func (c *cluster) report(ctx context.Context, name string, ready corev1.ConditionStatus, reason, bootID string) error {
	now := metav1.Now()
	_, err := patch.Status(ctx, patch.ClusterScoped(c.core.CoreV1().Nodes()), named(name), nil, func(node *corev1.Node) {
		node.Status.NodeInfo.BootID = bootID
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: ready, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now,
		}}
	})
	return err
}

// named returns a node that has only a name. A patch that edits this node
// contains every field that the edit sets.
func named(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

// tidy deletes the group, the nodes and the namespace of the Pods. It must be
// called while a controller still runs, because a controller removes the
// group's finalizer once the group's ledger is empty.
func (c *cluster) tidy(ctx context.Context, names []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	for _, name := range names {
		err := c.core.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting node %q: %w", name, err)
		}
	}
	err := c.core.CoreV1().Namespaces().Delete(ctx, podNamespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting namespace %q: %w", podNamespace, err)
	}
	err = c.groups().Delete(ctx, GroupName, metav1.DeleteOptions{})
	for err == nil {
		if err = pause(ctx, pollInterval); err == nil {
			_, err = c.groups().Get(ctx, GroupName, metav1.GetOptions{})
		}
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting RebootGroup %q: %w", GroupName, err)
	}
	return nil
}
