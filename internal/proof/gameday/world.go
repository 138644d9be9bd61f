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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	// memoryLimit is 90 % of the memory limit in the Deployment, in bytes. In a
	// container, the program itself would set this limit.
	memoryLimit = "241591910"

	name   = "mirror"            // the name of the program, its namespace, account and roles
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
	program    string // the built examples/mirror
	kubeconfig string // the kubeconfig of the program's account
	proxy      *proxy // the proxy through which the replicas reach the API server
	replicas   []*replica
	prometheus *prometheus
	values     int    // the number that the source Secret contains
	reader     string // the token of an account that may look at the page
}

// replica is a replica of the program. Its process may be stopped.
type replica struct {
	address, identity, node string
	clock                   string        // the name of the file for clockVariable
	offset                  time.Duration // how far the replica's clock is ahead of the machine's clock
	process                 *exec.Cmd
	lost                    bool         // whether the node has failed
	silence                 net.Listener // listens at address, and never answers, while the node has failed

	mu       sync.Mutex // guards the fields below; must also be held to change process
	started  time.Time
	restarts int32
	lastEnd  corev1.ContainerState // how the last process that was stopped ended
	log      bytes.Buffer
	marked   int    // the length of log at the last mark
	previous string // the log of the last process that was stopped, as excerpt returns it
	unseen   string // the logs of processes that were stopped since the last mark, from that mark on
}

// excerpt returns the part of text that begins at byte marked, because the
// lines before that are about earlier incidents. If that part is empty, excerpt
// returns the last three lines of text.
func excerpt(text string, marked int) string {
	if marked < len(text) {
		return text[marked:]
	}
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(lines[max(0, len(lines)-3):], "")
}

// logs returns the log of the running process, and the log of the process
// before it. If no process is running, log is the log of the last process, and
// previous is empty. The logs on a node that has failed cannot be read.
func (r *replica) logs() (log, previous string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lost:
		return "no answer: " + r.node + " does not answer\n", ""
	case r.process == nil:
		return r.previous, ""
	}
	return excerpt(r.log.String(), r.marked), r.previous
}

// news returns the part of the log since the last mark.
func (r *replica) news() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unseen + r.log.String()[r.marked:]
}

func (r *replica) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

// open starts a cluster with two replicas of the program and with Prometheus.
// The program copies its Secret to four namespaces of the cluster.
func open(ctx context.Context, root string) (*world, error) {
	cluster, err := e2e.Start(ctx, &e2e.Options{Progress: os.Stderr})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: cluster, root: root}
	if err := w.fill(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) fill(ctx context.Context) (err error) {
	if w.folder, err = os.MkdirTemp("", "gameday-"); err != nil {
		return err
	}
	if err := w.build(ctx); err != nil {
		return err
	}
	if w.admin, err = kubernetes.NewForConfig(w.Config()); err != nil {
		return err
	}
	if err := w.install(ctx); err != nil {
		return err
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
		r := &replica{identity: name + "-" + strconv.Itoa(n), node: "node-" + strconv.Itoa(n)}
		r.clock = filepath.Join(w.folder, "clock-"+r.identity)
		if r.address, err = freeAddress(); err != nil {
			return err
		}
		w.replicas, targets = append(w.replicas, r), append(targets, r.address)
		if err := w.start(r); err != nil {
			return err
		}
	}
	if err := w.makePods(ctx); err != nil {
		return err
	}
	if w.prometheus, err = startPrometheus(w.root, w.folder, targets); err != nil {
		return err
	}
	return w.allowReader(ctx)
}

// install installs the program and its sample.
func (w *world) install(ctx context.Context) error {
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
	return nil
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
	r.mu.Lock()
	defer r.mu.Unlock()
	//nolint:noctx // it ends by stop
	r.process = exec.Command(w.program, "--kubeconfig="+w.kubeconfig, "--listen-addr="+r.address, "--log-format=json",
		"--leader-elect", "--leader-elect-identity="+r.identity, "--leader-elect-resource-namespace="+name)
	r.process.Stdout, r.process.Stderr = r, r
	r.process.Env = append(os.Environ(), "GOMEMLIMIT="+memoryLimit, clockVariable+"="+r.clock)
	r.started = time.Now()
	return r.process.Start()
}

// stop kills the process of a replica, which gets no time to shut down.
func (r *replica) stop() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill() // the process may have ended
	_ = r.process.Wait()         // returns the error that the signal has ended the process
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = nil
	r.ended()
	r.previous = excerpt(r.log.String(), r.marked)
	r.unseen += r.log.String()[r.marked:]
	r.log.Reset()
	r.marked = 0
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

// set changes the value in the source Secret.
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
		secrets, err := w.admin.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + source})
		if err != nil {
			return err
		}
		for _, s := range secrets.Items {
			if got := string(s.Data["is"]); got != strconv.Itoa(w.values) {
				return fmt.Errorf("the Secret in namespace %s has the value %q, want %d", s.Namespace, got, w.values)
			}
		}
		if len(secrets.Items) != tenants+1 {
			return fmt.Errorf("there are %d Secrets, want %d", len(secrets.Items), tenants+1)
		}
		if lines := w.notReady(ctx); len(lines) > 0 {
			return errors.New(lines[0])
		}
		if err := w.scraped(ctx); err != nil {
			return err
		}
		if alert := w.firing(ctx); alert != "" {
			return fmt.Errorf("an alert is still firing: %s", alert)
		}
		return nil
	})
}

// mark marks the current end of each replica's log. news then returns only
// later lines. mark also forgets how earlier processes ended.
func (w *world) mark() {
	for _, r := range w.replicas {
		r.mu.Lock()
		r.marked, r.unseen, r.previous = r.log.Len(), "", ""
		r.restarts, r.lastEnd = 0, corev1.ContainerState{}
		r.mu.Unlock()
	}
}

// errorLines returns the last few different errors in the logs since mark, the
// oldest of them first.
func (w *world) errorLines() []string {
	const limit = 3
	type entry struct{ time, text string }
	var found []entry
	for _, r := range w.replicas {
		for line := range strings.Lines(r.news()) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil && fields["level"] == "ERROR" {
				found = append(found, entry{fmt.Sprint(fields["time"]), logText(fields)})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return strings.Compare(b.time, a.time) })
	var lines []string
	for _, e := range found {
		if len(lines) < limit && !slices.Contains(lines, e.text) {
			lines = append(lines, e.text)
		}
	}
	slices.Reverse(lines)
	return lines
}

// logText returns a record of the log as a text. It leaves out the fields that
// differ from run to run.
func logText(fields map[string]any) string {
	var text strings.Builder
	fmt.Fprint(&text, fields["msg"])
	for _, name := range []string{"err", "kind", "object", "examples", "keys", "lease"} {
		switch value := fields[name].(type) {
		case nil:
		case map[string]any: // a namespaced name
			fmt.Fprintf(&text, "; %s=%v/%v", name, value["Namespace"], value["Name"])
		default:
			fmt.Fprintf(&text, "; %s=%v", name, value)
		}
	}
	return text.String()
}

// notReady returns the different lines of /readyz that are not ok. It also
// returns the line that names the holder of the Lease if the holder is not a
// replica.
func (w *world) notReady(ctx context.Context) []string {
	var lines []string
	for _, r := range w.replicas {
		text, err := get(ctx, "http://"+r.address+"/readyz?verbose", "")
		if err != nil {
			lines = append(lines, "no answer of "+r.identity)
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			bad := strings.HasPrefix(line, "[!]") || strings.HasPrefix(line, "[-]") ||
				strings.Contains(line, "no replica of this program leads")
			if bad && !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// rewrite changes a copy, as a tenant would.
func (w *world) rewrite(namespace, value string) error {
	_, err := w.admin.CoreV1().Secrets(namespace).Patch(context.Background(), source, types.MergePatchType,
		fmt.Appendf(nil, `{"stringData":{"is":%q}}`, value), metav1.PatchOptions{FieldManager: "team-tool"})
	return err
}
