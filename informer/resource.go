package informer

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Resource returns the group and the plural name of what the informer watches,
// such as deployments.apps, as far as the client or the Go type tells, and
// otherwise nothing.
func (i *Informer[T]) Resource() schema.GroupResource {
	i.mu.Lock()
	written := i.sources[0].written
	i.mu.Unlock()
	if kind, _, ok := builtIn(reflect.TypeFor[T]()); ok && written.Resource == "" {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		written = plural.GroupResource()
	}
	return written
}

// writtenTo returns the resource that a client of client-go reads, fake or
// not, also if another type embeds the client.
//
// They keep it in fields called as here. A client-go that calls them otherwise
// makes the resource unknown, and a test fail.
func writtenTo(client any) schema.GroupResource {
	const deepest = 6 // structs that embed one another
	found, _ := findResource(reflect.ValueOf(client), deepest)
	return found
}

func findResource(v reflect.Value, deepest int) (found schema.GroupResource, ok bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct || deepest == 0 {
		return found, false
	}
	switch resource := ownField(v, "resource"); {
	case !resource.IsValid():
	case resource.Type() == reflect.TypeFor[schema.GroupVersionResource]():
		return schema.GroupResource{
			Group: resource.FieldByName("Group").String(), Resource: resource.FieldByName("Resource").String(),
		}, true
	case resource.Kind() == reflect.String:
		group, ok := servedGroup(ownField(v, "client"))
		return schema.GroupResource{Group: group, Resource: resource.String()}, ok
	}
	for n := range v.NumField() {
		if v.Type().Field(n).Anonymous {
			if found, ok = findResource(v.Field(n), deepest-1); ok {
				return found, true
			}
		}
	}
	return schema.GroupResource{}, false
}

// servedGroup returns the group that a rest.Interface sends requests to.
func servedGroup(client reflect.Value) (group string, ok bool) {
	for client.Kind() == reflect.Pointer || client.Kind() == reflect.Interface {
		client = client.Elem()
	}
	if !client.IsValid() || client.Type() != reflect.TypeFor[rest.RESTClient]() {
		return "", false
	}
	switch parts := strings.Split(strings.Trim(client.FieldByName("versionedAPIPath").String(), "/"), "/"); {
	case len(parts) == 2: // api/v1
		return "", true
	case len(parts) == 3: // apis/group/version
		return parts[1], true
	}
	return "", false
}
