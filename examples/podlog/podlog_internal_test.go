package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/test/stage"
	"github.com/homeostat/homeostat/operator"
	"github.com/homeostat/homeostat/reconcile"
	"github.com/homeostat/homeostat/reconcile/reconciletest"
)

// exploration is how long it may look, in real time.
const exploration = 1 * time.Second

// journal has the log lines about each Pod, in order: "created 7" with the
// resourceVersion, "updated 8", "deleted".
type journal struct {
	mu    sync.Mutex // guards lines
	lines map[types.UID][]string
}

func (j *journal) logger() logr.Logger {
	j.lines = map[types.UID][]string{}
	return logr.New(j)
}

// Info records lines about Pods.
func (j *journal) Info(_ int, message string, values ...any) {
	said := map[any]any{}
	for i := 0; i+1 < len(values); i += 2 {
		said[values[i]] = values[i+1]
	}
	if version, ok := said["resourceVersion"]; ok {
		message = fmt.Sprint(message, " ", version)
	}
	if uid, ok := said["uid"].(types.UID); ok {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines[uid] = append(j.lines[uid], message)
	}
}

func (j *journal) Init(logr.RuntimeInfo)          {}
func (j *journal) Enabled(int) bool               { return true }
func (j *journal) Error(error, string, ...any)    {}
func (j *journal) WithValues(...any) logr.LogSink { return j }
func (j *journal) WithName(string) logr.LogSink   { return j }

// server shows one watch the events that the test sends.
type server struct{ events *watch.FakeWatcher }

func (s server) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Pod, error) {
	return nil, apierrors.NewNotFound(corev1.Resource("pods"), name)
}

func (s server) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (s server) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if o.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("list instead")
	}
	return s.events, nil
}

// TestMain runs the program in place of the tests for
// TestTheProgramReadsItsCommandLine.
func TestMain(m *testing.M) {
	if os.Getenv("PODLOG_TEST_MAIN") != "" {
		main()
		os.Exit(1) //nolint:forbidigo // main has ended the process
	}
	m.Run() // the test binary exits with its code
}

func TestTheProgramReadsItsCommandLine(t *testing.T) {
	g := NewWithT(t)
	command := exec.Command(os.Args[0], "--version")
	command.Env = append(os.Environ(), "PODLOG_TEST_MAIN=1")
	out, err := command.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(ContainSubstring("podlog"))
}

// The README shows and explains the program line by line, and the program stays
// as small as it says.
func TestTheREADMEExplainsEveryLine(t *testing.T) {
	g := NewWithT(t)
	program, err := os.ReadFile("main.go")
	g.Expect(err).NotTo(HaveOccurred())
	readme, err := os.ReadFile("README.md")
	g.Expect(err).NotTo(HaveOccurred())
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		shown = append(shown, block[1])
	}
	lines := func(text string) []string { return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' }) }
	g.Expect(lines(strings.Join(shown, ""))).To(Equal(lines(string(program))))
	g.Expect(strings.Count(string(program), "\n")).To(BeNumerically("<=", 60))
}

// A thousand Pods are updated a hundred times each; every other one is
// recreated, and then all are deleted.
func TestManyUpdatesEndInOneFinalLinePerPod(t *testing.T) {
	const number, updates = 1000, 100
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		api, j := server{watch.NewFake()}, &journal{}
		pods := informer.For(api, &informer.Options{MutationCheck: "never"}) // the other test looks
		ctx, stop := context.WithCancel(logr.NewContext(t.Context(), j.logger()))
		ended := make(chan error, 1)
		go func() { ended <- reconcile.Run(ctx, "podlog", pods, &podlog{}) }()
		synctest.Wait()

		version := 1
		pod := func(i int, generation string) *corev1.Pod {
			version++
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: "d", Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint(i, "-", generation)),
				ResourceVersion: fmt.Sprint(version),
			}}
		}
		want := map[types.UID]string{} // the last resourceVersion before the end
		for i := range number {
			api.events.Add(pod(i, "first"))
		}
		for range updates {
			for i := range number {
				p := pod(i, "first")
				want[p.UID] = p.ResourceVersion
				api.events.Modify(p)
			}
		}
		synctest.Wait()
		for i := range number {
			api.events.Delete(pod(i, "first"))
			if i%2 == 0 {
				p := pod(i, "second")
				want[p.UID] = p.ResourceVersion
				api.events.Add(p)
			}
		}
		synctest.Wait()
		for i := 0; i < number; i += 2 {
			api.events.Delete(pod(i, "second"))
		}
		synctest.Wait()
		stop()
		g.Expect(<-ended).To(Succeed())

		g.Expect(j.lines).To(HaveLen(len(want)))
		for uid, lines := range j.lines {
			g.Expect(strings.Join(lines, ", ")).To(MatchRegexp(`^created \d+(, updated \d+)*, deleted$`), string(uid))
			g.Expect(lines[len(lines)-2]).To(HaveSuffix(" "+want[uid]), "%s: the latest state was logged", uid)
		}
	})
}

func TestAReconcileWithoutAChangeLogsNothingAndDeletedPodsAreForgotten(t *testing.T) {
	g := NewWithT(t)
	p, j := &podlog{}, &journal{}
	ctx := logr.NewContext(t.Context(), j.logger())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", ResourceVersion: "7"}}
	for _, exists := range []bool{true, true, false, false} {
		request := reconcile.Request[*corev1.Pod]{Key: reconcile.Key{Name: "a"}}
		if exists {
			request = request.WithObject(pod)
		}
		g.Expect(p.Reconcile(ctx, request)).To(Equal(reconcile.Result{}))
	}
	g.Expect(j.lines).To(Equal(map[types.UID][]string{"1": {"created 7", "deleted"}}))
	p.logged.Range(func(key, _ any) bool {
		t.Errorf("%v is still remembered", key)
		return true
	})
}

// The Pods whose deletion was not logged in a boot are the Pods that exist,
// after any fault.
func TestItSurvivesEveryFault(t *testing.T) {
	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	reconciletest.Explore(t, &reconciletest.Case{
		Roles:   []string{"deploy/rbac.yaml"},
		Outside: func() any { return &journal{} },
		Run: func(env *reconciletest.Env) error {
			ctx := logr.NewContext(env.Context(), env.Outside().(*journal).logger())
			controllers, err := setup(operator.Env{Cluster: stage.Reach(env.Config())})
			if err != nil {
				return err
			}
			return reconcile.RunAll(ctx, controllers...)
		},
		Workload: []reconciletest.Step{
			reconciletest.Create(pod("a")),
			reconciletest.Create(pod("b")),
			reconciletest.Patch("pods", "d/a", `{"metadata":{"labels":{"x":"y"}}}`),
			reconciletest.Delete("pods", "d/b"),
			reconciletest.Create(pod("b")),
			reconciletest.Delete("pods", "d/a"),
		},
		Goal: func(w *reconciletest.World) error {
			there, err := reconciletest.List[corev1.Pod](w, "pods")
			if err != nil {
				return err
			}
			j := w.Outside().(*journal)
			alive := maps.Collect(maps.All(j.lines))
			maps.DeleteFunc(alive, func(_ types.UID, lines []string) bool { return slices.Contains(lines, "deleted") })
			if len(there) != 1 || len(alive) != 1 || alive[there[0].UID] == nil {
				return fmt.Errorf("there are %d Pods, and %v are logged without an end", len(there), alive)
			}
			for uid, lines := range j.lines {
				if ends := slices.Index(lines, "deleted"); ends >= 0 && ends != len(lines)-1 {
					return fmt.Errorf("Pod %s goes on after its end: %v", uid, lines)
				}
			}
			return nil
		},
	}, &reconciletest.Options{Budget: exploration})
}
