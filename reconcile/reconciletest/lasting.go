package reconciletest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// lasting is a fault that lasts to the end of a run. The server refuses every
// call in a namespace or every write to one object, or Go cannot decode an
// object. All other objects must end as they do without the fault.
//
// Its methods run in the goroutine that made a call, or in the goroutine of the
// run while the program is blocked: no lock is needed.
type lasting struct {
	*core
	kind   byte        // the kind of the deviation, such as plan.Barred; 0 before it has begun
	struck apisim.Call // the call at which the fault begins; for plan.Garbled, only the name of the object
}

// begin begins the fault at a call that is about to be served.
func (l *lasting) begin(kind byte, c apisim.Call) {
	if l.kind != 0 {
		return
	}
	l.kind, l.struck = kind, c
	refused := "every call in namespace " + c.Namespace
	if kind == plan.Poisoned {
		refused = "every write to " + titleOf(c)
	}
	l.line("REFUSED   " + refused + ", from now on")
}

// judges reports whether the results of Goal and Always of the case count. They
// do not count in a run with an object that cannot be decoded, or in a run in
// which the server is restored but the state outside of it is not, because
// cases do not expect that.
func (r *judge) judges() bool {
	return r.lasting.kind != plan.Garbled && (r.c.Outside == nil || !r.given.Has(plan.Restored))
}

// titleOf returns the name of a call's object as it is written in a State.
func titleOf(c apisim.Call) string {
	return c.Resource.GroupResource().String() + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
}

// strikes reports whether the refusal applies to a call.
func (l *lasting) strikes(c apisim.Call) bool {
	if !isProgram(c.Client) || state.Ignored(c.Resource.GroupResource()) {
		return false
	}
	switch l.kind {
	case plan.Barred:
		return c.Namespace == l.struck.Namespace
	case plan.Poisoned:
		return c.Write() && titleOf(c) == titleOf(l.struck)
	}
	return false
}

// reply returns the refusal of a call, or nil if the refusal does not apply to
// the call.
func (l *lasting) reply(c apisim.Call) *apisim.Reply {
	switch {
	case !l.strikes(c):
		return nil
	case l.kind == plan.Poisoned:
		return statusReply(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, c,
			titleOf(c)+" is invalid: an admission webhook of the exploration refuses it")
	}
	return statusReply(http.StatusForbidden, metav1.StatusReasonForbidden, c, fmt.Sprintf(
		"%s is forbidden: User \"program\" cannot %s resource %q in the namespace %q", titleOf(c), c.Verb,
		c.Resource.Resource, c.Namespace))
}

// reply returns the answer of a lasting refusal or of a step of [Answer] to a
// call. It returns nil if the server itself answers.
func (r *judge) reply(c apisim.Call) *apisim.Reply {
	if reply := r.lasting.reply(c); reply != nil {
		return reply
	}
	return r.world.answered(c)
}

// statusReply returns an answer with a Status about the object of a call.
func statusReply(code int32, reason metav1.StatusReason, c apisim.Call, message string) *apisim.Reply {
	body, _ := json.Marshal(metav1.Status{ // strings and numbers can always be encoded
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Group: c.Resource.Group, Kind: c.Resource.Resource, Name: c.Name},
	})
	return &apisim.Reply{Code: int(code), Body: body}
}

// affected returns the objects that the fault may have changed at the end of a
// run. These are the objects to which the fault applies, with all their owners
// and all objects that these own.
func (l *lasting) affected(objects []state.Located) state.Affected {
	a := state.Affected{Titles: map[string]bool{}, Names: map[string]bool{}}
	if l.kind == plan.Barred {
		a.Names[l.struck.Namespace] = true
		a.Titles["namespaces "+l.struck.Namespace] = true
	} else {
		a.Titles[titleOf(l.struck)] = true
		a.Struck = strings.TrimRight(strings.TrimPrefix(l.struck.Namespace+"/"+l.struck.Name, "/"), "-*")
	}
	hit := func(o state.Located) bool {
		key := state.KeyOf(o.Object)
		if l.kind == plan.Barred {
			return o.Object.GetNamespace() == l.struck.Namespace
		}
		prefix, made := strings.CutSuffix(l.struck.Name, "*")
		return o.Resource == l.struck.Resource.GroupResource().String() && (key == strings.TrimPrefix(
			l.struck.Namespace+"/"+l.struck.Name, "/") || made && o.Object.GetNamespace() == l.struck.Namespace &&
			o.Object.GetGenerateName() == prefix)
	}
	family := map[string]bool{} // by UID
	for _, o := range objects {
		if hit(o) {
			family[string(o.Object.GetUID())] = true
		}
	}
	for range len(objects) { // no chain of owners is longer
		if !grow(family, objects) {
			break
		}
	}
	for _, o := range objects {
		if family[string(o.Object.GetUID())] {
			a.Titles[o.Resource+" "+state.KeyOf(o.Object)] = true
			a.Names[o.Object.GetName()] = true
		}
	}
	return a
}

// grow adds to the family the owners of its members and the objects that its
// members own. It reports whether it has added an object.
func grow(family map[string]bool, objects []state.Located) bool {
	oldSize := len(family)
	for _, o := range objects {
		for _, owner := range o.Object.GetOwnerReferences() {
			if family[string(owner.UID)] || family[string(o.Object.GetUID())] {
				family[string(owner.UID)], family[string(o.Object.GetUID())] = true, true
			}
		}
	}
	return len(family) > oldSize
}

// checkOthers compares the final objects of two runs: the run of p, in which a
// fault lasts, and the reference run without faults. It stores a difference in
// out as the finding. Objects that the fault may change are not compared.
func (x *explorer) checkOthers(p plan.Plan, out *outcome) {
	if out.finding != nil || out.void {
		return
	}
	want := x.reference.states[len(x.reference.states)-1]
	have := out.states[len(out.states)-1]
	var objects []state.Located // including objects that no longer exist at the end
	for _, rest := range slices.Concat(x.reference.states, out.states) {
		objects = append(objects, rest.Objects()...)
	}
	affected := out.affected(objects)
	var mask map[string]bool
	if n := len(x.masked); n == len(x.reference.states) {
		mask = x.masked[n-1]
	}
	diff := func() []string { return have.DiffOthers(want, mask, affected) }
	lines := diff()
	if len(lines) > 0 && x.widen() {
		if n := len(x.masked); n == len(x.reference.states) {
			mask = x.masked[n-1]
		}
		lines = diff()
	}
	cause := "refusal"
	if p.Has(plan.Garbled) {
		cause = "undecodable object"
	}
	if len(lines) > 0 {
		out.finding = &report.Finding{
			Oracle: report.Others, Reason: report.OneStopsAll, UpTo: out.restedAt[len(out.restedAt)-1],
			Text: "an object that has nothing to do with the " + cause + " differs from the run without it, at the end " +
				"(- without, + with):\n    " + strings.Join(lines, "\n    "),
		}
	}
}
