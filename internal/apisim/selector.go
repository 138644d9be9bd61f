package apisim

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/homeostat/homeostat/internal/keyspace"
)

// selector selects the objects of a list or watch.
type selector struct {
	namespace string
	labels    labels.Selector
	fields    fields.Requirements
	defaults  map[string]string
	// shards are the namespaces of a shardSelector; nil without.
	shards   keyspace.Set
	selector string // that
}

func newSelector(s *store, res *Resource, r *request) (*selector, error) {
	m := &selector{namespace: r.Namespace, defaults: res.builtin.selectors}
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
		if f.Field == "metadata.name" || f.Field == "metadata.namespace" {
			continue
		}
		if _, known := m.defaults[f.Field]; known {
			continue
		}
		if m.defaults == nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", f.Field))
		}
		return nil, apierrors.NewBadRequest("field label not supported: " + f.Field)
	}
	return m, nil
}

func (m *selector) matches(o *stored) bool {
	if o == nil || m.namespace != "" && o.key.Namespace != m.namespace || !m.labels.Matches(o.labels) {
		return false
	}
	if m.selector != "" && !m.shards.Contains(keyspace.Of(o.key.Namespace)) {
		return false
	}
	for _, f := range m.fields {
		same := m.value(o, f.Field) == f.Value
		if same == (f.Operator == "!=") {
			return false
		}
	}
	return true
}

func (m *selector) value(o *stored, field string) string {
	var v any = o.obj
	for step := range strings.SplitSeq(field, ".") {
		node, _ := v.(object)
		v = node[step]
	}
	if v == nil {
		return m.defaults[field]
	}
	return fmt.Sprint(v)
}
