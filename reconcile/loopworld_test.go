package reconcile_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/cluster"
	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/patch"
	"github.com/homeostat/homeostat/reconcile"
)

// The long run: go test ./reconcile -run TestARandomWorldOfLoops -loopsteps
// 1000000 -timeout 1h.
var (
	loopSteps = flag.Int("loopsteps", 4000, "how many steps of the random world are judged, in stories of 2,000")
	loopSeed  = flag.Uint64("loopseed", 1, "the seed of the first story")
)

const (
	storySteps   = 2000
	worldKeys    = 4
	worldOutputs = 5                 // of each key
	inTime       = time.Second       // in which an edit or an input is followed
	restless     = 135 * time.Second // in which the last edit of a rival is repaired, and that is forgotten
	isolated     = 11 * time.Second  // between two repairs of one output
)

// rivalry is how another client fights for an output.
type rivalry uint8

const (
	peace    rivalry = iota
	rewrites         // it sets another value
	removes          // it deletes the object, as a garbage collector does
	brings           // it creates the object, which must not exist
)

// worldOutput is what the model knows of one output.
type worldOutput struct {
	key, name string
	wanted    string    // the value; "" if the object must not exist
	is        string    // the value that it has
	changed   time.Time // when the input or another client changed something, outside of a rivalry
	repaired  time.Time // when the controller wrote it last

	rival      rivalry
	came, left time.Time // the last rival
	reacts     time.Duration
	writes     []time.Time // by the controller, since the rival came
	offered    time.Time   // when the controller last wrote what is wanted
}

// worldCause is an event that leads to a key: of the output about, or "" for
// its input.
type worldCause struct {
	at    time.Time
	about string
}

// loopWorld is a controller whose keys have outputs, and inputs, rivals and
// other clients. The model is a list of outputs and causes, all of which are
// searched at each step.
type loopWorld struct {
	*WithT
	t       *testing.T
	random  *rand.Rand
	quiet   bool // inputs and other clients do little
	inputs  typedcorev1.SecretInterface
	maps    typedcorev1.ConfigMapInterface
	control *reconcile.Controller
	edits   int
	loops   int

	mu      sync.Mutex // guards the fields below
	outputs []*worldOutput
	causes  map[string][]worldCause // by key
	alarms  []string                // of hot loops about outputs that no other client fights for
}

func TestARandomWorldOfLoops(t *testing.T) {
	edits, loops, hot := 0, 0, uint64(0)
	for story := range uint64(max(*loopSteps/storySteps, 1)) {
		seed := *loopSeed + story
		synctest.Test(t, func(t *testing.T) {
			w := newLoopWorld(t, seed)
			ctx, stop := context.WithCancel(logr.NewContext(t.Context(), funcr.New(w.logged, funcr.Options{})))
			ended := make(chan error, 1)
			go func() { ended <- w.control.Run(ctx) }()
			pass(time.Minute)
			for n := range storySteps {
				w.step()
				synctest.Wait()
				if wrong := w.judge(); wrong != "" {
					t.Fatalf("seed %d, step %d: %s", seed, n, wrong)
				}
			}
			stop()
			w.Expect(<-ended).To(Succeed())
			edits, loops, hot = edits+w.edits, loops+w.loops, hot+w.control.Stats().HotLoops
		})
	}
	g := NewWithT(t)
	t.Logf("%d isolated edits, %d rivals, %d writes in hot loops", edits, loops, hot)
	g.Expect(edits).To(BeNumerically(">", 10))
	g.Expect(loops).To(BeNumerically(">", 5))
	g.Expect(hot).To(BeNumerically(">", 5))
}

func newLoopWorld(t *testing.T, seed uint64) *loopWorld {
	t.Helper()
	g := NewWithT(t)
	sim, err := apisim.New(nil)
	g.Expect(err).NotTo(HaveOccurred())
	others := kubernetes.NewForConfigOrDie(sim.Config("others")).CoreV1()
	w := &loopWorld{
		WithT: g, t: t, random: rand.New(rand.NewPCG(seed, 0)), quiet: seed%2 == 1,
		inputs: others.Secrets("d"), maps: others.ConfigMaps("d"), causes: map[string][]worldCause{},
	}
	for k := range worldKeys {
		input := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("k%d", k)}, Data: map[string][]byte{}}
		for n := range worldOutputs {
			o := &worldOutput{key: input.Name, name: fmt.Sprintf("%s-%d", input.Name, n), wanted: "0", changed: time.Now()}
			w.outputs = append(w.outputs, o)
			input.Data[o.name] = []byte(o.wanted)
		}
		_, err := w.inputs.Create(t.Context(), input, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	sim.OnCommit(w.committed)
	reached, err := cluster.New(sim.Config("us"), nil)
	g.Expect(err).NotTo(HaveOccurred())
	ours := kubernetes.NewForConfigOrDie(reached.Config()).CoreV1()
	outputs := informer.For(ours.ConfigMaps("d"), nil)
	w.control, err = reconcile.New("world", informer.For(ours.Secrets("d"), nil), reconcile.Func[*corev1.Secret](
		func(ctx context.Context, r reconcile.Request[*corev1.Secret]) (reconcile.Result, error) {
			return nothing, follow(ctx, ours, outputs, r)
		},
	), &reconcile.Options{Triggers: []reconcile.Trigger{reconcile.Mapped(outputs,
		func(_ context.Context, before, after *configMap) ([]reconcile.Key, error) {
			if after == nil {
				after = before
			}
			owner, _, _ := strings.Cut(after.Name, "-")
			return []reconcile.Key{key(owner)}, nil
		})}})
	g.Expect(err).NotTo(HaveOccurred())
	return w
}

// follow writes each output of a key that differs from the key's input.
func follow(
	ctx context.Context, client typedcorev1.CoreV1Interface, cached *informer.Informer[*configMap],
	r reconcile.Request[*corev1.Secret],
) error {
	input, _ := r.Object()
	var errs []error
	for n := range worldOutputs {
		name := fmt.Sprintf("%s-%d", r.Key.Name, n)
		wanted := string(input.Data[name])
		object, ok := cached.Get(key(name))
		var err error
		switch {
		case wanted == "" && ok:
			err = patch.Delete(ctx, client.ConfigMaps, object, nil)
		case wanted != "" && !ok:
			object = configMapNamed(name)
			object.Data = map[string]string{"v": wanted}
			_, err = client.ConfigMaps("d").Create(ctx, object, metav1.CreateOptions{})
		case wanted != "" && object.Data["v"] != wanted:
			_, err = patch.Merge(ctx, client.ConfigMaps, object, nil, func(c *configMap) { c.Data = map[string]string{"v": wanted} })
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// committed notes what has been written, by whomever.
func (w *loopWorld) committed(e apisim.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Resource.Resource != "configmaps" {
		return
	}
	o := w.output(e.Key.Name)
	o.is = ""
	if e.New != nil {
		o.is, _, _ = unstructured.NestedString(e.New.Object, "data", "v")
	}
	if w.causes[o.key] = append(w.causes[o.key], worldCause{time.Now(), o.name}); e.Call.Client != "us" {
		return
	}
	o.writes, o.repaired = append(o.writes, time.Now()), time.Now()
	if o.is == o.wanted {
		o.offered = time.Now()
	}
}

// logged notes false alarms.
func (w *loopWorld) logged(_, line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.outputs {
		peaceful := o.rival == peace && time.Since(o.left) >= restless
		if peaceful && strings.Contains(line, "hot loop detected") && strings.Contains(line, "d/"+o.name+":") {
			w.alarms = append(w.alarms, "false alarm: "+line)
		}
	}
}

// now returns the value that an output has, and when the controller wrote it
// last.
func (w *loopWorld) now(o *worldOutput) (is string, repaired time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return o.is, o.repaired
}

func (w *loopWorld) output(name string) *worldOutput {
	for _, o := range w.outputs {
		if o.name == name {
			return o
		}
	}
	return nil
}

// step lets time pass, or changes something.
func (w *loopWorld) step() {
	o := w.outputs[w.random.IntN(len(w.outputs))]
	fighting := w.rageAll()
	most := 150
	if w.quiet {
		most = 1000
	}
	switch n := w.random.IntN(most); {
	case n < 2 && !fighting:
		pass(time.Duration(w.random.IntN(30_000)) * time.Millisecond)
	case n < 5:
		w.want(o)
	case n < 6: // an input that changes each second
		for range 8 {
			w.want(o)
			pass(time.Second)
			w.rageAll()
		}
	case n < 12:
		w.edit(o)
	case n < 16:
		w.touch(o)
	case n < 20 || w.quiet && n < 24:
		w.quarrel(o)
	}
	pass(time.Duration(1+w.random.IntN(300)) * time.Millisecond)
}

// want changes the input of an output.
func (w *loopWorld) want(o *worldOutput) {
	if o.rival == brings || o.rival == removes && w.random.IntN(2) == 0 {
		return
	}
	w.mu.Lock()
	before := o.wanted
	for o.wanted == before {
		o.wanted = []string{"", "1", "2", "3"}[w.random.IntN(4)]
		if o.rival != peace && o.wanted == "" {
			o.wanted = before
		}
	}
	o.changed = time.Now()
	w.causes[o.key] = append(w.causes[o.key], worldCause{time.Now(), ""})
	change := fmt.Sprintf(`{"stringData":{%q:%q}}`, o.name, o.wanted)
	w.mu.Unlock()
	_, err := w.inputs.Patch(w.t.Context(), o.key, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// edit is an isolated edit of another client.
func (w *loopWorld) edit(o *worldOutput) {
	_, repaired := w.now(o)
	if o.rival != peace || time.Since(o.left) < restless || time.Since(repaired) < isolated {
		return
	}
	o.changed = time.Now()
	w.edits++
	w.disturb(o, w.random.IntN(3) == 0)
}

// disturb changes an output, so that it differs from its input.
func (w *loopWorld) disturb(o *worldOutput, remove bool) {
	is, _ := w.now(o)
	var err error
	switch {
	case is == "":
		object := configMapNamed(o.name)
		object.Data = map[string]string{"v": "theirs"}
		_, err = w.maps.Create(w.t.Context(), object, metav1.CreateOptions{})
	case remove:
		err = w.maps.Delete(w.t.Context(), o.name, metav1.DeleteOptions{})
	default:
		_, err = w.maps.Patch(w.t.Context(), o.name, types.MergePatchType, []byte(`{"data":{"v":"theirs"}}`), metav1.PatchOptions{})
	}
	w.Expect(err).NotTo(HaveOccurred())
}

// touch changes a field that the controller does not write.
func (w *loopWorld) touch(o *worldOutput) {
	if is, _ := w.now(o); is == "" {
		return
	}
	change := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, w.random.IntN(1000))
	_, err := w.maps.Patch(w.t.Context(), o.name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	w.Expect(err).NotTo(HaveOccurred())
}

// quarrel adds a rival, or removes it.
func (w *loopWorld) quarrel(o *worldOutput) {
	is, repaired := w.now(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	if o.rival != peace {
		if time.Since(o.came) > 30*time.Second {
			o.rival, o.left = peace, time.Now()
		}
		return
	}
	if is != o.wanted || time.Since(o.left) < restless || time.Since(repaired) < isolated {
		return
	}
	o.rival = rewrites + rivalry(w.random.IntN(2))
	if o.wanted == "" {
		o.rival = brings
	}
	w.loops++
	o.came, o.writes = time.Now(), nil
	o.reacts = []time.Duration{0, 0, 250 * time.Millisecond, 2 * time.Second, 6 * time.Second}[w.random.IntN(5)]
}

// rageAll lets all rivals act, and reports whether there is one.
func (w *loopWorld) rageAll() (fighting bool) {
	for _, o := range w.outputs {
		w.rage(o)
		fighting = fighting || o.rival != peace
	}
	return fighting
}

// rage lets the rival of an output act.
func (w *loopWorld) rage(o *worldOutput) {
	is, repaired := w.now(o)
	if o.rival == peace || is != o.wanted || time.Since(repaired) < o.reacts {
		return
	}
	w.disturb(o, o.rival == removes)
}

// judge returns what is wrong with the world, "" if nothing is.
func (w *loopWorld) judge() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if len(w.alarms) > 0 {
		return w.alarms[0]
	}
	for _, o := range w.outputs {
		late := now.Sub(o.changed) >= inTime
		fought := o.rival != peace || now.Sub(o.left) < restless
		switch {
		case late && !fought && o.is != o.wanted:
			return fmt.Sprintf("%s is %q instead of %q since %v", o.name, o.is, o.wanted, now.Sub(o.changed)) + w.story(o)
		case late && fought && o.is != o.wanted && o.offered.Before(o.changed) && o.changed.After(o.came):
			return fmt.Sprintf("%s has a rival, and its new value was not tried for %v", o.name, now.Sub(o.changed)) + w.story(o)
		case o.rival == peace:
			continue
		}
		first := o.came.Add(time.Minute)
		if n := within(o.writes, o.came, first); n > 10+w.beside(o, o.came, first) {
			return fmt.Sprintf("%s was written %d times in the first minute of a fight, for %d causes", o.name, n, w.beside(o, o.came, first)) + w.story(o)
		}
		if from := now.Add(-time.Minute); from.After(first) {
			if n := within(o.writes, from, now); n > 1+w.beside(o, from.Add(-inTime), now) {
				return fmt.Sprintf("%s was written %d times in a minute of a fight%s", o.name, n, w.story(o))
			}
		}
	}
	for k, causes := range w.causes { // what is older is not looked at again
		if len(causes) > 1000 {
			w.causes[k] = causes[500:]
		}
	}
	return ""
}

// story lists what has happened to an output and its key since the rival was
// added.
func (w *loopWorld) story(o *worldOutput) string {
	var b strings.Builder
	fmt.Fprintf(&b, " of kind %d, that reacts after %v and left at %v\nwrites:", o.rival, o.reacts, o.left.Sub(o.came))
	for _, at := range o.writes {
		fmt.Fprintf(&b, " %v", at.Sub(o.came))
	}
	b.WriteString("\ncauses:")
	for _, c := range w.causes[o.key] {
		if c.at.After(o.came) {
			fmt.Fprintf(&b, " %v %s,", c.at.Sub(o.came), c.about)
		}
	}
	return b.String()
}

// within counts the times after from, until to.
func within(times []time.Time, from, to time.Time) (n int) {
	for _, at := range times {
		if at.After(from) && !at.After(to) {
			n++
		}
	}
	return n
}

// beside counts the causes of an output's key that are not about the output:
// each may lead to one write.
func (w *loopWorld) beside(o *worldOutput, from, to time.Time) (n int) {
	for _, c := range w.causes[o.key] {
		if c.about != o.name && c.at.After(from) && !c.at.After(to) {
			n++
		}
	}
	return n
}
