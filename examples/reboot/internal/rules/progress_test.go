package rules_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/examples/reboot/api"
	"github.com/homeostat/homeostat/examples/reboot/internal/protocol"
	"github.com/homeostat/homeostat/examples/reboot/internal/rules"
)

// Every deadline is the controller's, and counts from when it first saw a
// stage.
func TestARebootEndsAtTheDeadlinesOfTheController(t *testing.T) {
	const minute = time.Minute
	progress := func(more string) fixture {
		return annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","start":"s","beat":7,"drainSeconds":600`+more+`}`)
	}
	drained, asks := `,"drained":true`, `,"drained":true,"try":2,"waits":true`
	told := asks + `,"asked":{"start":"s","at":"2026-01-01T00:00:00Z"}`
	permit := annotated(protocol.Permit, `{"request":"r","epoch":1,"try":2,"seconds":60}`)
	granted := annotated(protocol.Now, nowEpoch1)
	const permitted = `[{"epoch":1,"at":"2026-01-01T00:00:00Z","first":"%s"}]`
	long := annotated(protocol.Recent, fmt.Sprintf(permitted, start.Add(24*time.Hour-10*minute).Format(time.RFC3339)))
	less := annotated(protocol.Recent, fmt.Sprintf(permitted, start.Add(24*time.Hour-9*minute).Format(time.RFC3339)))
	shut := rules.Situation{Shut: true}
	away := ready(corev1.ConditionUnknown)
	for name, c := range map[string]struct {
		situation rules.Situation
		stage     string
		since     time.Duration // how long the controller has seen the stage
		heard     time.Duration // how long it has not heard of the agent
		beat      int64         // that it has heard of
		node      []fixture
		want      rules.SlotStep
		after     time.Duration
		why       string
	}{
		"a grant is seen":              {node: []fixture{granted}, want: rules.Rewrite, why: "granted"},
		"a grant may be accepted":      {stage: "granted", since: 2 * minute, node: []fixture{granted}, want: rules.Wait, after: minute},
		"a grant that is not accepted": {stage: "granted", since: 3 * minute, node: []fixture{granted}, want: rules.Decline, why: "has not accepted within 3m0s"},
		"a stage of the future":        {stage: "granted", since: -minute, node: []fixture{granted}, want: rules.Rewrite},

		"a drain is seen":        {stage: "granted", since: minute, node: []fixture{progress("")}, want: rules.Rewrite, why: "draining"},
		"a drain goes on":        {stage: "draining", since: minute, node: []fixture{progress("")}, want: rules.Wait, after: 150 * time.Second},
		"abort, in time":         {stage: "draining", since: 10*minute - 1, beat: 7, node: []fixture{progress("")}, want: rules.Wait, after: 1},
		"abort, too late":        {stage: "draining", since: 10 * minute, beat: 7, node: []fixture{progress(`,"left":"Pod a/b: 50%d"`)}, want: rules.CallOff, why: "the drain did not finish within 10m0s: Pod a/b: 50%d"},
		"an unknown policy":      {stage: "draining", since: 10 * minute, beat: 7, node: []fixture{progress(`,"drainPolicy":"?"`)}, want: rules.CallOff},
		"wait, too late":         {stage: "draining", since: time.Hour, beat: 7, node: []fixture{progress(`,"drainPolicy":"wait"`)}, want: rules.Wait, after: 10 * minute},
		"force, too late":        {stage: "draining", since: 11 * minute, beat: 7, node: []fixture{progress(`,"drainPolicy":"force"`)}, want: rules.Wait, after: 10 * minute},
		"force, much too late":   {stage: "draining", since: 23 * minute, beat: 7, node: []fixture{progress(`,"drainPolicy":"force"`)}, want: rules.CallOff, why: "although the policy is force"},
		"wait, no sign":          {stage: "draining", since: time.Hour, heard: 10 * minute, beat: 7, node: []fixture{progress(`,"drainPolicy":"wait"`)}, want: rules.CallOff, why: "its agent has not been heard from for 10m0s"},
		"a sign is noted":        {stage: "draining", since: time.Hour, heard: 10 * minute, beat: 6, node: []fixture{progress(`,"drainPolicy":"wait"`)}, want: rules.Rewrite},
		"not each sign is noted": {stage: "draining", since: time.Hour, heard: minute, beat: 6, node: []fixture{progress(`,"drainPolicy":"wait"`)}, want: rules.Wait, after: 90 * time.Second},
		"an older agent gives no sign": {stage: "draining", since: time.Hour, heard: time.Hour, node: []fixture{
			annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","drainPolicy":"wait"}`),
		}, want: rules.Wait},
		"the window closed":       {situation: shut, stage: "draining", since: minute, beat: 7, node: []fixture{progress(`,"drainPolicy":"wait"`)}, want: rules.CallOff, why: "window closed"},
		"the window closed after": {situation: shut, stage: "drained", since: minute, beat: 7, node: []fixture{progress(asks)}, want: rules.CallOff, why: "window closed"},
		"another boot id, and no sign": {stage: "draining", since: time.Hour, heard: time.Hour, beat: 7, node: []fixture{
			progress(`,"drainPolicy":"wait"`), booted("b2"),
		}, want: rules.CallOff},

		"the end of a drain is seen":            {stage: "draining", since: 9 * minute, node: []fixture{progress(drained)}, want: rules.Rewrite, why: "drained"},
		"permitted, then seen":                  {stage: "drained", since: -minute, node: []fixture{progress(asks), permit}, want: rules.Rewrite, why: "drained"},
		"permitted before it is seen":           {stage: "draining", since: time.Hour, heard: time.Hour, node: []fixture{progress(asks)}, want: rules.Permit},
		"the window closed before it is seen":   {situation: shut, stage: "granted", since: minute, node: []fixture{progress("")}, want: rules.CallOff, why: "window closed"},
		"too late, and a sign is not noted yet": {stage: "drained", since: 10 * minute, heard: 10 * minute, node: []fixture{progress(asks)}, want: rules.CallOff, why: "has not begun to reboot"},
		"permitted":                             {stage: "drained", beat: 7, node: []fixture{progress(asks)}, want: rules.Permit},
		"permitted already":                     {stage: "drained", beat: 7, node: []fixture{progress(asks), permit}, want: rules.Wait, after: 10 * minute},
		"asked again":                           {stage: "drained", beat: 7, node: []fixture{progress(`,"drained":true,"try":3,"waits":true`), permit}, want: rules.Permit},
		"not asked":                             {stage: "drained", beat: 7, node: []fixture{progress(drained)}, want: rules.Wait, after: 10 * minute},
		"a spec that cannot be read":            {situation: rules.Situation{Invalid: true}, stage: "drained", beat: 7, node: []fixture{progress(asks)}, want: rules.Wait, after: 10 * minute},
		"refused":                               {stage: "drained", since: 10 * minute, beat: 7, node: []fixture{progress(drained + `,"refused":"inhibited"`)}, want: rules.CallOff, why: "within 10m0s: inhibited"},
		"refused, under force":                  {stage: "drained", since: 10 * minute, beat: 7, node: []fixture{progress(drained + `,"drainPolicy":"force","refused":"inhibited"`)}, want: rules.CallOff},
		"refused, under wait":                   {stage: "drained", since: time.Hour, beat: 7, node: []fixture{progress(drained + `,"drainPolicy":"wait","refused":"inhibited"`)}, want: rules.Wait, after: 10 * minute, why: "inhibited"},

		"refused, and told in between":       {stage: "drained", since: minute, beat: 7, node: []fixture{progress(drained + `,"try":2,"refused":"inhibited"`), long}, want: rules.CallOff, why: "within 10m0s: inhibited"},
		"refused, told again, and seen":      {stage: "told", since: minute, node: []fixture{progress(drained + `,"try":2,"refused":"inhibited"`), long}, want: rules.CallOff},
		"refused, and told in between, wait": {stage: "drained", since: minute, beat: 7, node: []fixture{progress(drained + `,"try":2,"drainPolicy":"wait","refused":"inhibited"`), long}, want: rules.Wait, after: 10 * minute},
		"refused for less":                   {stage: "drained", since: 0, beat: 7, node: []fixture{progress(drained + `,"try":2,"refused":"inhibited"`), less}, want: rules.Wait, after: minute},
		"asks once more, too late":           {stage: "drained", since: 0, beat: 7, node: []fixture{progress(asks), long}, want: rules.CallOff},
		"the first permit of a clock ahead":  {stage: "drained", since: 9 * minute, beat: 7, node: []fixture{progress(drained + `,"try":2`), annotated(protocol.Recent, fmt.Sprintf(permitted, "2099-01-01T00:00:00Z"))}, want: rules.Wait, after: minute},
		"told is seen":                       {stage: "drained", since: time.Hour, node: []fixture{progress(told)}, want: rules.Rewrite, why: "told"},
		"told":                               {stage: "told", since: 4 * minute, node: []fixture{progress(told)}, want: rules.Wait, after: minute, why: "rebooting"},
		"told, window closed":                {situation: shut, stage: "told", since: 4 * minute, node: []fixture{progress(told)}, want: rules.Wait, after: minute},
		"told, and late":                     {stage: "told", since: 5 * minute, node: []fixture{progress(told)}, want: rules.Rewrite, why: "overdue"},
		"told before a long outage":          {stage: "told", since: time.Hour, node: []fixture{progress(told)}, want: rules.Rewrite, why: "overdue"},
		"rebooted in a long outage":          {stage: "told", since: time.Hour, node: []fixture{progress(told), booted("b2")}, want: rules.Rewrite, why: "overdue"},
		"overdue":                            {stage: "overdue", since: 4 * minute, node: []fixture{progress(told)}, want: rules.Wait, after: minute, why: "rebooting"},
		"overdue in the future":              {stage: "overdue", since: -minute, node: []fixture{progress(told)}, want: rules.Rewrite, why: "overdue"},
		"overdue, then refused":              {stage: "overdue", since: time.Hour, node: []fixture{progress(drained)}, want: rules.Rewrite, why: "drained"},
		"overdue, and away":                  {stage: "overdue", since: time.Hour, node: []fixture{progress(told), away}, want: rules.Wait, why: "not Ready"},
		"overdue, Ready as before":           {stage: "overdue", since: 5 * minute, node: []fixture{progress(told)}, want: rules.GiveUp, why: "still reports boot b1 after 10m0s"},
		"overdue, but rebooted":              {stage: "overdue", since: 5 * minute, node: []fixture{progress(told), booted("b2")}, want: rules.Conclude, why: "another boot"},
		"overdue, no boot reported":          {stage: "overdue", since: time.Hour, node: []fixture{progress(told), booted("")}, want: rules.Wait},
		"told by an older agent":             {stage: "overdue", since: time.Hour, node: []fixture{annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","drained":true}`)}, want: rules.Wait, why: "rebooting"},
		"garbled permit":                     {stage: "drained", node: []fixture{progress(asks), annotated(protocol.Permit, "x")}, want: rules.Wait, why: protocol.Permit},
		"garbled recent reboots":             {stage: "granted", node: []fixture{granted, annotated(protocol.Recent, "x")}, want: rules.Wait, why: protocol.Recent},
		"granted, and often rebooted":        {stage: "granted", node: []fixture{granted, annotated(protocol.Recent, recent(-time.Hour, -2*time.Hour, -3*time.Hour))}, want: rules.Revoke, why: "told to reboot 3 times"},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := gomega.NewWithT(t), c.situation
			s.Now = start.Add(24 * time.Hour)
			slot := api.Slot{
				Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 1, Stage: c.stage, Beat: c.beat,
				StageSince: metav1.Time{Time: s.Now.Add(-c.since)}, HeardAt: metav1.Time{Time: s.Now.Add(-c.heard)},
			}
			d := rules.ForSlot(s, slot, makeNode("n", c.node...))
			g.Expect(d.Step).To(gomega.Equal(c.want), d.Why)
			g.Expect(d.Why).To(gomega.ContainSubstring(c.why))
			if c.want == rules.Wait {
				g.Expect(d.After).To(gomega.Equal(c.after))
			}
			if c.want == rules.Rewrite {
				s.Now = s.Now.Add(time.Second)
				g.Expect(rules.ForSlot(s, d.Next, makeNode("n", c.node...)).Step).NotTo(gomega.Equal(rules.Rewrite), "once")
			}
		})
	}
}

// recent is the annotation with reboots at these times, the epoch after the
// first one.
func recent(ago ...time.Duration) string {
	text := ""
	for i, d := range ago {
		text += fmt.Sprintf(`,{"epoch":%d,"at":%q}`, i+10, start.Add(24*time.Hour+d).UTC().Format(time.RFC3339))
	}
	return "[" + text[1:] + "]"
}

func TestAPermissionEndsWithItsWindow(t *testing.T) {
	node := makeNode("n", annotated(protocol.InProgress, `{"request":"r","epoch":1,"bootID":"b1","start":"s","drained":true,"try":1,"waits":true}`))
	for left, want := range map[time.Duration]int32{
		0: 60, time.Hour: 60, time.Minute: 60, 59 * time.Second: 59, 1500 * time.Millisecond: 1, time.Millisecond: 1,
	} {
		slot := api.Slot{Node: "n", NodeUID: "uid-n", Epoch: 1, Stage: rules.StageDrained, StageSince: metav1.Time{Time: start}, HeardAt: metav1.Time{Time: start}}
		d := rules.ForSlot(rules.Situation{Now: start, WindowLeft: left}, slot, node)
		gomega.NewWithT(t).Expect(d.Seconds).To(gomega.Equal(want), left.String())
	}
}

func TestARequestThatWasCalledOffWaitsFromWhenTheControllerSawIt(t *testing.T) {
	node := makeNode("n", annotated(protocol.Needed, "r"), annotated(protocol.LastReboot,
		`{"request":"r","epoch":1,"toBootID":"b1","at":"2040-01-01T00:00:00Z","result":"called-off","why":"a budget"}`))
	s := rules.Situation{Now: start, Retry: time.Hour}
	d := rules.ForSlot(s, api.Slot{Node: "n", NodeUID: "uid-n", Request: "r", Epoch: 1}, node)
	g := gomega.NewWithT(t)
	g.Expect(d.Step).To(gomega.Equal(rules.Release))
	g.Expect(d.NotBefore.Time).To(gomega.BeTemporally("==", start.Add(time.Hour)))
	entry := api.Waiting{Node: "n", NotBefore: d.NotBefore}
	hold := rules.HeldBack(node, entry, "", api.MaxReboots{}, start.Add(59*time.Minute))
	g.Expect(hold.Left).To(gomega.Equal(time.Minute))
	g.Expect(hold.Lasting).To(gomega.BeFalse())
	g.Expect(rules.HeldBack(node, entry, "", api.MaxReboots{}, start.Add(time.Hour)).Why).To(gomega.BeEmpty())
	node.Annotations[protocol.Needed] = "r2"
	g.Expect(rules.HeldBack(node, entry, "", api.MaxReboots{}, start).Why).To(gomega.BeEmpty(), "another request")
}

func TestANodeThatRebootsAgainAndAgainIsHeldBack(t *testing.T) {
	now := start.Add(24 * time.Hour)
	for name, c := range map[string]struct {
		recent string
		limit  api.MaxReboots
		left   time.Duration
	}{
		"none":               {"[]", api.MaxReboots{}, 0},
		"two":                {recent(-2*time.Hour, -time.Hour), api.MaxReboots{}, 0},
		"three in a day":     {recent(-3*time.Hour, -2*time.Hour, -time.Hour), api.MaxReboots{}, 21 * time.Hour},
		"one is a day ago":   {recent(-24*time.Hour, -2*time.Hour, -time.Hour), api.MaxReboots{}, 0},
		"four, the limit is": {recent(-4*time.Hour, -3*time.Hour, -2*time.Hour, -time.Hour), api.MaxReboots{Count: 3}, 21 * time.Hour},
		"one in two hours":   {recent(-time.Hour), api.MaxReboots{Count: 1, Hours: 2}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := gomega.NewWithT(t)
			node := makeNode("n", annotated(protocol.Needed, "r"), annotated(protocol.Recent, c.recent))
			hold := rules.HeldBack(node, api.Waiting{Node: "n"}, "", c.limit, now)
			g.Expect(hold.Left).To(gomega.Equal(c.left))
			g.Expect(hold.Lasting).To(gomega.Equal(c.left > 0))
			r := rules.Reserve(&api.RebootGroupStatus{}, rules.Terms{Limit: 1, MaxReboots: c.limit, Now: now}, []*corev1.Node{node})
			g.Expect(r.Slots).To(gomega.HaveLen(map[bool]int{true: 0, false: 1}[c.left > 0]))
			g.Expect(r.After).To(gomega.Equal(c.left))
		})
	}
}

// The boot id cannot tell whether it has: only a person can.
func TestARequestWhoseRebootIsUnprovenIsNotTriedAgain(t *testing.T) {
	g := gomega.NewWithT(t)
	unproven := annotated(protocol.LastReboot, `{"request":"r","epoch":1,"toBootID":"b1","result":"unproven","why":"the boot id"}`)
	node := makeNode("n", annotated(protocol.Needed, "r"), unproven)
	hold := rules.HeldBack(node, api.Waiting{}, "", api.MaxReboots{}, start.Add(1000*time.Hour))
	g.Expect(hold.Lasting).To(gomega.BeTrue())
	g.Expect(hold.Why).To(gomega.ContainSubstring("the boot id"))
	slot := api.Slot{Node: "n", NodeUID: "uid-n", Request: "other", Epoch: 2}
	g.Expect(rules.ForSlot(rules.Situation{Now: start}, slot, node).Step).To(gomega.Equal(rules.Void), "requested while another request had the slot")
	g.Expect(rules.Asks(protocol.Read(makeNode("n", unproven)), "r")).To(gomega.BeFalse(), "nor by a file")
	node.Annotations[protocol.Needed] = "r2"
	g.Expect(rules.HeldBack(node, api.Waiting{}, "", api.MaxReboots{}, start).Why).To(gomega.BeEmpty())
	f := rules.Facts{Group: &api.RebootGroup{}, Limit: 1, Queue: queueOf("n"), Now: start}
	g.Expect(f.HeldFast()).To(gomega.BeEmpty())
	node.Annotations[protocol.Needed] = "r"
	f.Members = []*corev1.Node{node}
	g.Expect(f.HeldFast()).To(gomega.ConsistOf(gomega.ContainSubstring("n: not tried again")))
}

func TestTheNextStepOfAnAcceptedRebootFollowsFromWhatIsWritten(t *testing.T) {
	request := protocol.Request{Request: "r", Epoch: 1}
	answer := &protocol.Permission{Request: request, Try: 2}
	told := func(start string) *protocol.Asked { return &protocol.Asked{Start: start} }
	for name, c := range map[string]struct {
		p      protocol.Progress
		permit *protocol.Permission
		want   rules.ProgressStep
	}{
		"draining":                    {protocol.Progress{Start: "s"}, nil, rules.Evict},
		"drained, and not asked":      {protocol.Progress{Start: "s", Drained: true, Try: 2}, answer, rules.Ask},
		"asked by another start":      {protocol.Progress{Start: "t", Drained: true, Try: 2, Waits: true}, answer, rules.Ask},
		"asked":                       {protocol.Progress{Start: "s", Drained: true, Try: 2, Waits: true}, nil, rules.Await},
		"asked, and an older answer":  {protocol.Progress{Start: "s", Drained: true, Try: 3, Waits: true}, answer, rules.Await},
		"permitted":                   {protocol.Progress{Start: "s", Drained: true, Try: 2, Waits: true}, answer, rules.Tell},
		"told by this start":          {protocol.Progress{Start: "s", Drained: true, Asked: told("s")}, nil, rules.Told},
		"told by another start":       {protocol.Progress{Start: "s", Drained: true, Asked: told("t")}, nil, rules.Lost},
		"drained by an older release": {protocol.Progress{Drained: true}, nil, rules.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Request = request
			gomega.NewWithT(t).Expect(rules.ForProgress(&c.p, c.permit, "s")).To(gomega.Equal(c.want))
		})
	}
}
