package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// commandLimit is how long the person on call waits for a command.
const commandLimit = 15 * time.Second

// commands returns the commands from the runbooks of all alerts. The same
// commands are run for each incident, because the choice of commands must not
// reveal the cause.
func (w *world) commands() []string {
	list := []string{
		"date -u",
		"kubectl get nodes -o wide",
		"kubectl get crd",
		"kubectl get leases -A",
		"kubectl get clusterrolebindings,rolebindings -A -o wide",
		"kubectl get clusterrole " + name + " -o yaml",
		"kubectl get events -A",
		"kubectl get events -A --field-selector reason=HotLoop",
		"kubectl get secretmirrors --sort-by=.metadata.creationTimestamp",
		"kubectl -n " + name + " get deployment,replicaset,pods -o wide",
		"kubectl -n " + name + " get lease " + name + " -o yaml --show-managed-fields",
		"kubectl -n " + name + " get serviceaccount",
		"etcdctl endpoint health --cluster",
		"etcdctl endpoint status --cluster -w table",
	}
	for _, r := range w.replicas {
		list = append(list, "kubectl -n "+name+" describe pod "+r.identity)
	}
	return list
}

// ask runs the commands and returns their outputs by file name. The commands do
// not use the proxy, like commands on a machine that runs no replica.
func (w *world) ask(ctx context.Context) evidence {
	const first = "kubectl get --raw /readyz?verbose" // its duration is measured, so it runs alone
	seen := evidence{fileOf(first): w.run(ctx, first)}
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, command := range w.commands() {
		asking.Go(func() {
			output := w.run(ctx, command)
			mu.Lock()
			defer mu.Unlock()
			seen[fileOf(command)] = output
		})
	}
	asking.Wait()
	return seen
}

// fileOf returns the name of the file with the output of a command.
func fileOf(command string) string {
	return strings.NewReplacer("/", "", "?", " ").Replace(command) + ".txt"
}

// run runs a command, and returns a text with its output and its duration.
func (w *world) run(ctx context.Context, command string) string {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	words := strings.Fields(command)
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // a command of the list above
	c.WaitDelay = time.Second
	c.Env = append(os.Environ(), "KUBECONFIG="+w.Kubeconfig(), "ETCDCTL_ENDPOINTS="+w.etcd())
	began := time.Now()
	output, err := c.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "not tried: " + words[0] + " is not installed\n"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "$ time %s\n%s\n", command, output)
	if ctx.Err() != nil {
		err = errors.New("the command did not answer in time, interrupting it")
	}
	if err != nil {
		fmt.Fprintf(&b, "%v\n", err)
	}
	fmt.Fprintf(&b, "after %v\n", time.Since(began).Round(100*time.Millisecond))
	return b.String()
}

// etcd returns the address of etcd.
func (w *world) etcd() string {
	var ports struct{ Etcd int }
	text, err := os.ReadFile(filepath.Join(filepath.Dir(w.Kubeconfig()), "ports.json"))
	if err != nil || json.Unmarshal(text, &ports) != nil {
		return ""
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports.Etcd)
}
