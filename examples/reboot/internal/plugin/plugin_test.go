package plugin_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/plugin"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/internal/test/stage"
)

// fixture is a cluster in a bubble. The test plays the operator.
type fixture struct {
	*WithT
	ctx    context.Context
	nodes  *moody
	groups *api.Client
	out    bytes.Buffer
	plugin *plugin.Plugin
}

// moody is a client of nodes whose List may fail.
type moody struct {
	typedcorev1.NodeInterface
	err atomic.Pointer[error]
}

func (m *moody) List(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
	if err := m.err.Load(); err != nil && *err != nil {
		return nil, *err
	}
	return m.NodeInterface.List(ctx, o)
}

func play(t *testing.T, f func(f *fixture)) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		version := api.GroupVersion()
		sim, err := apisim.New(&apisim.Options{Resources: []apisim.Resource{
			{Group: version.Group, Version: version.Version, Resource: api.Resource, Kind: "RebootGroup", Status: true},
		}})
		g.Expect(err).NotTo(HaveOccurred())
		reached := stage.Reach(sim.Config("admin"))
		groups, err := api.NewClient(reached)
		g.Expect(err).NotTo(HaveOccurred())
		s := &fixture{WithT: g, ctx: t.Context(), nodes: &moody{NodeInterface: reached.Client().CoreV1().Nodes()}, groups: groups}
		s.plugin = &plugin.Plugin{Nodes: s.nodes, Groups: groups, Out: &s.out, Poll: time.Second}
		f(s)
	})
}

func (f *fixture) node(name string, annotations map[string]string) {
	_, err := f.nodes.Create(f.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) remove(name string) {
	f.Expect(f.nodes.Delete(f.ctx, name, metav1.DeleteOptions{})).To(Succeed())
}

// group makes one that selects all nodes.
func (f *fixture) group(name string) {
	_, err := f.groups.Create(f.ctx, &api.RebootGroup{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.RebootGroupSpec{MaxUnavailable: intstr.FromInt32(1)},
	}, metav1.CreateOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

// ledger sets the slots of a group, as JSON.
func (f *fixture) ledger(group, slots string) {
	_, err := f.groups.Patch(f.ctx, group, types.MergePatchType, []byte(`{"status":{"slots":`+slots+`}}`), metav1.PatchOptions{}, "status")
	f.Expect(err).NotTo(HaveOccurred())
}

// annotate sets annotations of a node; an empty value removes one.
func (f *fixture) annotate(name string, annotations ...string) {
	var all []string
	for i := 0; i < len(annotations); i += 2 {
		value := "null"
		if annotations[i+1] != "" {
			value = fmt.Sprintf("%q", annotations[i+1])
		}
		all = append(all, fmt.Sprintf("%q:%s", annotations[i], value))
	}
	_, err := f.nodes.Patch(f.ctx, name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{`+strings.Join(all, ",")+`}}}`), metav1.PatchOptions{})
	f.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) state(name string) protocol.State {
	n, err := f.nodes.Get(f.ctx, name, metav1.GetOptions{})
	f.Expect(err).NotTo(HaveOccurred())
	return protocol.Read(n)
}

func (f *fixture) request(id, node string) []*corev1.Node {
	asked, err := f.plugin.Request(f.ctx, id, node)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(asked).To(HaveLen(1))
	return asked
}

// wait begins to wait. It has looked for the first time when it returns.
func (f *fixture) wait(asked ...*corev1.Node) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f.plugin.Wait(f.ctx, asked...) }()
	synctest.Wait()
	return ended
}

func (f *fixture) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// outcome is the annotation of a reboot that ended.
func outcome(request string, epoch int, result string) string {
	return fmt.Sprintf(`{"request":%q,"epoch":%d,"toBootID":"b","at":"2000-01-01T00:00:00Z","result":%q,"why":"a budget"}`, request, epoch, result)
}

func TestARequestWithoutATextIsNamedAfterItsTime(t *testing.T) {
	play(t, func(f *fixture) {
		f.node("n", map[string]string{protocol.LastReboot: outcome("", 1, protocol.CalledOff)})
		f.request("", "n")
		f.Expect(f.state("n").Needed).To(HaveValue(Equal("kubectl 2000-01-01T00:00:00Z")))
		f.pass(time.Minute)
		f.request("", "n")
		f.Expect(f.state("n").Needed).To(HaveValue(Equal("kubectl 2000-01-01T00:01:00Z")), "a different request does not wait after a call-off")
		f.Expect(f.out.String()).To(Equal("node/n: a reboot is requested: kubectl 2000-01-01T00:00:00Z\n" +
			"node/n: a reboot is requested: kubectl 2000-01-01T00:01:00Z\n"))
	})
}

func TestARequestThatWasCalledOffIsReported(t *testing.T) {
	play(t, func(f *fixture) {
		f.node("n", map[string]string{protocol.LastReboot: outcome("kernel", 1, protocol.CalledOff)})
		f.request("kernel", "n")
		f.Expect(f.out.String()).To(HaveSuffix("this request was called off, and will be tried again later: a request with a different text need not wait\n"))
	})
}

func TestRequestNamesTheNodesThatDoNotExist(t *testing.T) {
	play(t, func(f *fixture) {
		f.node("n", nil)
		asked, err := f.plugin.Request(f.ctx, "r", "x", "n", "y")
		f.Expect(asked).To(ConsistOf(HaveField("Name", "n")))
		f.Expect(err).To(MatchError(And(ContainSubstring(`reading node "x"`), ContainSubstring(`reading node "y"`))))
	})
}

func TestWaitEndsWhenTheNodeIsBack(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("g")
		f.node("n", map[string]string{protocol.LastReboot: outcome("r", 3, protocol.Rebooted)})
		asked := f.request("r", "n") // as the time before
		f.out.Reset()
		ended := f.wait(asked...)
		f.ledger("g", `[{"node":"n","nodeUID":"`+string(asked[0].UID)+`","epoch":4}]`)
		f.pass(time.Second)
		f.annotate("n", protocol.Needed, "", protocol.InProgress, `{"request":"r","epoch":4,"bootID":"b"}`)
		f.pass(time.Second)
		f.annotate("n", protocol.InProgress, "", protocol.LastReboot, outcome("r", 4, protocol.Rebooted))
		f.pass(10 * time.Second)
		f.Expect(ended).NotTo(Receive(), "it has its slot")
		f.ledger("g", `[]`)
		f.pass(time.Second)
		f.Expect(ended).To(Receive(Succeed()))
		f.Expect(f.out.String()).To(MatchRegexp(`^\S+  node/n: Requested\n\S+  node/n: Reserved\n` +
			`\S+  node/n: Draining\n\S+  node/n: Verifying\n\S+  node/n: Done\n$`))
	})
}

func TestWaitEndsWithoutAReboot(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(f *fixture)
		err     error
		text    string
	}{
		"deleted":   {func(f *fixture) { f.remove("n") }, plugin.ErrDeleted, `waiting for node "n"`},
		"recreated": {func(f *fixture) { f.remove("n"); f.node("n", nil) }, plugin.ErrDeleted, ""},
		"withdrawn": {func(f *fixture) { f.annotate("n", protocol.Needed, "") }, plugin.ErrWithdrawn, ""},
		"called off": {func(f *fixture) {
			f.annotate("n", protocol.LastReboot, outcome("r", 4, protocol.CalledOff))
		}, plugin.ErrCalledOff, ": a budget"},
		"called off, and withdrawn": {func(f *fixture) {
			f.annotate("n", protocol.Needed, "", protocol.LastReboot, outcome("r", 4, protocol.CalledOff))
		}, plugin.ErrCalledOff, ""},
		"unproven": {func(f *fixture) {
			f.annotate("n", protocol.LastReboot, outcome("r", 4, protocol.Unproven))
		}, plugin.ErrUnproven, ": a budget"},
		"unreadable": {func(f *fixture) { f.annotate("n", protocol.Void, "x") }, plugin.ErrUnreadable, protocol.Void},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(f *fixture) {
				f.group("g")
				f.node("n", map[string]string{protocol.LastReboot: outcome("r", 3, protocol.CalledOff)})
				f.node("other", nil)
				ended := f.wait(append(f.request("r", "n"), f.request("r", "other")...)...)
				f.pass(10 * time.Second)
				f.Expect(ended).NotTo(Receive(), "the request was called off before it was made again")
				c.happens(f)
				f.pass(10 * time.Second)
				f.Expect(ended).NotTo(Receive(), "the other one goes on")
				f.annotate("other", protocol.Needed, "", protocol.LastReboot, outcome("r", 1, protocol.Rebooted))
				f.pass(time.Second)
				var err error
				f.Expect(ended).To(Receive(&err))
				f.Expect(err).To(And(MatchError(c.err), MatchError(ContainSubstring(c.text))))
			})
		})
	}
}

func TestWaitDoesNotTakeAnotherRequestForItsOwn(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("g")
		f.node("n", map[string]string{protocol.InProgress: `{"request":"older","epoch":4,"bootID":"b"}`})
		ended := f.wait(f.request("r", "n")...)
		f.annotate("n", protocol.InProgress, "", protocol.LastReboot, outcome("older", 4, protocol.CalledOff))
		f.pass(10 * time.Second)
		f.Expect(ended).NotTo(Receive())
		f.annotate("n", protocol.Needed, "", protocol.LastReboot, outcome("r", 5, protocol.Rebooted))
		f.pass(time.Second)
		f.Expect(ended).To(Receive(Succeed()))
	})
}

func TestWaitContinuesWhileTheServerIsUnreachable(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("g")
		f.node("n", nil)
		ended := f.wait(f.request("r", "n")...)
		away := errors.New("connection refused")
		f.nodes.err.Store(&away)
		f.pass(10 * time.Second)
		f.Expect(ended).NotTo(Receive())
		f.Expect(f.out.String()).To(ContainSubstring("listing nodes: connection refused, retrying"))
		var forbidden error = apierrors.NewForbidden(corev1.Resource("nodes"), "", errors.New("no role"))
		f.nodes.err.Store(&forbidden)
		f.pass(time.Second)
		f.Expect(ended).To(Receive(MatchError(ContainSubstring("forbidden"))))
	})
}

func TestWaitSaysWhatIsOpenWhenItsTimeIsOver(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("g")
		f.node("n", nil)
		ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
		defer cancel()
		f.Expect(f.plugin.Wait(ctx, f.request("r", "n")...)).To(And(MatchError(context.DeadlineExceeded),
			MatchError(And(ContainSubstring("waiting for the reboot of [n]"), ContainSubstring("kubectl reboot why n")))))
	})
}

func TestANodeThatSeveralGroupsSelectIsShownWithAllOfThem(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("a")
		f.group("b")
		f.node("n", map[string]string{protocol.Needed: "r"})
		f.Expect(f.plugin.Status(f.ctx)).To(Succeed())
		f.Expect(f.out.String()).To(MatchRegexp(`(?m)^n +a,b +Overlap +r +-$`))
		f.out.Reset()
		f.Expect(f.plugin.Why(f.ctx, "n")).To(Succeed())
		f.Expect(f.out.String()).To(Equal("n: Overlap\n" +
			"  the RebootGroups a and b select it, and none of them may reboot it until only one selects it: " +
			"narrow a nodeSelector, or change the labels of the node\n" +
			"  a reboot is requested: \"r\"\n"))
	})
}

func TestStatusShowsGroupRequestAndLastReboot(t *testing.T) {
	play(t, func(f *fixture) {
		f.node("d", map[string]string{protocol.Needed: ""})
		f.node("c", map[string]string{protocol.InProgress: `{"request":"running","epoch":4,"bootID":"b"}`, protocol.Needed: "later"})
		f.node("b", map[string]string{protocol.Now: `{"request":"granted","epoch":4}`, protocol.Needed: "later"})
		f.node("a", map[string]string{protocol.LastReboot: outcome("r", 3, protocol.Rebooted)})
		f.Expect(f.plugin.Status(f.ctx, "a", "x")).To(MatchError(`there is no node "x"`))
		f.Expect(f.out.String()).To(MatchRegexp(`^NODE +GROUP +STATE +REQUEST +LAST\na +- +Done +- +rebooted 2000-01-01T00:00:00Z\n$`))
		f.out.Reset()
		f.group("g")
		f.Expect(f.plugin.Status(f.ctx)).To(Succeed())
		f.Expect(f.out.String()).To(MatchRegexp(`(?m)^a +g +Done +- +rebooted \S+\nb +g +Granted +granted +-\n` +
			`c +g +Draining +running +-\nd +g +Requested +- +-\n$`))
	})
}

func TestPauseAndResume(t *testing.T) {
	play(t, func(f *fixture) {
		f.group("g")
		f.node("n", nil)
		paused := func() bool {
			g, err := f.groups.Get(f.ctx, "g", metav1.GetOptions{})
			f.Expect(err).NotTo(HaveOccurred())
			return g.Spec.Paused
		}
		f.Expect(f.plugin.Pause(f.ctx, true, "n")).To(Succeed())
		f.Expect(f.plugin.PauseGroup(f.ctx, true, "g")).To(Succeed())
		f.Expect(f.state("n").Paused).To(BeTrue())
		f.Expect(paused()).To(BeTrue())
		f.Expect(f.plugin.Pause(f.ctx, false, "n")).To(Succeed())
		f.Expect(f.plugin.PauseGroup(f.ctx, false, "g")).To(Succeed())
		f.Expect(f.state("n").Paused).To(BeFalse())
		f.Expect(paused()).To(BeFalse())
		f.Expect(f.out.String()).To(Equal("node/n: paused\nrebootgroup/g: paused\nnode/n: resumed\nrebootgroup/g: resumed\n"))
		f.Expect(f.plugin.Pause(f.ctx, true, "x")).To(MatchError(ContainSubstring(`reading node "x"`)))
		f.Expect(f.plugin.PauseGroup(f.ctx, true, "x")).To(MatchError(ContainSubstring(`reading RebootGroup "x"`)))
		f.Expect(f.plugin.Status(f.ctx, "x")).To(MatchError(`there is no node "x"`))
		f.Expect(f.plugin.Why(f.ctx, "x")).To(MatchError(`there is no node "x"`))
	})
}

// One group has what its Go type does not.
func TestAGroupThatCannotBeDecodedHidesNoNode(t *testing.T) {
	play(t, func(f *fixture) {
		f.group(api.DefaultName)
		f.group("bad")
		spoil := func(spec string) {
			_, err := f.groups.Patch(f.ctx, "bad", types.MergePatchType, []byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
			f.Expect(err).To(MatchError(ContainSubstring("cannot unmarshal")), "the answer is the group")
		}
		f.node("n1", map[string]string{protocol.Needed: "r"})
		spoil(`{"minReadySeconds":"soon"}`)
		f.Expect(f.plugin.Status(f.ctx)).To(MatchError(ContainSubstring(`reading RebootGroup "bad"`)))
		f.Expect(f.out.String()).To(MatchRegexp(`n1 +bad +Requested`), "it selects all nodes")
		f.Expect(f.plugin.Why(f.ctx, "n1")).To(MatchError(ContainSubstring("minReadySeconds")))

		f.out.Reset()
		spoil(`{"nodeSelector":"role=web"}`)
		f.Expect(f.plugin.Why(f.ctx, "n1")).To(Succeed())
		f.Expect(f.out.String()).To(ContainSubstring("RebootGroup bad may select it: its spec.nodeSelector or its slots cannot be read"))
	})
}
