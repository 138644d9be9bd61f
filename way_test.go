package homeostat_test

import (
	"context"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// besides are files that are on the stack and not on the way.
var besides = map[string]string{
	"reconcile/reconciler.go": "Func, which is the user's",
	"reconcile/watchdog.go":   "has started the goroutine of the worker, without a key",
	"reconcile/new.go":        "calls Options.Group, by which the test sees it",
}

// A key is followed from the watch to the queue, and from the queue to the patch: each file of ours that is on the stack
// there is one of the way that docs/design.md draws.
func TestAKeyPassesTheFilesOfTheDesign(t *testing.T) {
	drawn := regexp.MustCompile(`(?m)^ ?\d+  ([a-z/]+\.go)`).FindAllStringSubmatch(read(t, "docs/design.md"), -1)
	var way []string
	for _, step := range drawn {
		way = append(way, step[1])
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := stacks{root: root + "/"}
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		client.PrependReactor("patch", "*", func(clienttesting.Action) (bool, kruntime.Object, error) {
			seen.add("patch.Merge[")
			return false, nil, nil
		})
		pods := informer.For(client.CoreV1().Pods(""), nil)
		r := reconcile.Func[*corev1.Pod](func(ctx context.Context, req reconcile.Request[*corev1.Pod]) (reconcile.Result, error) {
			cached, _ := req.Object()
			_, err := patch.Merge(ctx, client.CoreV1().Pods, cached, nil, func(pod *corev1.Pod) {
				pod.Labels = map[string]string{"a": "b"}
			})
			return reconcile.Result{}, err
		})
		c, err := reconcile.New("test", pods, r, &reconcile.Options{Group: func(reconcile.Key) string {
			seen.add("AddWithOptions(")
			return ""
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "a", UID: "a"}}
		if _, err := client.CoreV1().Pods("a").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
	passed := seen.files()
	for _, file := range passed {
		if !slices.Contains(way, file) && besides[file] == "" {
			t.Errorf("a key passes %s, which docs/design.md does not draw", file)
		}
	}
	for _, file := range []string{"informer/reflector.go", "reconcile/trigger.go", "queue/queue.go", "reconcile/reconcile.go", "patch/merge.go"} {
		if !slices.Contains(passed, file) {
			t.Errorf("a key does not pass %s: the test has not seen its way, but %v", file, passed)
		}
	}
}

// stacks are the files of calls, below a folder.
type stacks struct {
	root string

	mu    sync.Mutex
	calls []string
}

// add adds the files of the goroutine that is in a call of a function, which has called the caller, or waits for it.
func (s *stacks) add(of string) {
	dump := make([]byte, 1<<20)
	dump = dump[:runtime.Stack(dump, true)]
	s.mu.Lock()
	defer s.mu.Unlock()
	for goroutine := range strings.SplitSeq(string(dump), "\n\n") {
		if !strings.Contains(goroutine, of) {
			continue
		}
		for line := range strings.Lines(goroutine) {
			file, _, _ := strings.Cut(strings.TrimPrefix(line, "\t"+s.root), ":")
			if strings.HasPrefix(line, "\t"+s.root) && !strings.HasSuffix(file, "_test.go") {
				s.calls = append(s.calls, file)
			}
		}
	}
}

// files returns them, sorted, each once.
func (s *stacks) files() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.calls)
	return slices.Compact(s.calls)
}
