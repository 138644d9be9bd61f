//go:build e2e

package leader_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/homeostat/homeostat/internal/test/e2e"
	"github.com/homeostat/homeostat/leader"
	"github.com/homeostat/homeostat/leader/shard"
)

const e2eSlots = 8

// shardReplicaMain writes to one ConfigMap per slot that it has. Each write
// names the process, and numbers the process's ownerships of the slot.
func shardReplicaMain(
	ctx context.Context, config *rest.Config, client kubernetes.Interface, namespace, name string,
) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	shards, err := shard.New(leader.Lease{
		Client: client.CoordinationV1(), Namespace: namespace, Name: "test", Identity: name,
	}, &shard.Options{Slots: e2eSlots, Member: leader.Options{LeaseDuration: replicaLease}})
	if err != nil {
		return err
	}
	if os.Getenv(unfencedVariable) == "" {
		config = shards.Fence(config)
	}
	fenced, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	tenures := map[int]int{}
	return shards.Run(ctx, func(ctx context.Context, slot int) error {
		mu.Lock()
		tenures[slot]++
		writer := fmt.Sprintf("%s#%d", name, tenures[slot])
		mu.Unlock()
		pace := time.NewTicker(30 * time.Millisecond)
		defer pace.Stop()
		for n, late := 0, 0; late < 5; n++ {
			if ctx.Err() != nil {
				late++ // reconciles in flight, and what only the fence stops
			}
			body := fmt.Appendf(nil, `{"data":{"writer":%q,"n":"%d"}}`, writer, n)
			_, _ = fenced.CoreV1().ConfigMaps(namespace).Patch(context.WithoutCancel(ctx), fmt.Sprint("slot-", slot),
				types.MergePatchType, body, metav1.PatchOptions{})
			<-pace.C
		}
		return nil
	})
}

// book is the history of the writers of each slot, without repetitions.
type book struct {
	mu      sync.Mutex
	writers map[string][]string
	more    chan struct{}
}

func (b *book) add(cm *corev1.ConfigMap) {
	b.mu.Lock()
	all := b.writers[cm.Name]
	if w := cm.Data["writer"]; w != "" && (len(all) == 0 || all[len(all)-1] != w) {
		b.writers[cm.Name] = append(all, w)
	}
	b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// read watches through restarts of the API server. It does not miss an event,
// because this server has no watch cache and so serves all that etcd knows.
func (b *book) read(ctx context.Context, t *testing.T, client kubernetes.Interface, namespace, since string) {
	for ctx.Err() == nil {
		w, err := client.CoreV1().ConfigMaps(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: since})
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		for event := range w.ResultChan() {
			cm, ok := event.Object.(*corev1.ConfigMap)
			if !ok {
				if err := apierrors.FromObject(event.Object); apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
					t.Errorf("the history has a gap: %v", err)
				}
				break // the stream broke: go on after the last event
			}
			since = cm.ResourceVersion
			b.add(cm)
		}
		w.Stop()
	}
}

// settles waits until all slots were last written by these replicas, each of
// which has at least one.
func (b *book) settles(t *testing.T, replicas map[string]*process) {
	t.Helper()
	patience := time.After(time.Minute)
	for {
		if b.settled(replicas) {
			return
		}
		select {
		case <-b.more:
		case <-patience:
			b.mu.Lock()
			defer b.mu.Unlock()
			t.Fatalf("the slots did not come to %v within a minute: %v", replicas, b.writers)
		}
	}
}

func (b *book) settled(replicas map[string]*process) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	busy := map[string]bool{}
	for _, all := range b.writers {
		name, _, _ := strings.Cut(all[len(all)-1], "#")
		if replicas[name] == nil {
			return false
		}
		busy[name] = true
	}
	return len(b.writers) == e2eSlots && len(busy) == len(replicas)
}

// doubles are writers that wrote again after the next had begun.
func (b *book) doubles() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var faults []string
	for slot, all := range b.writers {
		seen := map[string]bool{}
		for _, w := range all {
			if seen[w] {
				faults = append(faults, fmt.Sprintf("%s: %s in %v", slot, w, all))
			}
			seen[w] = true
		}
	}
	return faults
}

func TestE2EShards(t *testing.T) {
	g := NewWithT(t)
	c, err := e2e.Start(t.Context(), &e2e.Options{Flags: []string{"kube-apiserver:--watch-cache=false"}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(c.Stop()).To(Succeed()) })
	client, err := kubernetes.NewForConfig(c.Config())
	g.Expect(err).NotTo(HaveOccurred())
	namespace, since := slotsOnPaper(t, client)
	b := &book{writers: map[string][]string{}, more: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	reading.Go(func() { b.read(ctx, t, client, namespace, since) })
	defer reading.Wait()
	defer stop()

	started := 0
	start := func(replicas map[string]*process) {
		name := fmt.Sprintf("pod-%d", started)
		started++
		replicas[name] = startReplica(t, name, c.Kubeconfig(), namespace, shardsVariable+"=1")
	}
	replicas := map[string]*process{}
	for range 3 {
		start(replicas)
	}
	b.settles(t, replicas)

	for name, p := range maps.Clone(replicas) {
		g.Expect(p.cmd.Process.Kill()).To(Succeed())
		g.Expect(c.KillAPIServer()).To(Succeed())
		delete(replicas, name)
		g.Expect(c.Restart(t.Context())).To(Succeed())
		start(replicas)
		b.settles(t, replicas)
		t.Logf("%s killed and replaced while the API server restarted", name)
	}
	for name, p := range maps.Clone(replicas) {
		start(replicas)
		g.Expect(p.cmd.Process.Signal(os.Signal(syscall.SIGTERM))).To(Succeed())
		for range p.lines { // until it has ended
		}
		delete(replicas, name)
		b.settles(t, replicas)
		t.Logf("%s rolled", name)
	}
	for name, p := range maps.Clone(replicas) {
		g.Expect(p.cmd.Process.Signal(syscall.SIGSTOP)).To(Succeed())
		delete(replicas, name)
		b.settles(t, replicas)
		g.Expect(p.cmd.Process.Signal(syscall.SIGCONT)).To(Succeed())
		replicas[name] = p
		b.settles(t, replicas)
		t.Logf("%s paused for longer than its lease", name)
	}
	g.Expect(b.doubles()).To(BeEmpty())
	changes := 0
	for _, all := range b.writers {
		changes += len(all) - 1
	}
	t.Logf("%d changes of owner", changes)
	g.Expect(changes).To(BeNumerically(">", 3*e2eSlots))
}

// slotsOnPaper makes a namespace with a ConfigMap for each slot.
func slotsOnPaper(t *testing.T, client kubernetes.Interface) (namespace, since string) {
	t.Helper()
	g := NewWithT(t)
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shards-"}}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	for slot := range e2eSlots {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slot-", slot)}}
		cm, err = client.CoreV1().ConfigMaps(ns.Name).Create(t.Context(), cm, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		since = cm.ResourceVersion
	}
	return ns.Name, since
}
