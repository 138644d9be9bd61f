package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// container is the name of the program's container in its Pods.
const container = "controller"

// makePods creates a Node and a Pod for each replica. The control plane has no
// kubelet, so the Pods of the Deployment stay Pending. The Pods created here
// run, so the ReplicaSet adopts them and deletes its own.
func (w *world) makePods(ctx context.Context) error {
	var template *corev1.PodTemplateSpec
	err := eventually(ctx, func() error {
		sets, err := w.admin.AppsV1().ReplicaSets(name).List(ctx, metav1.ListOptions{})
		if err == nil && len(sets.Items) == 0 {
			err = fmt.Errorf("the Deployment %s has no ReplicaSet", name)
		}
		if err == nil {
			template = &sets.Items[0].Spec.Template
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, r := range w.replicas {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.node}}
		if _, err := w.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: r.identity, Labels: template.Labels}, Spec: template.Spec}
		pod.Spec.NodeName = r.node
		if _, err := w.admin.CoreV1().Pods(name).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := eventually(ctx, func() error { return w.observe(ctx, r) }); err != nil {
			return err
		}
	}
	return eventually(ctx, func() error {
		pods, err := w.admin.CoreV1().Pods(name).List(ctx, metav1.ListOptions{
			LabelSelector: labels.FormatLabels(template.Labels),
		})
		if err == nil && len(pods.Items) != len(w.replicas) {
			err = fmt.Errorf("there are %d Pods, want %d", len(pods.Items), len(w.replicas))
		}
		return err
	})
}

// observeAll calls observe for each replica. Errors are ignored, because a
// kubelet cannot write either while the API server does not answer.
func (w *world) observeAll(ctx context.Context) {
	for _, r := range w.replicas {
		ctx, cancel := context.WithTimeout(ctx, commandLimit)
		_ = w.observe(ctx, r)
		cancel()
	}
}

// observe writes into the status of the replica's Node and Pod what a real
// cluster would show there, also after the node has failed.
func (w *world) observe(ctx context.Context, r *replica) error {
	node, err := w.admin.CoreV1().Nodes().Get(ctx, r.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		Message: "kubelet is posting ready status", LastHeartbeatTime: metav1.Now(),
	}}
	if r.lost {
		node.Status.Conditions[0].Status = corev1.ConditionUnknown
		node.Status.Conditions[0].Reason = "NodeStatusUnknown"
		node.Status.Conditions[0].Message = "Kubelet stopped posting node status."
	}
	if _, err := w.admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	pod, err := w.admin.CoreV1().Pods(name).Get(ctx, r.identity, metav1.GetOptions{})
	if err != nil {
		return err
	}
	readyz, err := get(ctx, "http://"+r.address+"/readyz?verbose", "")
	ready := err == nil && !strings.Contains(readyz, "readyz failed")
	pod.Status = r.status(pod.Status, ready)
	_, err = w.admin.CoreV1().Pods(name).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// status returns the status of the replica's Pod.
func (r *replica) status(s corev1.PodStatus, ready bool) corev1.PodStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	condition := corev1.ConditionFalse
	if ready {
		condition = corev1.ConditionTrue
	}
	s.Phase, s.PodIP = corev1.PodRunning, "10.0.0.1"+strings.TrimPrefix(r.node, "node-")
	s.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: condition},
		{Type: corev1.PodReady, Status: condition},
	}
	c := corev1.ContainerStatus{
		Name: container, Image: "ghcr.io/homeostat/mirror:v0.1.0", RestartCount: r.restarts, Ready: ready,
		LastTerminationState: r.lastEnd,
	}
	switch {
	case r.process != nil || r.lost: // the kubelet of a failed node says nothing new
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(r.started)}
	default:
		c.State.Waiting = &corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: "back-off 5m0s restarting failed container=" + container + " pod=" + r.identity + "_" + name,
		}
	}
	s.ContainerStatuses = []corev1.ContainerStatus{c}
	return s
}

// ended records how the last process ended, as its kubelet would report it. It
// records nothing if the node has failed. The caller must hold r.mu.
func (r *replica) ended() {
	if r.lost {
		return
	}
	const killed = 137 // 128 and the number of SIGKILL
	r.restarts++
	r.lastEnd.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: killed, Reason: "Error", StartedAt: metav1.NewTime(r.started), FinishedAt: metav1.Now(),
	}
}

// loseNode stops a replica, and makes its address silent, like the address of a
// node that has failed: no connection is answered, and none is refused.
func (r *replica) loseNode() (err error) {
	r.lost = true
	r.stop()
	r.silence, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", r.address)
	return err
}

// findNode makes the address refuse connections again, as after the node has
// returned. It does not start the replica.
func (r *replica) findNode() error {
	r.lost = false
	return r.silence.Close()
}
