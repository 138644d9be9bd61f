package reconciletest

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/backend"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/plan"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/report"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// undecodable is the name of an object that Go cannot decode. The World of the
// case hides it, because the case's steps and actors are not under test.
const undecodable = "reconciletest-undecodable"

// samplesOf returns one object of each custom resource of the case, if there
// was one at a rest.
func (c *Case) samplesOf(rests []*state.Rest) []state.Located {
	var samples []state.Located
	for _, r := range c.resources() {
		resource := r.GVR().GroupResource().String()
		for _, rest := range rests {
			i := slices.IndexFunc(rest.Objects(), func(o state.Located) bool { return o.Resource == resource })
			if i >= 0 {
				samples = append(samples, rest.Objects()[i])
				break
			}
		}
	}
	return samples
}

// spoil creates an object that Go cannot decode, if the plan says so for the
// rest with this number. 0 is the start.
func (r *run) spoil(rest int) {
	d, ok := r.given.First(plan.Garbled)
	if !ok || d.N != rest || d.Index > len(r.samples) {
		return
	}
	sample := r.samples[d.Index-1]
	res, err := backend.Find(r.world.server, sample.Resource)
	if err != nil {
		return
	}
	r.struck()
	bad := spoiled(sample.Object)
	r.world.hides = true
	r.judge.lasting.kind = plan.Garbled
	r.judge.lasting.struck = apisim.Call{Resource: res.GVR(), Namespace: bad.GetNamespace(), Name: bad.GetName()}
	r.line("others    create " + titleOf(r.judge.lasting.struck) + ", which Go cannot decode")
	if err := r.sim.Load(bad); err != nil {
		r.line("  " + err.Error())
	}
}

// explainList adds an explanation to a finding if a reflector of client-go has
// failed to decode a list. The list of a typed informer fails as a whole if one
// object cannot be decoded, and a program may have to accept that. The
// explanation is a text of its own, because an entry of Options.KnownFindings
// names it.
func (o *outcome) explainList(p plan.Plan) {
	if o.finding == nil || !p.Has(plan.Garbled) || !o.listFails() {
		return
	}
	const text = "client-go cannot decode one object, which stops its whole kind: "
	if !strings.HasPrefix(o.finding.Text, text) {
		o.finding.Text, o.finding.Reason = text+o.finding.Text, report.StopsKind
	}
}

// listFails reports whether a reflector of client-go has failed to decode a
// list.
func (o *outcome) listFails() bool {
	return slices.ContainsFunc(o.lines, func(l string) bool {
		return strings.HasPrefix(l, report.Error) && strings.Contains(l, "failed to list ") &&
			strings.Contains(l, "cannot unmarshal ")
	})
}

// spoiled returns an object like o with another name, and with values of the
// wrong types. A server may have such an object if an earlier
// CustomResourceDefinition allowed it.
func spoiled(o *unstructured.Unstructured) *unstructured.Unstructured {
	bad := created(o, true)
	bad.SetName(undecodable)
	bad.SetGenerateName("")
	bad.SetOwnerReferences(nil)
	changed := false
	for field, value := range bad.Object {
		if m, ok := value.(map[string]any); ok && field != "metadata" {
			changed = distort(m) || changed
		}
	}
	if !changed {
		bad.Object["spec"] = undecodable
	}
	return bad
}

// distort replaces the values in content with values of the wrong types. It
// reports whether it has replaced a value.
func distort(content map[string]any) bool {
	changed := false
	for field, value := range content {
		switch v := value.(type) {
		case map[string]any:
			changed = distort(v) || changed
			continue
		case string:
			content[field] = map[string]any{}
		default:
			content[field] = undecodable
		}
		changed = true
	}
	return changed
}
