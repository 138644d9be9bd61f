package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	name   = "mirror"            // of the program, its namespace, account and roles
	source = "registry-password" // the Secret that it copies, as examples/mirror/deploy/sample.yaml says
)

// tenants is the number of namespaces that have a copy.
const tenants = 4

// world is the cluster with the program's replicas and Prometheus.
type world struct {
	*e2e.Cluster
	admin      kubernetes.Interface
	root       string
	folder     string // a temporary folder
	program    string
	kubeconfig string // for the program's account
	proxy      *proxy // to the API server, for the replicas
	replicas   []*replica
	prometheus *prometheus
	values     int // the number in the source's value
}

// replica is a replica of the program. Its process may be stopped.
type replica struct {
	address, identity string
	process           *exec.Cmd

	mu  sync.Mutex // guards log
	log bytes.Buffer
}

func (r *replica) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// open starts the cluster with four namespaces that have copies, two replicas,
// and Prometheus.
func open(ctx context.Context, root, program string) (*world, error) {
	cluster, err := e2e.Start(ctx, &e2e.Options{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: cluster, root: root, program: program}
	if err := w.fill(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) fill(ctx context.Context) (err error) {
	if w.folder, err = os.MkdirTemp("", "gameday-"); err != nil {
		return err
	}
	if w.admin, err = kubernetes.NewForConfig(w.Config()); err != nil {
		return err
	}
	for _, file := range []string{"install.yaml", "sample.yaml"} {
		if file == "sample.yaml" {
			if err := w.makeTenants(ctx); err != nil {
				return err
			}
		}
		text, err := os.ReadFile(filepath.Join(w.root, "examples", name, "deploy", file))
		if err == nil {
			err = w.Apply(ctx, string(text))
		}
		if err != nil {
			return err
		}
	}
	if w.proxy, err = newProxy(strings.TrimPrefix(w.Config().Host, "https://")); err != nil {
		return err
	}
	w.kubeconfig = filepath.Join(w.folder, "kubeconfig")
	if err := w.login(ctx); err != nil {
		return err
	}
	var targets []string
	for n := range 2 {
		r := &replica{identity: name + "-" + strconv.Itoa(n)}
		if r.address, err = freeAddress(); err != nil {
			return err
		}
		w.replicas, targets = append(w.replicas, r), append(targets, r.address)
		if err := w.start(r); err != nil {
			return err
		}
	}
	w.prometheus, err = startPrometheus(w.root, w.folder, targets)
	return err
}

// login writes the kubeconfig of the program's account, with a new token.
func (w *world) login(ctx context.Context) error {
	account, err := w.As(ctx, name, name)
	if err != nil {
		return err
	}
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: "https://" + w.proxy.address, CertificateAuthorityData: account.CAData, CertificateAuthority: account.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: account.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, w.kubeconfig)
}

// makeTenants creates the source, and the namespaces that get a copy.
func (w *world) makeTenants(ctx context.Context) error {
	manifests := []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: platform}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: ` + source + `, namespace: platform}}`,
	}
	for n := range tenants {
		manifests = append(manifests, fmt.Sprintf(
			`{apiVersion: v1, kind: Namespace, metadata: {name: team-%d, labels: {team: "yes"}}}`, n))
	}
	return w.Apply(ctx, manifests...)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts a replica.
func (w *world) start(r *replica) error {
	//nolint:noctx // it ends by stop
	r.process = exec.Command(w.program, "--kubeconfig="+w.kubeconfig, "--listen-addr="+r.address, "--log-format=json",
		"--leader-elect", "--leader-elect-identity="+r.identity, "--leader-elect-resource-namespace="+name)
	r.process.Stdout, r.process.Stderr = r, r
	return r.process.Start()
}

// stop kills a replica, as if its node had failed.
func (r *replica) stop() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill() // it may have ended
	_ = r.process.Wait()         // by that signal
	r.process = nil
}

func (w *world) close() error {
	for _, r := range w.replicas {
		r.stop()
	}
	var err error
	if w.prometheus != nil {
		err = w.prometheus.stop()
	}
	if w.proxy != nil {
		err = errors.Join(err, w.proxy.shut())
	}
	return errors.Join(err, w.Stop(), os.RemoveAll(w.folder))
}

// set changes the value of the source.
func (w *world) set(ctx context.Context) error {
	w.values++
	_, err := w.admin.CoreV1().Secrets("platform").Patch(ctx, source, types.MergePatchType,
		fmt.Appendf(nil, `{"stringData":{"is":"%d"}}`, w.values), metav1.PatchOptions{})
	return err
}

// well waits until a change of the source has reached all copies, both replicas
// are ready, and no alert fires.
func (w *world) well(ctx context.Context) error {
	if err := eventually(ctx, func() error { return w.set(ctx) }); err != nil {
		return err
	}
	return eventually(ctx, func() error {
		all, err := w.admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + source})
		if err != nil {
			return err
		}
		for _, s := range all.Items {
			if got := string(s.Data["is"]); got != strconv.Itoa(w.values) {
				return fmt.Errorf("%s has %q instead of %d", s.Namespace, got, w.values)
			}
		}
		if len(all.Items) != tenants+1 {
			return fmt.Errorf("there are %d Secrets", len(all.Items))
		}
		if text := w.notReady(ctx); text != "" {
			return errors.New(text)
		}
		if alert := w.firing(ctx); alert != "" {
			return fmt.Errorf("still firing: %s", alert)
		}
		return nil
	})
}

// mark forgets the log lines so far.
func (w *world) mark() {
	for _, r := range w.replicas {
		r.mu.Lock()
		r.log.Reset()
		r.mu.Unlock()
	}
}

// lastError returns the last error in a replica's log since mark.
func (w *world) lastError() string {
	last, at := "", ""
	for _, r := range w.replicas {
		r.mu.Lock()
		text := r.log.String()
		r.mu.Unlock()
		for line := range strings.Lines(text) {
			var entry struct{ Time, Level, Msg, Err, Object string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Level == "ERROR" && entry.Time > at {
				last, at = strings.Trim(entry.Msg+": "+entry.Err+entry.Object, ": "), entry.Time
			}
		}
	}
	return last
}

// notReady returns the lines of /readyz that are not ok.
func (w *world) notReady(ctx context.Context) string {
	var lines []string
	for _, r := range w.replicas {
		text, err := get(ctx, "http://"+r.address+"/readyz?verbose")
		if err != nil {
			lines = append(lines, "no answer of "+r.identity)
		}
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "[!]") || strings.HasPrefix(line, "[-]") {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// rewrite changes a copy, as a tenant would.
func (w *world) rewrite(namespace, value string) error {
	_, err := w.admin.CoreV1().Secrets(namespace).Patch(context.Background(), source, types.MergePatchType,
		fmt.Appendf(nil, `{"stringData":{"is":%q}}`, value), metav1.PatchOptions{})
	return err
}
