//go:build e2e

package replicas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/homeostat/homeostat/internal/proof/bench/cache/load"
	"github.com/homeostat/homeostat/internal/test/e2e"
)

const (
	ofNamespace = 100 // objects
	perSecond   = 200 // writes
	writing     = 40 * time.Second
	writers     = 8
	patience    = 10 // attempts to create an object
)

// kind is the kind of the controller.
type kind struct {
	name   string
	count  int // of objects
	create func(ctx context.Context, client kubernetes.Interface, n int) (size int, err error)
	write  func(ctx context.Context, client kubernetes.Interface, n int) error
	size   int // of one object, as it is stored
}

var kinds = []*kind{
	{name: "configmaps", count: 50_000, create: createConfigMap, write: writeConfigMap},
	{name: "pods", count: 30_000, create: createPod, write: writePod},
}

func namespaceOf(n int) string { return fmt.Sprintf("tenant-%05d", 1+n/ofNamespace) }

// configMap returns a ConfigMap that shares no text with any other.
func configMap(n int) *corev1.ConfigMap {
	text := make([]byte, 900)
	for i := range text {
		text[i] = byte('a' + rand.IntN(26))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(n), Name: fmt.Sprintf("settings-%02d", n%ofNamespace)},
		Data:       map[string]string{"settings": string(text)},
	}
}

func createConfigMap(ctx context.Context, client kubernetes.Interface, n int) (int, error) {
	made, err := client.CoreV1().ConfigMaps(namespaceOf(n)).Create(ctx, configMap(n), metav1.CreateOptions{})
	if err != nil {
		return 0, err
	}
	return made.Size(), nil
}

func writeConfigMap(ctx context.Context, client kubernetes.Interface, n int) error {
	_, err := client.CoreV1().ConfigMaps(namespaceOf(n)).Update(ctx, configMap(n), metav1.UpdateOptions{})
	return err
}

// pod returns a Pod as kubectl create deployment and a kubelet leave it,
// without the server's fields.
func pod(n int) *corev1.Pod {
	p := load.Plain(n)
	p.Namespace, p.UID, p.ResourceVersion, p.Generation, p.ManagedFields = namespaceOf(n), "", "", 0, nil
	return p
}

func createPod(ctx context.Context, client kubernetes.Interface, n int) (int, error) {
	_, err := client.CoreV1().Pods(namespaceOf(n)).Create(ctx, pod(n), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) { // it may be another attempt
		return 0, err
	}
	made, err := client.CoreV1().Pods(namespaceOf(n)).UpdateStatus(ctx, pod(n), metav1.UpdateOptions{})
	if err != nil {
		return 0, err
	}
	return made.Size(), nil
}

// writePod writes the status of a Pod whose probe has failed, or has not, as a
// kubelet does.
func writePod(ctx context.Context, client kubernetes.Interface, n int) error {
	p, now := pod(n), metav1.Now()
	ready := rand.IntN(2) == 0
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.LastTransitionTime = now
			if !ready {
				c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotReady"
				c.Message = "containers with unready status: [" + p.Spec.Containers[0].Name + "]"
			}
		}
	}
	p.Status.ContainerStatuses[0].Ready = ready
	_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return err
}

// stage is the API server, the objects, and the program that is measured.
type stage struct {
	*WithT

	b       *testing.B
	folder  string // of the server's data, which stay when it is started again
	program string
	cluster *e2e.Cluster
	client  kubernetes.Interface
}

func newStage(b *testing.B) *stage {
	s := &stage{WithT: NewWithT(b), b: b, folder: b.TempDir()}
	s.program = filepath.Join(b.TempDir(), "replica")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", s.program, "./replica")
	said, err := build.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(said))
	b.Cleanup(s.stop)
	return s
}

func (s *stage) stop() {
	if s.cluster != nil {
		s.Expect(s.cluster.Stop()).To(Succeed())
		s.cluster = nil
	}
}

// start starts the server, whose objects stay, with or without server-side
// shards. Their owners do not exist, so the garbage collector is off.
func (s *stage) start(shards bool) {
	s.stop()
	var err error
	s.cluster, err = e2e.Start(s.b.Context(), &e2e.Options{
		DataDir: filepath.Join(s.folder, "data"), Progress: s.b.Output(),
		Flags: []string{
			fmt.Sprintf("kube-apiserver:--feature-gates=ShardedListAndWatch=%v", shards),
			"kube-apiserver:--disable-admission-plugins=TaintNodesByCondition,ServiceAccount",
			"kube-apiserver:--enable-garbage-collector=false", "kube-controller-manager:--enable-garbage-collector=false",
		},
	})
	s.Expect(err).NotTo(HaveOccurred())
	config := s.cluster.Config()
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	s.client = kubernetes.NewForConfigOrDie(config)
}

// fill creates the objects of a kind, and the namespaces if they are missing.
func (s *stage) fill(k *kind) {
	began := time.Now()
	if s.missing() {
		s.each(k.count/ofNamespace, func(ctx context.Context, n int) error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespaceOf(n * ofNamespace)}}
			_, err := s.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			return err
		})
	}
	var size atomic.Int64
	s.each(k.count, func(ctx context.Context, n int) error {
		of, err := k.create(ctx, s.client, n)
		size.Add(int64(of))
		return err
	})
	k.size = int(size.Load()) / k.count
	s.b.Logf("created %d %s of %d bytes in %v", k.count, k.name, k.size, time.Since(began))
}

func (s *stage) missing() bool {
	_, err := s.client.CoreV1().Namespaces().Get(s.b.Context(), namespaceOf(0), metav1.GetOptions{})
	return err != nil
}

// each calls do n times, some at once, and again if it fails: a busy machine is
// too slow for etcd at times.
func (s *stage) each(n int, do func(ctx context.Context, n int) error) {
	var doing sync.WaitGroup
	var next atomic.Int64
	var failed atomic.Pointer[error]
	for range 2 * writers {
		doing.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				var err error
				for range patience {
					if err = do(s.b.Context(), i); err == nil || apierrors.IsAlreadyExists(err) {
						err = nil
						break
					}
					pause(time.Second)
				}
				if err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	doing.Wait()
	if err := failed.Load(); err != nil {
		s.b.Fatal(*err)
	}
}

// write writes objects at random, at that rate if the machine can, and returns
// how many.
func (s *stage) write(k *kind) float64 {
	ctx, cancel := context.WithTimeout(s.b.Context(), writing)
	defer cancel()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	objects, written := make(chan int), atomic.Int64{}
	var doing sync.WaitGroup
	for range writers {
		doing.Go(func() {
			for n := range objects {
				if err := k.write(s.b.Context(), s.client, n); err != nil {
					s.b.Error(err)
				}
				written.Add(1)
			}
		})
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			objects <- rand.IntN(k.count)
		}
	}
	close(objects)
	doing.Wait()
	return float64(written.Load())
}
