package observer_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/examples/observe/internal/observer"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/names"
)

var services = schema.GroupVersionResource{Version: "v1", Resource: "services"}

// A world is a fake API server with Services, and a runner that records calls.
type world struct {
	*WithT
	t      *testing.T
	client *dynamicfake.FakeDynamicClient

	mu    sync.Mutex // guards the fields below
	out   bytes.Buffer
	calls []command.Call
	log   []string
	// run is the effect of a command; nil succeeds.
	run func(ctx context.Context, c command.Call) error
}

// inWorld runs f in a bubble of virtual time.
func inWorld(t *testing.T, f func(w *world), objects ...runtime.Object) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(&world{WithT: NewWithT(t), t: t, client: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(
			runtime.NewScheme(), map[schema.GroupVersionResource]string{services: "ServiceList"}, objects...)})
	})
}

// Run records a call.
func (w *world) Run(ctx context.Context, c command.Call) error {
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.run == nil {
		return nil
	}
	return w.run(ctx, c)
}

// Write takes lines of progress.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// Log takes lines of the log.
func (w *world) Log(_, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
}

// logged returns how many lines of the log have that text.
func (w *world) logged(text string) (lines int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, line := range w.log {
		if strings.Contains(line, text) {
			lines++
		}
	}
	return lines
}

// ran returns the command lines since the last call.
func (w *world) ran() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := make([]string, len(w.calls))
	for i, c := range w.calls {
		lines[i] = command.Line(c.Argv)
	}
	w.calls = nil
	return lines
}

// progress returns the lines since the last call, without their times.
func (w *world) progress() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []string
	for line := range strings.Lines(w.out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# 2000-01-01T"); ok {
			_, line, _ = strings.Cut(rest, " ")
		}
		lines = append(lines, line)
	}
	w.out.Reset()
	return lines
}

// made makes an observer of the Services of all namespaces.
func (w *world) made(o observer.Options, in *informer.Options) *observer.Observer {
	w.t.Helper()
	o.Namespaced = true
	o.Controller.Workers = cmp.Or(o.Controller.Workers, 1)
	client := func(ns string) informer.Client[*unstructured.Unstructured, *unstructured.UnstructuredList] {
		return informer.Untyped[*unstructured.Unstructured, *unstructured.UnstructuredList](w.of(ns))
	}
	if in == nil {
		in = &informer.Options{}
	}
	in.Kind = "Service"
	made, err := observer.New(informer.ForNamespaces(client, in),
		func(ns string) observer.Getter[*unstructured.Unstructured] { return client(ns) },
		w, observer.Progress{Out: w}, o)
	w.Expect(err).NotTo(HaveOccurred())
	return made
}

func (w *world) of(namespace string) dynamic.ResourceInterface {
	return w.client.Resource(services).Namespace(namespace)
}

// start runs an observer until end is called, which returns the result of Run.
func (w *world) start(o observer.Options) (made *observer.Observer, end func() error) {
	w.t.Helper()
	if o.MaxErrors == 0 {
		o.MaxErrors = observer.NoLimit
	}
	made = w.made(o, nil)
	ctx, cancel := context.WithCancel(logr.NewContext(w.t.Context(), funcr.New(w.Log, funcr.Options{})))
	ended := make(chan error, 1)
	go func() { ended <- made.Run(ctx) }()
	synctest.Wait()
	return made, func() error {
		cancel()
		return <-ended
	}
}

// once runs an observer until it has nothing left to do.
func (w *world) once(o observer.Options) (*observer.Observer, error) {
	w.t.Helper()
	o.Once = true
	if o.MaxErrors == 0 {
		o.MaxErrors = observer.NoLimit
	}
	made := w.made(o, nil)
	return made, made.Run(w.t.Context())
}

// put creates or replaces a Service.
func (w *world) put(s *unstructured.Unstructured) {
	w.t.Helper()
	client := w.of(s.GetNamespace())
	_, err := client.Update(w.t.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = client.Create(w.t.Context(), s, metav1.CreateOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
	synctest.Wait()
}

func (w *world) delete(namespace, name string) {
	w.t.Helper()
	w.Expect(w.of(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{})).To(Succeed())
	synctest.Wait()
}

// service is a Service d/name of a version.
func service(name string, version int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{
			"namespace": "d", "name": name, "uid": "uid-of-" + name, "resourceVersion": fmt.Sprint(version),
		},
		"spec": map[string]any{"clusterIP": fmt.Sprintf("10.0.0.%d", version)},
	}}
}

// printed is a lister of names that prints text, each time it is asked.
func printed(text func() (io.Reader, error)) names.Lister {
	return names.Func(func(context.Context) ([]names.Name, error) {
		r, err := text()
		if err != nil {
			return nil, err
		}
		return known.Parse(r, known.Format{})
	})
}

// listing is a lister of names that always prints text.
func listing(text string) names.Lister {
	return printed(func() (io.Reader, error) { return strings.NewReader(text), nil })
}
