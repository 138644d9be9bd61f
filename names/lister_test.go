package names_test

import (
	"context"
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("Objects", func() {
	marker := func(s *corev1.Service) (names.Name, bool) {
		return names.Name{Key: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID},
			s.Labels["managed-by"] == "me"
	}

	It("lists the names behind marked objects only", func(ctx SpecContext) {
		cache := &store{objects: []*corev1.Service{
			service("a", map[string]string{"managed-by": "me"}), service("b", map[string]string{"managed-by": "you"}),
			service("c", nil),
		}}
		l := names.Objects(cache, marker)
		Expect(l.NamesWithUIDs(ctx)).To(Equal([]names.Name{known("default/a", uid1)}))
		Expect(l.Names(ctx)).To(Equal(keys("default/a")))
	})

	It("is an error before the cache has its first list", func(ctx SpecContext) {
		forbidden := errors.New("ingresses is forbidden")
		_, err := names.Objects(&store{err: forbidden}, marker).Names(ctx)
		Expect(err).To(MatchError(forbidden))
	})
})

var _ = Describe("Union", func() {
	one := names.Func(func(context.Context) ([]types.NamespacedName, error) { return keys("default/a"), nil })
	two := names.UIDFunc(func(context.Context) ([]names.Name, error) {
		return []names.Name{known("default/b", uid2)}, nil
	})

	It("lists the names of all, with the UIDs that are known", func(ctx SpecContext) {
		Expect(names.Union(one, two).NamesWithUIDs(ctx)).To(Equal(
			[]names.Name{known("default/a", ""), known("default/b", uid2)}))
	})

	It("has no names if one has none to give", func(ctx SpecContext) {
		away := errors.New("away")
		all, err := names.Union(one, names.Func(func(context.Context) ([]types.NamespacedName, error) {
			return nil, away
		}), two).NamesWithUIDs(ctx)
		Expect(err).To(MatchError(away))
		Expect(err).To(MatchError(ContainSubstring("lister 2 of 3")))
		Expect(all).To(BeNil())
	})
})
