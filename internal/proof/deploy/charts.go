package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

// A chartTrial is the trial of a chart. set is the value of the chart that the
// upgrade sets, and changed reports whether the Deployment has the value.
type chartTrial struct {
	name, deployment, set string
	changed               func(*appsv1.Deployment) bool
	crd                   string // the CRD that stays after uninstalling, if the chart has one
}

var chartTrials = []chartTrial{
	{
		name: "reboot", deployment: "reboot-controller", set: "controller.replicas=3",
		changed: func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 },
		crd:     "rebootgroups.reboot.homeostat.dev",
	},
	{
		name: "observe", deployment: "set-owner", set: "podAnnotations.team=web",
		changed: func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations["team"] == "web" },
	},
}

// tryCharts installs each chart in its own namespace with helm, upgrades it
// with a different value, and uninstalls it. It starts a control plane of its
// own, because helm refuses to manage objects that other clients have created.
func tryCharts(ctx context.Context, root, helm string) error {
	cluster, err := e2e.Start(ctx, &e2e.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	s := &stage{Cluster: cluster, root: root}
	var errs []error
	if s.admin, err = kubernetes.NewForConfig(cluster.Config()); err != nil {
		return errors.Join(err, s.Stop())
	}
	if s.dynamic, err = dynamic.NewForConfig(cluster.Config()); err != nil {
		return errors.Join(err, s.Stop())
	}
	for _, t := range chartTrials {
		err := s.tryChart(ctx, helm, t)
		verdict := "ok"
		if err != nil {
			verdict = "FAILED"
			errs = append(errs, fmt.Errorf("testing the chart of %s: %w", t.name, err))
		}
		fmt.Fprintf(os.Stdout, "chart %-14s %s\n", t.name, verdict)
	}
	return errors.Join(append(errs, s.Stop())...)
}

func (s *stage) tryChart(ctx context.Context, helm string, t chartTrial) error {
	namespace, folder := t.name+"-by-helm", filepath.Join(s.root, "examples", t.name, "chart")
	for _, step := range []struct {
		args []string
		want func(*appsv1.Deployment) bool // nil if the Deployment must be deleted
	}{
		{[]string{"install", t.name, folder, "--create-namespace"}, func(d *appsv1.Deployment) bool { return !t.changed(d) }},
		{[]string{"upgrade", t.name, folder, "--set", t.set}, t.changed},
		{[]string{"uninstall", t.name}, nil},
	} {
		args := slices.Concat(step.args, []string{"--kubeconfig", s.Kubeconfig(), "--namespace", namespace})
		if out, err := exec.CommandContext(ctx, helm, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("helm %s: %w\n%s", step.args[0], err, out)
		}
		deployments, err := s.admin.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		switch n := len(deployments.Items); {
		case step.want == nil && n > 0:
			return fmt.Errorf("helm %s left %d Deployments behind: want none", step.args[0], n)
		case step.want != nil && (n != 1 || deployments.Items[0].Name != t.deployment || !step.want(&deployments.Items[0])):
			return fmt.Errorf("helm %s: unexpected Deployments: %v", step.args[0], deployments.Items)
		}
	}
	if t.crd == "" {
		return nil
	}
	crds := schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	if _, err := s.dynamic.Resource(crds).Get(ctx, t.crd, metav1.GetOptions{}); err != nil {
		return fmt.Errorf("uninstalling the chart deleted the CRD: %w", err)
	}
	return nil
}
