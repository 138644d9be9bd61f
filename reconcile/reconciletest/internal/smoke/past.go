package smoke

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/internal/apisim"
	"github.com/homeostat/homeostat/reconcile/reconciletest/internal/state"
)

// past has the objects of the server as they were after one of the writes.
type past struct {
	tables map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured
	byUID  map[types.UID]*unstructured.Unstructured
	births map[types.UID]int
}

func newPast() *past {
	return &past{
		tables: map[schema.GroupVersionResource]map[types.NamespacedName]*unstructured.Unstructured{},
		byUID:  map[types.UID]*unstructured.Unstructured{}, births: map[types.UID]int{},
	}
}

// advance applies the next write.
func (p *past) advance(c *commit) {
	gvr := c.resource.GVR()
	if p.tables[gvr] == nil {
		p.tables[gvr] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	if c.old != nil {
		delete(p.byUID, c.old.GetUID())
	}
	if c.new == nil {
		delete(p.tables[gvr], c.key)
		return
	}
	uid := c.new.GetUID()
	p.tables[gvr][c.key], p.byUID[uid] = c.new, c.new
	if _, born := p.births[uid]; !born {
		p.births[uid] = len(p.births)
	}
}

func (p *past) objects(
	res apisim.Resource, want func(string, *unstructured.Unstructured) bool,
) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, o := range p.tables[res.GVR()] {
		if want(res.Resource, o) {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, byName)
	return found
}

// located returns the objects for which want returns true. They are sorted by
// resource, and the objects of one resource by the order of their creation.
func (p *past) located(
	resources []apisim.Resource, want func(string, *unstructured.Unstructured) bool,
) []state.Located {
	var found []state.Located
	for _, r := range resources {
		objects := p.objects(r, want)
		slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
			return p.births[a.GetUID()] - p.births[b.GetUID()]
		})
		for _, o := range objects {
			found = append(found, state.Located{Resource: r.GVR().GroupResource().String(), Object: o})
		}
	}
	return found
}

func includeAll(string, *unstructured.Unstructured) bool { return true }
