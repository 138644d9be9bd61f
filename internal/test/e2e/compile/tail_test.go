package compile_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/test/e2e/compile"
)

var _ = Describe("Tail", func() {
	It("has the last forty lines, the unfinished one included", func() {
		var t compile.Tail
		for _, p := range []string{"early\nla", "te\n", strings.Repeat("late\n", 39), "unfin", "ished"} {
			n, err := t.Write([]byte(p))
			Expect(err).NotTo(HaveOccurred())
			Expect(n).To(Equal(len(p)))
		}
		Expect(t.String()).To(Equal(strings.Repeat("late\n", 40) + "unfinished"))
	})
})
