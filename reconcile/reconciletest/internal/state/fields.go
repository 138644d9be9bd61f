package state

import (
	"maps"
	"slices"
	"strings"
)

// ForeignField is a field of the spec that another client may set. A controller
// that creates such objects hardly ever sets it, and it may be changed at any
// time.
type ForeignField struct {
	Path    []string // the path below the spec; "*" stands for every element of a list
	Value   any      // the value that another client sets: a string, an int64 or a bool
	Usual   any      // the server's default; nil if the field has no default
	Implies string   // another field of the spec that the server sets when this one is set
}

// ForeignFields maps resources to their foreign fields.
type ForeignFields map[string][]ForeignField

// BuiltinFields are the foreign fields of built-in resources. They include no
// field in the template of a Deployment, because a change of the template leads
// to a new ReplicaSet.
var BuiltinFields = ForeignFields{
	"cronjobs.batch": {
		{Path: []string{"failedJobsHistoryLimit"}, Value: int64(7), Usual: int64(1)},
		inContainers("jobTemplate", "spec", "template", "spec"),
	},
	"daemonsets.apps": {
		{Path: []string{"revisionHistoryLimit"}, Value: int64(7), Usual: int64(10)},
		inContainers("template", "spec"),
	},
	"deployments.apps":            {{Path: []string{"revisionHistoryLimit"}, Value: int64(7), Usual: int64(10)}},
	"ingresses.networking.k8s.io": {{Path: []string{"ingressClassName"}, Value: RivalName}},
	"jobs.batch":                  {{Path: []string{"ttlSecondsAfterFinished"}, Value: int64(1_000_000)}},
	"poddisruptionbudgets.policy": {{Path: []string{"unhealthyPodEvictionPolicy"}, Value: "AlwaysAllow"}},
	"services": {
		{Path: []string{"sessionAffinity"}, Value: "ClientIP", Usual: "None", Implies: "sessionAffinityConfig"},
		{Path: []string{"ports", "*", "appProtocol"}, Value: "example.com/" + RivalName},
	},
	"statefulsets.apps": {
		{Path: []string{"revisionHistoryLimit"}, Value: int64(7), Usual: int64(10)},
		inContainers("template", "spec"),
	},
}

// inContainers returns a field of every container of the Pod template at a
// path.
func inContainers(path ...string) ForeignField {
	return ForeignField{
		Path: append(path, "containers", "*", "terminationMessagePolicy"), Value: "FallbackToLogsOnError", Usual: "File",
	}
}

// String returns the field in the form of an entry of Case.Ignore, such as
// "spec.ports[*].appProtocol".
func (f ForeignField) String() string { return strings.Join(f.Names(), ".") }

// Names returns the names on the way to the field, such as "spec", "ports[*]"
// and "appProtocol".
func (f ForeignField) Names() []string {
	names := []string{"spec"}
	for _, name := range f.Path {
		if name == "*" {
			names[len(names)-1] += "[*]"
			continue
		}
		names = append(names, name)
	}
	return names
}

// parents returns the maps in an object's spec that have the field, or could
// have it.
func (f ForeignField) parents(object map[string]any) []map[string]any {
	values := []any{object["spec"]}
	for _, name := range f.Path[:len(f.Path)-1] {
		var children []any
		for _, v := range values {
			switch v := v.(type) {
			case map[string]any:
				children = append(children, v[name])
			case []any:
				children = append(children, v...)
			}
		}
		values = children
	}
	var parents []map[string]any
	for _, v := range values {
		if m, ok := v.(map[string]any); ok {
			parents = append(parents, m)
		}
	}
	return parents
}

// InList reports whether the field is in the elements of a list.
func (f ForeignField) InList() bool { return slices.Contains(f.Path, "*") }

func (f ForeignField) name() string { return f.Path[len(f.Path)-1] }

// Values returns the values of the field in an object: no value if it is not
// set, and perhaps several if it is in a list.
func (f ForeignField) Values(object map[string]any) []any {
	var values []any
	for _, parent := range f.parents(object) {
		if v, set := parent[f.name()]; set {
			values = append(values, v)
		}
	}
	return values
}

// Free reports whether another client may set the field of an object: the
// object has a place for it, and no value except the server's default.
func (f ForeignField) Free(object map[string]any) bool {
	taken := func(v any) bool { return v != f.Usual }
	return len(f.parents(object)) > 0 && !slices.ContainsFunc(f.Values(object), taken)
}

// Set sets the field wherever it has no value or the server's default, in
// place.
func (f ForeignField) Set(object map[string]any) {
	for _, parent := range f.parents(object) {
		if v, set := parent[f.name()]; !set || v == f.Usual {
			parent[f.name()] = f.Value
		}
	}
}

// Unset undoes Set, in place.
func (f ForeignField) Unset(object map[string]any) {
	for _, parent := range f.parents(object) {
		if parent[f.name()] != f.Value {
			continue
		}
		if parent[f.name()] = f.Usual; f.Usual == nil {
			delete(parent, f.name())
		}
		if spec, ok := object["spec"].(map[string]any); ok && f.Implies != "" {
			delete(spec, f.Implies)
		}
	}
}

// Union returns the fields together with others. The resources of others must
// have no field yet.
func (f ForeignFields) Union(others ForeignFields) ForeignFields {
	union := ForeignFields{}
	maps.Copy(union, f)
	maps.Copy(union, others)
	return union
}
