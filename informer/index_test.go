package informer_test

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/homeostat/homeostat/informer"
)

func names(seq iter.Seq[*corev1.Pod]) []string {
	var all []string
	for p := range seq {
		all = append(all, p.Namespace+"/"+p.Name)
	}
	return all
}

// byNode is the index of these tests: Pods without a node are not in it.
func byNode(p *corev1.Pod) []string {
	if p.Spec.NodeName == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}

func randomPod(random *rand.Rand, n int) *corev1.Pod {
	p := pod(fmt.Sprint("ns-", n%4), fmt.Sprint(n))
	p.Labels = map[string]string{"app": fmt.Sprint(random.IntN(5)), "tier": fmt.Sprint(random.IntN(2))}
	if random.IntN(4) == 0 {
		delete(p.Labels, "app")
	}
	p.Spec.NodeName = []string{"", "a", "b", "c"}[random.IntN(4)]
	return p
}

func TestIndexesAreWhatAScanFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		random := rand.New(rand.NewPCG(1, 2))
		client := fake.NewClientset()
		for n := range 200 {
			g.Expect(client.Tracker().Add(randomPod(random, n))).To(Succeed())
		}
		pods := informer.For(client.CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"app", "tier"}})
		early := informer.NewIndex(pods, byNode)
		stop := running(t.Context(), pods)
		defer stop()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		older := pods.Snapshot()
		late := informer.NewIndex(pods, byNode)
		g.Expect(names(late.In(older, "a"))).To(BeEmpty(), "a snapshot has only the indexes of its time")

		check := func() {
			s := pods.Snapshot()
			for _, value := range []string{"a", "b", "c", "d"} {
				var want []string
				for p := range s.All() {
					if p.Spec.NodeName == value {
						want = append(want, p.Namespace+"/"+p.Name)
					}
				}
				g.Expect(names(early.Get(value))).To(Equal(want))
				g.Expect(names(late.In(s, value))).To(Equal(want))
				g.Expect(early.Len(value)).To(Equal(len(want)))
			}
			for _, text := range []string{"app=1", "app=1,tier=0", "app in (2)", "app in (1,2)", "!app", "app!=1,tier=1", "", "app=99"} {
				selector, err := labels.Parse(text)
				g.Expect(err).NotTo(HaveOccurred())
				for _, namespace := range []string{"", "ns-1"} {
					var want []string
					for p := range s.All() {
						if selector.Matches(labels.Set(p.Labels)) && (namespace == "" || p.Namespace == namespace) {
							want = append(want, p.Namespace+"/"+p.Name)
						}
					}
					g.Expect(names(s.Select(namespace, selector))).To(Equal(want), text)
				}
			}
		}
		check()
		old, oldA := pods.Snapshot(), names(early.Get("a"))
		for range 60 {
			p := randomPod(random, random.IntN(250))
			api := client.CoreV1().Pods(p.Namespace)
			switch _, err := api.Get(t.Context(), p.Name, metav1.GetOptions{}); {
			case err != nil:
				_, err = api.Create(t.Context(), p, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			case random.IntN(3) == 0:
				g.Expect(api.Delete(t.Context(), p.Name, metav1.DeleteOptions{})).To(Succeed())
			default:
				_, err = api.Update(t.Context(), p, metav1.UpdateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
			}
		}
		synctest.Wait()
		check()
		g.Expect(names(early.In(old, "a"))).To(Equal(oldA), "a snapshot stays as it was")
		g.Expect(names(early.Get("a"))).NotTo(Equal(oldA))

		stop()
		g.Expect(names(early.Get("a"))).To(BeEmpty())
		g.Expect(names(late.In(informer.Snapshot[*corev1.Pod]{}, "a"))).To(BeEmpty())
		again := running(t.Context(), pods)
		defer again()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		check()
	})
}

func TestAnIndexDropsAValueWithItsLastObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		on := func(node string) *corev1.Pod {
			p := pod("ns", "1")
			p.Spec.NodeName = node
			return p
		}
		client := fake.NewClientset(on("a"))
		pods := informer.For(client.CoreV1().Pods("ns"), nil)
		index := informer.NewIndex(pods, byNode)
		defer running(t.Context(), pods)()
		g.Expect(pods.WaitForSync(t.Context())).To(Succeed())
		_, err := client.CoreV1().Pods("ns").Update(t.Context(), on("b"), metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(names(index.Get("a"))).To(BeEmpty())
		g.Expect(names(index.Get("b"))).To(Equal([]string{"ns/1"}))
		g.Expect(client.CoreV1().Pods("ns").Delete(t.Context(), "1", metav1.DeleteOptions{})).To(Succeed())
		synctest.Wait()
		g.Expect(names(index.Get("b"))).To(BeEmpty())
	})
}

func TestRelistKeepsIndexesRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		big := func(from, to int, version string) []any {
			var events []any
			for n := from; n < to; n++ {
				node := versioned(fmt.Sprintf("n%04d", n), fmt.Sprint(n), version)
				node.Labels = map[string]string{"zone": fmt.Sprint(n % 3)}
				events = append(events, added(node))
			}
			return append(events, listEnd(version))
		}
		nodes, _ := scripted(t, nil, stream(hold, big(0, 300, "10")...), stream(hold, big(100, 400, "20")...))
		zones := informer.NewIndex(nodes, func(n *corev1.Node) []string { return []string{n.Labels["zone"], "all"} })
		nodes.Handle(func(informer.Event[*corev1.Node]) {})
		for round := range 2 {
			stop := running(t.Context(), nodes)
			g.Expect(nodes.WaitForSync(t.Context())).To(Succeed())
			g.Expect(zones.Len("1")).To(Equal(100))
			g.Expect(zones.Len("all")).To(Equal(300))
			first := slices.Collect(zones.Get("all"))[0]
			g.Expect(first.Name).To(Equal([]string{"n0000", "n0100"}[round]))
			stop()
		}
	})
}

func TestIndexReadsAllocateNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		random := rand.New(rand.NewPCG(4, 4))
		for n := range 300 {
			g.Expect(client.Tracker().Add(randomPod(random, n))).To(Succeed())
		}
		pods := informer.For(client.CoreV1().Pods(""), &informer.Options{IndexLabels: []string{"app"}})
		nodes := informer.NewIndex(pods, byNode)
		syncsAtOnce(t, g, pods)
		exact, scan := labels.SelectorFromSet(labels.Set{"app": "1"}), labels.SelectorFromSet(labels.Set{"tier": "1"})
		s, found := pods.Snapshot(), 0
		for name, read := range map[string]func(){
			"Index.Get": func() {
				for p := range nodes.Get("a") {
					found += len(p.Name)
				}
			},
			"Index.In": func() {
				for p := range nodes.In(s, "a") {
					found += len(p.Name)
				}
			},
			"Index.Len": func() { found += nodes.Len("a") },
			"Select by index": func() {
				for p := range s.Select("", exact) {
					found += len(p.Name)
				}
			},
			"Select by scan": func() {
				for p := range s.Select("ns-1", scan) {
					found += len(p.Name)
				}
			},
		} {
			found = 0
			g.Expect(testing.AllocsPerRun(100, read)).To(BeZero(), name)
			g.Expect(found).NotTo(BeZero(), name)
		}
	})
}

func TestSnapshotsTellWhetherTheyAreOfTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		client := fake.NewClientset()
		pods, nodes := informer.For(client.CoreV1().Pods(""), nil), informer.For(client.CoreV1().Nodes(), nil)
		maps := informer.For(client.CoreV1().ConfigMaps(""), nil)
		for _, run := range []func(){running(t.Context(), pods), running(t.Context(), nodes), running(t.Context(), maps)} {
			defer run()
		}
		synctest.Wait()
		var first, second, third, tries int
		var p informer.Snapshot[*corev1.Pod]
		var n informer.Snapshot[*corev1.Node]
		for again := true; again; again = p != pods.Snapshot() || n != nodes.Snapshot() {
			p, n = pods.Snapshot(), nodes.Snapshot()
			first, second = p.Len(), n.Len()
			if tries++; tries < 3 { // between two snapshots, a Pod and later its ConfigMap
				_, err := client.CoreV1().Pods("a").Create(t.Context(), pod("a", fmt.Sprint(tries)), metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				c := configMap("a", fmt.Sprint(tries))
				_, err = client.CoreV1().ConfigMaps("a").Create(t.Context(), c, metav1.CreateOptions{})
				g.Expect(err).NotTo(HaveOccurred())
				synctest.Wait()
			}
			third = maps.Snapshot().Len()
		}
		g.Expect([]int{first, second, third}).To(Equal([]int{2, 0, 2}))
		g.Expect(tries).To(Equal(3))
	})
}

func TestIndexesOfOneInformerAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		pods := informer.For(fake.NewClientset(pod("a", "1"), pod("a", "2")).CoreV1().Pods(""), nil)
		byNamespace := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Namespace} })
		byName := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Name} })
		syncsAtOnce(t, g, pods)
		g.Expect(byNamespace.Len("a")).To(Equal(2))
		g.Expect(byName.Len("1")).To(Equal(1))
		g.Expect(byName.Len("a")).To(BeZero())
	})
}
