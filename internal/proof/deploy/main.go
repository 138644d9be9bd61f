package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// patience is the time limit of each step on a busy machine.
const patience = 90 * time.Second

// node is the name of the only node, on which all Pods run.
const node = "worker"

// errGivenUp makes eventually return at once. An error wraps it if further
// attempts cannot succeed.
var errGivenUp = errors.New("giving up")

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	images := flag.String("images", "dist/rootfs", "`directory` with the files of each image")
	helm := flag.String("helm", "", "the `program` that installs the charts; if empty, the charts are not tried")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := verify(ctx, *root, *images, *helm, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "deploy:", err)
		os.Exit(1)
	}
}

// A stage is the control plane of the trials.
type stage struct {
	*e2e.Cluster
	admin        kubernetes.Interface
	dynamic      dynamic.Interface
	root, images string
	folder, log  string // a temporary folder, and the audit log in it
	reader       string // the token of an account that may read the page
}

func verify(ctx context.Context, root, images, helm string, selected []string) error {
	if os.Geteuid() != 0 {
		return errors.New("starting a program in the root directory of its image requires root: run this as root")
	}
	s, err := open(ctx, root, images)
	if err != nil {
		return err
	}
	var errs []error
	for _, t := range trials {
		if len(selected) > 0 && !slices.Contains(selected, t.name) && !slices.Contains(selected, t.programsOf()[0]) {
			continue
		}
		began := time.Now()
		err := s.try(ctx, t)
		verdict := "ok"
		if err != nil {
			verdict = "FAILED"
			errs = append(errs, fmt.Errorf("testing %s: %w", t.name, err))
		}
		fmt.Printf("%-20s %-6s %v\n", t.name, verdict, time.Since(began).Round(time.Second/10))
	}
	errs = append(errs, s.Stop(), os.RemoveAll(s.folder))
	if helm != "" {
		errs = append(errs, tryCharts(ctx, root, helm))
	}
	return errors.Join(errs...)
}

// open starts the control plane with an audit log, a node, and an account that
// may read the page.
func open(ctx context.Context, root, images string) (*stage, error) {
	images, err := filepath.Abs(images)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "verify-deploy-")
	if err != nil {
		return nil, err
	}
	policy, log := filepath.Join(folder, "policy.yaml"), filepath.Join(folder, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	cluster, err := e2e.Start(ctx, &e2e.Options{Progress: os.Stderr, Flags: []string{
		"kube-apiserver:--audit-log-path=" + log, "kube-apiserver:--audit-policy-file=" + policy,
	}})
	if err != nil {
		return nil, err
	}
	s := &stage{Cluster: cluster, root: root, images: images, folder: folder, log: log}
	if s.admin, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		return nil, err
	}
	if s.dynamic, err = dynamic.NewForConfig(cluster.Config()); err != nil {
		return nil, err
	}
	reader, err := cluster.ServiceAccount(ctx, e2e.ServiceAccount{
		Namespace: "default", Name: "reader", ClusterRules: []rbacv1.PolicyRule{
			{NonResourceURLs: []string{"/debug/homeostat"}, Verbs: []string{"get"}},
		},
	})
	if err != nil {
		return nil, err
	}
	s.reader = reader.BearerToken
	return s, s.Apply(ctx, `{apiVersion: v1, kind: Node, metadata: {name: `+node+`}}`)
}

// try installs the programs of a trial, exercises them, and compares the
// requests of their accounts with their permissions.
func (s *stage) try(ctx context.Context, t trial) error {
	manifest, err := os.ReadFile(filepath.Join(s.root, "examples", t.name, "deploy", "install.yaml"))
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, string(manifest)); err != nil {
		return err
	}
	r := &running{stage: s, namespace: t.namespaceOf()}
	defer r.kill()
	for _, name := range t.programsOf() {
		c, err := s.container(ctx, r.namespace, name)
		if err != nil {
			return err
		}
		c.command = append(c.command, t.flags[name]...)
		r.containers = append(r.containers, c)
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	if err := r.pages(t); err != nil {
		return err
	}
	if t.exercise(ctx, r); r.err != nil {
		return fmt.Errorf("%w\n%s", r.err, r.logs())
	}
	if err := r.stop(); err != nil {
		return err
	}
	var errs []error
	for _, c := range r.containers {
		errs = append(errs, s.judge(ctx, t, c))
	}
	return errors.Join(errs...)
}

// placed waits for a Pod with the label app.kubernetes.io/name=NAME, where NAME
// is name, and binds it to the node, as a scheduler does.
func (s *stage) placed(ctx context.Context, namespace, name string) (pod *corev1.Pod, err error) {
	err = eventually(ctx, func() error {
		pods, err := s.admin.CoreV1().Pods(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("the Pod does not exist yet")
		}
		pod = &pods.Items[0]
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for a Pod of %s: %w", name, err)
	}
	err = s.admin.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("binding Pod %s to the node: %w", pod.Name, err)
	}
	pod.Spec.NodeName = node
	return pod, nil
}

// container waits for a Pod of the named workload, binds it to the node, and
// prepares the Pod's first container.
func (s *stage) container(ctx context.Context, namespace, name string) (*container, error) {
	pod, err := s.placed(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	image, _, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
	return contain(ctx, s.admin, s.Config(), pod, filepath.Join(s.images, filepath.Base(image)))
}

func (s *stage) judge(ctx context.Context, t trial, c *container) error {
	name := c.pod.Spec.ServiceAccountName
	granted, err := grantedTo(ctx, s.admin, c.pod.Namespace, name)
	if err != nil {
		return err
	}
	calls, err := recordsOf(s.log, "system:serviceaccount:"+c.pod.Namespace+":"+name)
	if err != nil {
		return err
	}
	faults, spared := judge(granted, calls, t.seldom)
	fmt.Printf("  %-18s %d requests, %d permissions, %d of them spared\n", name, len(calls), len(granted), len(spared))
	for _, text := range spared {
		fmt.Printf("    not used: %s\n", text)
	}
	if len(faults) > 0 {
		return fmt.Errorf("the permissions of %s are wrong:\n\t%s", name, strings.Join(faults, "\n\t"))
	}
	return nil
}

// eventually calls try until it succeeds, but no longer than the time in
// patience.
func eventually(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		if err == nil || errors.Is(err, errGivenUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("giving up after %v: %w", patience, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
