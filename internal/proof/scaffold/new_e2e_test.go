//go:build e2e

package scaffold_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

const homeostat = "github.com/homeostat/homeostat"

// patience is how long anything may take on a busy machine that has compiled
// nothing yet.
const patience = 10 * time.Minute

// From an empty folder to an operator that survives, as the README says it.
func TestE2EAStrangersWay(t *testing.T) {
	s := newStranger(t)
	s.sh("go run github.com/homeostat/homeostat/operator/new@latest --group example.com --kind Widget")
	s.dir = filepath.Join(s.dir, "widget-operator")
	s.Expect(s.read("go.mod")).To(And(ContainSubstring(homeostat+" "+s.version), Not(ContainSubstring("replace"))))
	before := s.content()
	s.sh("make generate")
	s.Expect(s.content()).To(Equal(before), "make generate changes nothing")
	s.sh("make test build")

	s.sh("make install deploy")
	s.Eventually(s.pods, time.Minute).Should(Equal(2), "the restricted policy admits the Pods of the Deployment")
	first := s.operator()
	s.sh("kubectl apply -f config/sample.yaml")
	s.sh("kubectl wait --for=condition=Ready --timeout=1m widgets/sample")
	s.Expect(s.text()).To(Equal("Hello"))

	s.Expect(first.Process.Kill()).To(Succeed())
	s.Expect(first.Wait()).NotTo(Succeed())
	s.sh("kubectl delete configmap sample")
	s.sh(`kubectl patch widgets sample --type merge -p '{"spec":{"text":"Hello again"}}'`)
	second := s.operator()
	s.Eventually(s.text, time.Minute).Should(Equal("Hello again"))
	s.sh("kubectl wait --for=jsonpath={.status.observedGeneration}=2 --timeout=1m widgets/sample")
	s.Expect(second.Process.Signal(syscall.SIGTERM)).To(Succeed())
	s.Expect(second.Wait()).To(Succeed())

	s.putBugIn()
	s.sh("go test -run 'ConfigMap' .") // the unit tests
	out, err := s.try("go test .")
	s.Expect(err).To(HaveOccurred())
	for _, line := range s.promised() {
		s.Expect(out).To(MatchRegexp(line))
	}
	s.Expect(strings.Count(out, "\n")).To(BeNumerically("<", 50), "a failure that fits on a screen: %s", out)
}

// A kind whose objects name a Secret: its operator is explored, finds the bug
// of its README, and works on the real server with the Role of its sample.
func TestE2EAnOperatorReadsSecretsByName(t *testing.T) {
	s := &stranger{WithT: NewWithT(t), t: t}
	s.connect()
	s.generate("--group=example.com --kind=Widget --secret")
	before := s.content()
	s.sh("GOWORK=off go generate ./...")
	s.Expect(s.content()).To(Equal(before))
	s.sh("GOWORK=off go test .")

	s.sh("GOWORK=off make build install deploy")
	s.Eventually(func() error {
		_, err := s.try("kubectl apply -f config/sample.yaml") // the kind is served shortly after it is established
		return err
	}, time.Minute).Should(Succeed())
	first := s.operator()
	s.sh("kubectl wait --for=condition=Ready --timeout=1m widgets/sample")
	checksum := func() string { return s.sh("kubectl get configmap sample -o jsonpath={.data.checksum}") }
	s.Eventually(checksum, time.Minute).Should(HaveLen(64))
	old := checksum()
	s.sh(`kubectl patch secret sample --type merge -p '{"stringData":{"key":"other"}}'`)
	s.Eventually(checksum, time.Minute).Should(And(HaveLen(64), Not(Equal(old))))
	s.Expect(first.Process.Signal(syscall.SIGTERM)).To(Succeed())
	s.Expect(first.Wait()).To(Succeed())

	s.putBugIn()
	out, err := s.try("GOWORK=off go test .")
	s.Expect(err).To(HaveOccurred())
	for _, line := range s.promised() {
		s.Expect(out).To(MatchRegexp(line))
	}
}

// DeepCopy and CRD are written before controller-gen has ever run, for whatever
// names.
func TestE2EGenerateChangesNothing(t *testing.T) {
	s := &stranger{WithT: NewWithT(t), t: t}
	for _, args := range []string{
		"--group=1.2 --kind=Yes --version=v1",
		"--group=a-b.example.com --kind=HTTPRouteOfAVeryLongNameThatFillsAWholeLine --version=v2beta1 --plural=routes",
	} {
		s.generate(args + " --module=example.com/it")
		before := s.content()
		s.sh("GOWORK=off go generate ./...")
		s.Expect(s.content()).To(Equal(before))
	}
}

// Kubernetes has kinds of these names, too. Each operator is explored, and
// works on the real server.
func TestE2EAKindMayBeCalledAsOneOfKubernetes(t *testing.T) {
	s := &stranger{WithT: NewWithT(t), t: t}
	s.connect()
	for kind, plural := range map[string]string{"Status": "statuses", "Event": "events"} {
		s.generate("--group=example.com --kind=" + kind)
		s.sh("GOWORK=off go test . && GOWORK=off make build install")
		s.Eventually(func() error {
			_, err := s.try("kubectl apply -f config/sample.yaml") // the kind is served shortly after it is established
			return err
		}, time.Minute).Should(Succeed())
		operator := exec.Command("sh", "-c", "exec bin/*-operator --listen-addr=")
		operator.Dir, operator.Env = s.dir, append(os.Environ(), s.env...)
		log := &compile.Tail{}
		operator.Stdout, operator.Stderr = log, log
		s.Expect(operator.Start()).To(Succeed())
		s.Eventually(s.text, time.Minute).Should(Equal("Hello"), kind+"\n%s", log)
		s.sh("kubectl wait --for=condition=Ready --timeout=1m " + plural + ".example.com/sample")
		s.Expect(operator.Process.Signal(syscall.SIGTERM)).To(Succeed())
		s.Expect(operator.Wait()).To(Succeed())
		s.sh("kubectl delete configmaps sample && kubectl delete crd " + plural + ".example.com")
	}
}

// generate writes a new operator, on this checkout, into an empty folder, and
// goes there.
func (s *stranger) generate(args string) {
	s.t.Helper()
	s.dir = root(s.t)
	program := filepath.Join(s.t.TempDir(), "new")
	s.sh("go build -C operator/new -o " + program + " .")
	s.dir = s.t.TempDir()
	s.sh("GOWORK=off " + program + " " + args + " --dir=it --replace=" + root(s.t))
	s.dir = filepath.Join(s.dir, "it")
}

// stranger has an empty folder, a module proxy that has Homeostat, and a
// cluster.
type stranger struct {
	*WithT
	t       *testing.T
	dir     string
	version string // of Homeostat
	env     []string
	cluster *e2e.Cluster
	admin   kubernetes.Interface
}

func newStranger(t *testing.T) *stranger {
	t.Helper()
	s := &stranger{WithT: NewWithT(t), t: t, dir: t.TempDir()}
	proxy := s.publish()
	s.connect()
	s.env = append(s.env, "GOWORK=off",
		"GOPROXY=file://"+proxy+","+strings.TrimSpace(s.sh("go env GOPROXY")), "GONOSUMDB="+homeostat)
	return s
}

// connect starts the cluster, which kubectl in the stranger's command lines
// reaches.
func (s *stranger) connect() {
	s.t.Helper()
	program, err := compile.ControlPlane(s.t.Context(), os.Stderr)
	s.Expect(err).NotTo(HaveOccurred())
	s.cluster, err = e2e.Start(s.t.Context(), &e2e.Options{Progress: os.Stderr})
	s.Expect(err).NotTo(HaveOccurred())
	s.t.Cleanup(func() { s.Expect(s.cluster.Stop()).To(Succeed()) })
	s.admin, err = kubernetes.NewForConfig(s.cluster.Config())
	s.Expect(err).NotTo(HaveOccurred())
	tools := s.t.TempDir()
	kubectl := fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", program)
	s.Expect(os.WriteFile(filepath.Join(tools, "kubectl"), []byte(kubectl), 0o755)).To(Succeed())
	s.env = []string{"KUBECONFIG=" + s.cluster.Kubeconfig(), "PATH=" + tools + ":" + os.Getenv("PATH")}
}

// Two objects have finalizers, which the operator removes for as long as its
// namespace is there.
func TestE2EUndeployLeavesNothing(t *testing.T) {
	s := &stranger{WithT: NewWithT(t), t: t}
	s.connect()
	s.generate("--group=example.com --kind=Widget")
	s.sh("make undeploy") // nothing is there yet
	s.sh("make install deploy")
	s.sh("kubectl create namespace other")
	for _, namespace := range []string{"default", "other"} {
		s.sh("sed 's/namespace: default/namespace: " + namespace + "/' config/sample.yaml | kubectl apply -f -")
		s.sh("kubectl patch -n " + namespace + ` widgets sample --type merge -p '{"metadata":{"finalizers":["example.com/outside"]}}'`)
	}
	s.sh("sed -i s/--timeout=5m/--timeout=3s/ Makefile")
	for range 2 { // the operator is down, and then a user deletes the CRD
		out, err := s.try("make undeploy")
		s.Expect(err).To(HaveOccurred())
		s.Expect(out).To(ContainSubstring("Start the operator, and run this again"))
		s.Expect(s.sh("kubectl get deployments -n widget-operator")).To(ContainSubstring("widget-operator"))
		s.sh("kubectl delete crd widgets.example.com --wait=false")
	}
	s.sh("sed -i s/--timeout=3s/--timeout=5m/ Makefile")
	ctx, stop := context.WithCancel(t.Context())
	var operator sync.WaitGroup
	defer operator.Wait()
	defer stop()
	operator.Go(func() { s.cleanUp(ctx) })
	s.sh("make undeploy")
	s.sh("make undeploy")
	s.Expect(s.sh("kubectl get namespace widget-operator --ignore-not-found")).To(BeEmpty())
	s.Expect(s.sh("kubectl get crd widgets.example.com --ignore-not-found")).To(BeEmpty())
}

// cleanUp removes the finalizers of deleted widgets, one every second, until
// the namespace of the operator is deleted.
func (s *stranger) cleanUp(ctx context.Context) {
	widgets := dynamic.NewForConfigOrDie(s.cluster.Config()).Resource(schema.GroupVersionResource{
		Group: "example.com", Version: "v1alpha1", Resource: "widgets",
	})
	for pace := time.NewTicker(time.Second); ; {
		select {
		case <-ctx.Done():
			pace.Stop()
			return
		case <-pace.C:
		}
		home, err := s.admin.CoreV1().Namespaces().Get(ctx, "widget-operator", metav1.GetOptions{})
		if err != nil || home.DeletionTimestamp != nil {
			continue
		}
		all, err := widgets.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, w := range all.Items {
			if w.GetDeletionTimestamp() != nil {
				_, _ = widgets.Namespace(w.GetNamespace()).Patch(ctx, w.GetName(), types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}) // another time, if it fails
				break
			}
		}
	}
}

// publish makes a module proxy of this checkout, which has the library and the
// scaffold, and returns its folder. The version is of the content, since the go
// command keeps what it has once got.
func (s *stranger) publish() string {
	s.t.Helper()
	checkout := root(s.t)
	list := exec.CommandContext(s.t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = checkout
	out, err := list.Output()
	s.Expect(err).NotTo(HaveOccurred())
	var library, scaffold []zip.File
	hash := sha256.New()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(checkout, name))
		if info, failed := os.Lstat(filepath.Join(checkout, name)); failed != nil || !info.Mode().IsRegular() {
			continue // deleted, and not committed yet
		}
		s.Expect(err).NotTo(HaveOccurred())
		fmt.Fprintf(hash, "%s %x\n", name, sha256.Sum256(content))
		library = append(library, file{checkout, name})
		if inner, ok := strings.CutPrefix(name, "operator/new/"); ok {
			scaffold = append(scaffold, file{filepath.Join(checkout, "operator", "new"), inner})
		}
	}
	s.version = "v0.0.1-e2e." + hex.EncodeToString(hash.Sum(nil))[:12]
	proxy := s.t.TempDir()
	s.serve(proxy, homeostat, library, checkout)
	s.serve(proxy, homeostat+"/operator/new", scaffold, filepath.Join(checkout, "operator", "new"))
	s.t.Cleanup(s.forget)
	return proxy
}

// serve adds a module, whose go.mod is in folder, to the files of a proxy.
func (s *stranger) serve(proxy, path string, files []zip.File, folder string) {
	s.t.Helper()
	versions := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	s.Expect(os.MkdirAll(versions, 0o755)).To(Succeed())
	archive, err := os.Create(filepath.Join(versions, s.version+".zip"))
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(zip.Create(archive, module.Version{Path: path, Version: s.version}, files)).To(Succeed())
	s.Expect(archive.Close()).To(Succeed())
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	s.Expect(err).NotTo(HaveOccurred())
	for name, content := range map[string]string{
		"list": s.version + "\n", s.version + ".mod": string(mod),
		s.version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, s.version),
	} {
		s.Expect(os.WriteFile(filepath.Join(versions, name), []byte(content), 0o644)).To(Succeed())
	}
}

// file is one file of the checkout.
type file struct{ root, name string }

func (f file) Path() string                 { return f.name }
func (f file) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.root, f.name)) }
func (f file) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.root, f.name)) }

// forget takes the version of this test out of the cache of modules.
func (s *stranger) forget() {
	out, err := exec.Command("go", "env", "GOMODCACHE").Output() // the test's context has ended
	s.Expect(err).NotTo(HaveOccurred())
	cache := strings.TrimSpace(string(out))
	for _, path := range []string{homeostat, homeostat + "/operator/new"} {
		extracted := filepath.Join(cache, filepath.FromSlash(path)+"@"+s.version)
		_ = exec.Command("chmod", "-R", "u+w", extracted).Run() // it is not there if the test has failed early
		s.Expect(os.RemoveAll(extracted)).To(Succeed())
		downloaded, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(path), "@v", s.version+".*"))
		s.Expect(err).NotTo(HaveOccurred())
		for _, name := range downloaded {
			s.Expect(os.Remove(name)).To(Succeed())
		}
	}
}

// try runs a command line in the folder and returns its output.
func (s *stranger) try(line string) (string, error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", line)
	command.Dir, command.Env = s.dir, append(os.Environ(), s.env...)
	began := time.Now()
	out, err := command.CombinedOutput()
	s.t.Logf("%s: %v", line, time.Since(began).Round(time.Second/10))
	return string(out), err
}

// sh runs a command line that has to succeed.
func (s *stranger) sh(line string) string {
	s.t.Helper()
	out, err := s.try(line)
	s.Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	return out
}

func (s *stranger) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	s.Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// content returns the content of all files, by name.
func (s *stranger) content() map[string]string {
	s.t.Helper()
	content := map[string]string{}
	s.Expect(fs.WalkDir(os.DirFS(s.dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			content[path] = s.read(path)
		}
		return err
	})).To(Succeed())
	return content
}

// operator starts the operator as the Deployment would, with the rights of its
// account, until it is ready.
func (s *stranger) operator() *exec.Cmd {
	s.t.Helper()
	const name = "widget-operator"
	var account *rest.Config
	s.Eventually(func() (err error) {
		account, err = s.cluster.As(s.t.Context(), name, name)
		return err
	}, time.Minute).Should(Succeed())
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	s.Expect(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: account.Host, CertificateAuthorityData: account.CAData, CertificateAuthority: account.CAFile,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: account.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig)).To(Succeed())
	const address = "127.0.0.1:18437"
	command := exec.Command(filepath.Join(s.dir, "bin", name), "--kubeconfig="+kubeconfig, "--listen-addr="+address,
		"--leader-elect", "--leader-elect-resource-namespace="+name, "--leader-elect-identity=one")
	log := &compile.Tail{}
	command.Stdout, command.Stderr = log, log
	s.Expect(command.Start()).To(Succeed())
	s.t.Cleanup(func() { _ = command.Process.Kill() }) // it has ended if the test has not failed
	s.Eventually(func() (int, error) {
		response, err := http.Get("http://" + address + "/readyz") //nolint:noctx // a probe of a local process
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}, time.Minute).Should(Equal(http.StatusOK), log.String)
	return command
}

// text returns the text of the ConfigMap.
func (s *stranger) text() (string, error) {
	got, err := s.admin.CoreV1().ConfigMaps("default").Get(s.t.Context(), "sample", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return got.Data["text"], nil
}

// pods is how many Pods the Deployment has.
func (s *stranger) pods() (int, error) {
	all, err := s.admin.CoreV1().Pods("widget-operator").List(s.t.Context(), metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return len(all.Items), nil
}

// putBugIn puts the bug of the README into controller.go.
func (s *stranger) putBugIn() {
	s.t.Helper()
	before, after := bug(s.WithT, s.read("README.md"))
	code := strings.Replace(s.read("controller.go"), before, after, 1)
	s.Expect(code).To(ContainSubstring(after))
	s.Expect(os.WriteFile(filepath.Join(s.dir, "controller.go"), []byte(code), 0o644)).To(Succeed())
}

// promised are the lines that, by the README, the exploration prints: as
// regular expressions, in which numbers are any, and so is what stands for an
// ellipsis.
func (s *stranger) promised() []string {
	s.t.Helper()
	_, text, found := strings.Cut(s.read("README.md"), "```\n500 ")
	text, _, closed := strings.Cut(text, "```")
	s.Expect(found && closed).To(BeTrue())
	var lines []string
	for line := range strings.Lines("500 " + text) {
		line = regexp.QuoteMeta(strings.TrimSpace(line))
		line = regexp.MustCompile(`[0-9]+`).ReplaceAllString(line, "[0-9]+")
		lines = append(lines, strings.ReplaceAll(line, "…", ".*"))
	}
	return lines
}

// root is the absolute path of this checkout.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../..")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return path
}

// bug returns what the README says to replace in controller.go, and by what.
func bug(g *WithT, readme string) (before, after string) {
	_, text, found := strings.Cut(readme, "```diff\n")
	text, _, closed := strings.Cut(text, "```")
	g.Expect(found && closed).To(BeTrue(), "the README has a diff")
	for line := range strings.Lines(text) {
		if line[0] != '+' {
			before += line[1:]
		}
		if line[0] != '-' {
			after += line[1:]
		}
	}
	return before, after
}
