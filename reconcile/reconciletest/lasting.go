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

// lasting is a refusal that lasts to the end of a run. It strikes every call in
// a namespace, or every write to one object. Everything else has to end as it
// does without the refusal.
//
// Its methods run in the goroutine that made a call, or in the goroutine of the
// run while the program is blocked: no lock is needed.
type lasting struct {
	*core
	at     byte        // plan.Barred or plan.Poisoned; 0: none has begun
	struck apisim.Call // the call from which on it lasts
}

// begin makes the refusal last from a call on, which is about to be served.
func (l *lasting) begin(at byte, c apisim.Call) {
	if l.at != 0 {
		return
	}
	l.at, l.struck = at, c
	what := "every call in namespace " + c.Namespace
	if at == plan.Poisoned {
		what = "every write to " + titleOf(c)
	}
	l.line("REFUSED   " + what + ", from now on")
}

// titleOf names the object of a call as a State does.
func titleOf(c apisim.Call) string {
	return c.Resource.GroupResource().String() + " " + strings.TrimPrefix(c.Namespace+"/"+c.Name, "/")
}

// strikes reports whether the refusal is about a call.
func (l *lasting) strikes(c apisim.Call) bool {
	if !ofProgram(c.Client) || state.Ignored(c.Resource.GroupResource()) {
		return false
	}
	switch l.at {
	case plan.Barred:
		return c.Namespace == l.struck.Namespace
	case plan.Poisoned:
		return c.Write() && titleOf(c) == titleOf(l.struck)
	}
	return false
}

// reply is the answer to a call that the refusal strikes, or nil.
func (l *lasting) reply(c apisim.Call) *apisim.Reply {
	switch {
	case !l.strikes(c):
		return nil
	case l.at == plan.Poisoned:
		return statusReply(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, c,
			titleOf(c)+" is invalid: an admission webhook of the exploration refuses it")
	}
	return statusReply(http.StatusForbidden, metav1.StatusReasonForbidden, c, fmt.Sprintf(
		"%s is forbidden: User \"program\" cannot %s resource %q in the namespace %q", titleOf(c), c.Verb,
		c.Resource.Resource, c.Namespace))
}

// reply is an answer to a call in place of the server's, or nil: that of a
// lasting refusal, or of a step of Answer.
func (r *judge) reply(c apisim.Call) *apisim.Reply {
	if reply := r.lasting.reply(c); reply != nil {
		return reply
	}
	return r.world.answered(c)
}

// statusReply is an answer with a Status about the object of a call.
func statusReply(code int32, reason metav1.StatusReason, c apisim.Call, message string) *apisim.Reply {
	body, _ := json.Marshal(metav1.Status{ // of strings and numbers
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message,
		Details: &metav1.StatusDetails{Group: c.Resource.Group, Kind: c.Resource.Resource, Name: c.Name},
	})
	return &apisim.Reply{Code: int(code), Body: body}
}

// affected are the objects at the end of a run that a refusal may change: those
// that it strikes, with all their owners and everything that these own.
func (l *lasting) affected(objects []state.Located) state.Affected {
	a := state.Affected{Titles: map[string]bool{}, Names: map[string]bool{}}
	if l.at == plan.Barred {
		a.Names[l.struck.Namespace] = true
		a.Titles["namespaces "+l.struck.Namespace] = true
	} else {
		a.Titles[titleOf(l.struck)] = true
		a.Struck = strings.TrimRight(strings.TrimPrefix(l.struck.Namespace+"/"+l.struck.Name, "/"), "-*")
	}
	hit := func(o state.Located) bool {
		key := state.KeyOf(o.Object)
		if l.at == plan.Barred {
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
	for range len(objects) { // at most that far apart
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

// grow adds the owners of the family, and what it owns, and reports whether
// there were any.
func grow(family map[string]bool, objects []state.Located) bool {
	before := len(family)
	for _, o := range objects {
		for _, owner := range o.Object.GetOwnerReferences() {
			if family[string(owner.UID)] || family[string(o.Object.GetUID())] {
				family[string(owner.UID)], family[string(o.Object.GetUID())] = true, true
			}
		}
	}
	return len(family) > before
}

// checkOthers compares the end of a run under a lasting refusal with the run
// without faults, except for what the refusal may change.
func (x *explorer) checkOthers(out *outcome) {
	want := x.reference.states[len(x.reference.states)-1]
	have := out.states[len(out.states)-1]
	var all []state.Located // those that are gone at the end, too
	for _, rest := range slices.Concat(x.reference.states, out.states) {
		all = append(all, rest.Objects()...)
	}
	affected := out.affected(all)
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
	if len(lines) > 0 {
		out.finding = &report.Finding{
			Oracle: report.Others, Reason: report.OneStopsAll, UpTo: out.restedAt[len(out.restedAt)-1],
			Text: "what has nothing to do with the refusal differs from the run without it, at the end " +
				"(- without, + with):\n    " + strings.Join(lines, "\n    "),
		}
	}
}
