package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// account is the directory in which a container finds the token of its service
// account.
const account = "var/run/secrets/kubernetes.io/serviceaccount"

// A container runs the first container of a Pod as the kubelet would.
type container struct {
	pod     *corev1.Pod
	root    string // the directory with its files
	program string // the path of the program in root
	address string // the address of its probes
	command []string
	env     []string

	process *exec.Cmd
	ended   chan error
	log     output
}

// output is a process's output.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// contain prepares the files, the environment and the command of a Pod's first
// container.
func contain(
	ctx context.Context, admin kubernetes.Interface, config *rest.Config, pod *corev1.Pod, root string,
) (*container, error) {
	programs, err := filepath.Glob(filepath.Join(root, "ko-app", "*"))
	if err != nil {
		return nil, fmt.Errorf("finding the program in %s: %w", root, err)
	}
	if len(programs) != 1 {
		return nil, fmt.Errorf("finding the program in %s: got %q, want one program", root, programs)
	}
	c := &container{pod: pod, root: root, program: strings.TrimPrefix(programs[0], root)}
	files := map[string]string{
		"dev/null":                       "", // a container runtime would create the device
		"proc/sys/kernel/random/boot_id": "boot-1\n",
	}
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if err := c.mount(ctx, admin, mount.MountPath, pod.Spec.Volumes[i], files); err != nil {
			return nil, fmt.Errorf("mounting %s: %w", mount.Name, err)
		}
	}
	if err := c.identity(ctx, admin, config, files); err != nil {
		return nil, err
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.address = listener.Addr().String()
	c.commandLine()
	return c, listener.Close()
}

// mount creates the directory of a volume in the container. If the volume is a
// ConfigMap, mount adds the ConfigMap's files to files, by their paths. It
// leaves the directory of a host path empty, because the trial fills it.
func (c *container) mount(
	ctx context.Context, admin kubernetes.Interface, path string, volume corev1.Volume, files map[string]string,
) error {
	if path == "/"+account { // identity creates it
		return nil
	}
	if err := os.MkdirAll(filepath.Join(c.root, path), 0o755); err != nil {
		return err
	}
	switch {
	case volume.ConfigMap != nil:
		data, err := admin.CoreV1().ConfigMaps(c.pod.Namespace).Get(ctx, volume.ConfigMap.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, text := range data.Data {
			files[filepath.Join(path, name)] = text
		}
		return nil
	case volume.HostPath != nil:
		return nil
	case c.pod.Spec.SecurityContext.FSGroup != nil:
		group := int(*c.pod.Spec.SecurityContext.FSGroup)
		return errors.Join(os.Chown(filepath.Join(c.root, path), 0, group), os.Chmod(filepath.Join(c.root, path), 0o775))
	default:
		return os.Chmod(filepath.Join(c.root, path), 0o777)
	}
}

// identity gives the container the token of the Pod's service account and the
// address of the API server.
func (c *container) identity(
	ctx context.Context, admin kubernetes.Interface, config *rest.Config, files map[string]string,
) error {
	token, err := admin.CoreV1().ServiceAccounts(c.pod.Namespace).CreateToken(ctx, c.pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Pod", APIVersion: "v1", Name: c.pod.Name, UID: c.pod.UID,
			},
		}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating the token of Pod %s: %w", c.pod.Name, err)
	}
	authority := config.CAData
	if len(authority) == 0 {
		if authority, err = os.ReadFile(config.CAFile); err != nil {
			return err
		}
	}
	files[account+"/token"], files[account+"/namespace"] = token.Status.Token, c.pod.Namespace
	files[account+"/ca.crt"] = string(authority)
	server, err := url.Parse(config.Host)
	if err != nil {
		return err
	}
	c.env = []string{
		"PATH=/bin", "HOME=/", "KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port(),
	}
	return nil
}

// commandLine sets the command and the environment of the container from the
// Pod's spec. The program listens at the free address c.address instead of the
// address in the spec.
func (c *container) commandLine() {
	spec := c.pod.Spec.Containers[0]
	listen := "--listen-addr=" + c.address
	args, replaced := slices.Clone(spec.Args), false
	for i, a := range args {
		if strings.HasPrefix(a, "--listen-addr=") {
			args[i], replaced = listen, true
		}
	}
	if !replaced {
		args = append([]string{listen}, args...)
	}
	c.command = append([]string{c.program}, args...)
	fields := map[string]string{
		"metadata.name": c.pod.Name, "metadata.namespace": c.pod.Namespace, "spec.nodeName": c.pod.Spec.NodeName,
	}
	for _, e := range spec.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = fields[e.ValueFrom.FieldRef.FieldPath]
		}
		c.env = append(c.env, e.Name+"="+value)
	}
}

// start runs the program in its root directory and as its user. It returns when
// the program is ready.
func (c *container) start(ctx context.Context) error {
	c.process = exec.Command(c.command[0], c.command[1:]...) //nolint:noctx // stop ends the process
	c.process.Err, c.process.Path = nil, c.command[0]        // the path is in the new root
	c.process.Dir, c.process.Env = "/", c.env
	c.process.Stdout, c.process.Stderr = &c.log, &c.log
	user := uint32(0)
	if s := c.pod.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		user = uint32(*s.RunAsUser)
	}
	c.process.SysProcAttr = &syscall.SysProcAttr{
		Chroot: c.root, Credential: &syscall.Credential{Uid: user, Gid: user}, Pdeathsig: syscall.SIGKILL,
	}
	if err := c.process.Start(); err != nil {
		return fmt.Errorf("starting program %s: %w", c.command[0], err)
	}
	c.ended = make(chan error, 1)
	go func() { c.ended <- c.process.Wait() }()
	probes := c.pod.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{probes.StartupProbe, probes.LivenessProbe, probes.ReadinessProbe} {
		err := eventually(ctx, func() error {
			select {
			case err := <-c.ended:
				c.ended <- err
				return fmt.Errorf("%w: the program has ended: %v", errGivenUp, c.process.ProcessState)
			default:
			}
			return c.get(probe.HTTPGet.Path, "", http.StatusOK)
		})
		if err != nil {
			return fmt.Errorf("waiting for %s: %w\n%s", probe.HTTPGet.Path, err, c.log.String())
		}
	}
	return nil
}

// get requests a path, with the token unless it is empty. It returns an error
// unless the status code of the answer is want.
func (c *container) get(path, token string, want int) error {
	request, err := http.NewRequest(http.MethodGet, "http://"+c.address+path, http.NoBody) //nolint:noctx // local
	if err != nil {
		return err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != want {
		err = fmt.Errorf("GET %s: %s, want %d", path, response.Status, want)
	}
	return errors.Join(err, response.Body.Close())
}

// stop ends the program as the kubelet does. It returns an error if the program
// fails or does not end.
func (c *container) stop() error {
	if err := c.process.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the program: %w\n%s", err, c.log.String())
	}
	select {
	case err := <-c.ended:
		if err != nil {
			return fmt.Errorf("the program ended with an error: %w\n%s", err, c.log.String())
		}
		return nil
	case <-time.After(patience):
		_ = c.process.Process.Kill() // the returned error is enough
		return fmt.Errorf("the program did not end within %v\n%s", patience, c.log.String())
	}
}

// kill ends the program at once.
func (c *container) kill() {
	if c.process != nil {
		_ = c.process.Process.Kill() // the process may have ended
	}
}
