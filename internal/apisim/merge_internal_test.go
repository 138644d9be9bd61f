package apisim

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// The API server applies merge patches with this library, which is not as in
// RFC 7386 about the nulls in lists.
func TestAMergePatchIsAppliedAsByTheLibraryOfTheServer(t *testing.T) {
	for _, patch := range []string{
		`{"o":null,"l":null,"n":null,"new":null}`,
		`{"o":{"a":null,"c":{"d":null,"e":1}},"new":{"a":null,"b":{"c":null}}}`,
		`{"l":[{"a":null,"b":{"c":null,"d":1}},null,[{"e":null},[null]]]}`,
		`{"new":[[{"a":null}]]}`,
		`{"new":{"a":[{"b":null}]}}`,
		`{"n":[{"a":null}]}`,
		`{"o":[{"a":null}]}`,
		`{"l":{"a":null},"n":{"a":null,"b":1}}`,
	} {
		t.Run(patch, func(t *testing.T) {
			g := NewWithT(t)
			const current = `{"o":{"a":1,"b":2},"l":[1],"n":1}`
			want, err := jsonpatch.MergePatch([]byte(current), []byte(patch))
			g.Expect(err).NotTo(HaveOccurred())
			target, err := decode([]byte(current))
			g.Expect(err).NotTo(HaveOccurred())
			change, err := decode([]byte(patch))
			g.Expect(err).NotTo(HaveOccurred())
			got, err := json.Marshal(mergeObjects(target, change))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(MatchJSON(want))
		})
	}
}
