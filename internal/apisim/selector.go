package apisim

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/homeostat/homeostat/internal/keyspace"
	"github.com/homeostat/homeostat/internal/selectable"
)

// selector selects the objects of a list or watch.
type selector struct {
	namespace string
	labels    labels.Selector
	fields    fields.Requirements
	rules     map[string]selectable.Rule // the rules for reading the fields, by field
	// shards has the ranges of namespace hashes that a shardSelector
	// selects. It is nil without a shardSelector.
	shards   keyspace.Set
	selector string // the shardSelector
}

func newSelector(s *store, res *Resource, r *request) (*selector, error) {
	m := &selector{namespace: r.Namespace, rules: map[string]selectable.Rule{}}
	var err error
	if text := r.query.Get("shardSelector"); text != "" && s.opts.Shards {
		if m.shards, err = keyspace.FromSelector(text); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		m.selector = text
	}
	if m.labels, err = labels.Parse(r.query.Get("labelSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	text := r.query.Get("fieldSelector")
	parsed, err := fields.ParseSelector(text)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	m.fields = parsed.Requirements()
	for _, f := range m.fields {
		rule, err := ruleOf(res, f.Field)
		if err != nil {
			return nil, err
		}
		m.rules[f.Field] = rule
	}
	return m, nil
}

// ruleOf returns the rule for reading a field that a selector names.
func ruleOf(res *Resource, field string) (selectable.Rule, error) {
	resource := res.groupResource()
	known := field == "metadata.name" || field == "metadata.namespace" && selectable.TakesNamespace(resource)
	if known || slices.Contains(res.Selectable, field) {
		rule, _ := selectable.RuleOfCustom(field)
		return rule, nil
	}
	switch rule, known := selectable.RuleFor(resource, field); {
	case res.builtin.typed && known:
		return rule, nil
	case res.builtin.typed && selectable.Of(resource) == nil:
		return rule, apierrors.NewBadRequest(fmt.Sprintf(
			"%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", field))
	}
	return selectable.Rule{}, apierrors.NewBadRequest("field label not supported: " + field)
}

func (m *selector) matches(o *stored) bool {
	if o == nil || m.namespace != "" && o.key.Namespace != m.namespace || !m.labels.Matches(o.labels) {
		return false
	}
	if m.selector != "" && !m.shards.Contains(keyspace.Of(o.key.Namespace)) {
		return false
	}
	for _, f := range m.fields {
		value, _, _ := m.rules[f.Field].Value(o.obj)
		if (value == f.Value) == (f.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}
