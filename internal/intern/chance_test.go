package intern_test

import (
	"bytes"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/intern"
)

// many is a number of objects after which a part counts as hopeless.
const many = 200

func secret(n int, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s-", n), ResourceVersion: "1"},
		Data:       map[string][]byte{"v": data},
	}
}

// own returns bytes that no other object has.
func own(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%06d,", n), 20) }

func TestBytesThatNoTwoObjectsHaveAreNotComparedWithTheStateBefore(t *testing.T) {
	g := NewWithT(t)
	s := intern.New()
	old := secret(0, own(0))
	s.Object(old)
	update := func() (shares bool) {
		next := secret(0, own(0))
		next.Annotations = map[string]string{"n": "1"}
		s.Update(next, old)
		g.Expect(next.Data).To(Equal(old.Data))
		return place(next.Data) == place(old.Data)
	}
	g.Expect(update()).To(BeTrue(), "it is not known yet that no two objects have the bytes")
	for n := range many {
		s.Object(secret(n+1, own(n+1)))
	}
	g.Expect(update()).To(BeFalse())

	common := own(-1)
	first, second := secret(-1, bytes.Clone(common)), secret(-2, bytes.Clone(common))
	s.Object(first)
	s.Object(second)
	for n := range many { // some of them are looked up
		s.Object(secret(n-many, bytes.Clone(common)))
	}
	g.Expect(update()).To(BeTrue(), "objects have equal bytes by now")
}

func TestPartsThatNoTwoObjectsHadAreSharedWhenManyHaveThem(t *testing.T) {
	g := NewWithT(t)
	s := intern.New()
	object := func(name string, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{name: text}}
	}
	for n := range many {
		s.Object(object(fmt.Sprint("own-", n), string(own(n))))
	}
	places := map[uintptr]int{}
	var kept []*corev1.ConfigMap
	for n := range many {
		c := object(fmt.Sprint("common-", n), string(own(-1)))
		s.Object(c)
		kept = append(kept, c)
		places[textPlace(c.Data[c.Name])]++
	}
	most := 0
	for _, count := range places {
		most = max(most, count)
	}
	g.Expect(most).To(BeNumerically(">", many/2), "the text is in %d places of %d objects", len(places), len(kept))
}
