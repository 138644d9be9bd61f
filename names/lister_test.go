package names_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/names"
)

func ours(s *corev1.Service) (names.Name, bool) {
	return names.Name{Key: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, UID: s.UID},
		s.Labels["managed-by"] == "me"
}

func TestObjectsListsTheNamesOfMarkedObjectsOnly(t *testing.T) {
	cache := &store{objects: []*corev1.Service{
		service("a", map[string]string{"managed-by": "me"}), service("b", map[string]string{"managed-by": "you"}),
		service("c", nil),
	}}
	NewWithT(t).Expect(names.Objects(cache, ours).Names(t.Context())).To(Equal([]names.Name{known("default/a", uid1)}))
}

func TestObjectsIsAnErrorBeforeTheCacheHasItsFirstList(t *testing.T) {
	forbidden := errors.New("ingresses is forbidden")
	_, err := names.Objects(&store{err: forbidden}, ours).Names(t.Context())
	NewWithT(t).Expect(err).To(MatchError(forbidden))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("waiting for the cache that holds the names")))
}

func TestUnionListsTheNamesOfAllListers(t *testing.T) {
	g := NewWithT(t)
	one, two := returning(listing("default/a"), nil), returning([]names.Name{known("default/b", uid2)}, nil)
	g.Expect(names.Union(one, two).Names(t.Context())).To(Equal([]names.Name{known("default/a", ""), known("default/b", uid2)}))
	away, late := errors.New("away"), errors.New("late")
	all, err := names.Union(one, returning(nil, away), two, returning(listing("default/c"), late)).Names(t.Context())
	g.Expect(err).To(And(MatchError(away), MatchError(late)))
	g.Expect(err).To(MatchError(And(ContainSubstring("lister 2 of 4"), ContainSubstring("lister 4 of 4"))))
	g.Expect(all).To(BeNil())
}
