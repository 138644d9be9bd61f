package contract

import (
	"testing"

	. "github.com/onsi/gomega"
)

const source = `// Package p does things. Prose is no promise.
//
//   - A [Queue] waits
//     for nothing, at v1.5 or
//     later. It never forgets.
//
// More prose.
//
//  1. A numbered one.
package p

import "context"
`

func TestEverySentenceOfAListItemIsAPromise(t *testing.T) {
	g := NewWithT(t)
	promises, err := sentences([]byte(source))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(promises).To(Equal([]string{
		"A Queue waits for nothing, at v1.5 or later.", "It never forgets.", "A numbered one.",
	}))
}

func TestAPromiseWithoutATestAndATestWithoutAPromiseAreFaults(t *testing.T) {
	g := NewWithT(t)
	held := func(*testing.T) {}
	g.Expect(mismatches([]string{"A.", "B."}, Tests{"A.": held, "C.": held})).To(Equal([]string{
		`doc.go promises "B.": no test checks it`, `a test checks "C.", but doc.go does not promise it`,
	}))
	g.Expect(mismatches([]string{"A."}, Tests{"A.": held})).To(BeEmpty())
}

func TestAFileThatDoesNotParseIsAnError(t *testing.T) {
	_, err := sentences([]byte("no go"))
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("reading the package comment")))
}
