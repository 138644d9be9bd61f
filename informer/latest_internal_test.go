package informer

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestOneObjectIsSelectedBesideTheInformersOwnSelector(t *testing.T) {
	for want, c := range map[string]struct {
		key      types.NamespacedName
		selector string
	}{
		"metadata.name=a":                                         {types.NamespacedName{Name: "a"}, ""},
		"metadata.name=a,metadata.namespace=d":                    {types.NamespacedName{Namespace: "d", Name: "a"}, ""},
		"metadata.name=a,metadata.namespace=d,spec.nodeName=node": {types.NamespacedName{Namespace: "d", Name: "a"}, "spec.nodeName=node"},
	} {
		NewWithT(t).Expect(selecting(c.key, c.selector)).To(Equal(want))
	}
}
