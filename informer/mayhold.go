package informer

import "k8s.io/apimachinery/pkg/types"

// InScope tells whether this cache would hold an object of that key if there
// were one: false if the key is outside its namespaces, or if its field
// selector names another object. It says nothing about labels and other fields,
// which a key does not have.
func (i *Informer[T]) InScope(key types.NamespacedName) bool {
	if !i.inScope(key.Namespace) {
		return false
	}
	for field, has := range map[string]string{"metadata.name": key.Name, "metadata.namespace": key.Namespace} {
		if wanted, ok := i.scope.fields.RequiresExactMatch(field); ok && wanted != has {
			return false
		}
	}
	return true
}
