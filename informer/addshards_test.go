package informer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/informer"
)

// It has synced for those of shards before, and one of them leaves meanwhile.
func TestAUserOfAllObjectsWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		for shard := range shardCount {
			_, err := d.admin.CoreV1().ConfigMaps(namespacesOfShards[shard][0]).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			d.Expect(err).NotTo(HaveOccurred())
		}
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		_, err = d.parts().AddShards(t.Context(), shardOf(2))
		d.Expect(err).NotTo(HaveOccurred())
		d.Expect(d.in.HasSynced()).To(BeTrue())

		whole, leave := context.WithCancel(t.Context())
		joined, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- d.parts().RunWhole(whole, func() { close(joined) }) }()
		<-joined
		d.Expect(d.in.HasSynced()).To(BeFalse())
		remove(shardOf(1))
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d.Expect(d.in.WaitForSync(limited)).To(Succeed())
		d.Expect(d.cached()).To(HaveLen(shardCount))
		leave()
		d.Expect(<-done).To(Succeed())
		d.Expect(d.in.HasSynced()).To(BeTrue())
		d.Expect(d.cached()).To(Equal(d.stored(2)))
		d.stop()
	})
}

func TestAddingShardsReturnsWhenTheHandlersHaveTheirObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		for shard := range shardCount {
			_, err := d.admin.CoreV1().ConfigMaps(namespacesOfShards[shard][0]).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			d.Expect(err).NotTo(HaveOccurred())
		}
		busy := make(chan struct{})
		d.in.Handle(func(e informer.Event[*corev1.ConfigMap]) {
			if e.Type == informer.Deleted {
				<-busy
			}
		})
		d.run(t.Context())
		synctest.Wait()
		remove, err := d.parts().AddShards(t.Context(), shardOf(0), shardOf(1))
		d.Expect(err).NotTo(HaveOccurred())
		go remove(shardOf(0)) // this goroutine calls the handlers for some time
		pass(time.Second)
		began := time.Now()
		time.AfterFunc(time.Minute, func() { close(busy) })
		_, err = d.parts().AddShards(t.Context(), shardOf(2))
		d.Expect(err).NotTo(HaveOccurred())
		d.mu.Lock()
		d.Expect(d.told).To(Equal(d.stored(1, 2)))
		d.mu.Unlock()
		d.Expect(time.Since(began)).To(BeNumerically(">=", time.Minute))
		d.stop()
	})
}

func TestAddingShardsEndsWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDivided(t, nil)
		d.run(t.Context())
		synctest.Wait()
		_, err := d.parts().AddShards(t.Context(), shardOf(0))
		d.Expect(err).NotTo(HaveOccurred())
		added := make(chan error, 1)
		go func() {
			_, err := d.parts().AddShards(t.Context(), shardOf(1))
			added <- err
		}()
		pass(100 * time.Millisecond) // it waits until the watch is open for longer than a second
		d.stop()
		pass(time.Second)
		d.Expect(added).To(Receive(MatchError(ContainSubstring("the informer is not running"))))
	})
}
