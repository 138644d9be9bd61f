package command

import (
	"bytes"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestOnATerminalControlCharactersAreVisible(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	o := NewOutput(&out, "standard output")
	o.escape = true
	n, err := o.Write([]byte("\x1b[2Jhello\tworld\r\n"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(n).To(Equal(17), "of what it was given")
	g.Expect(out.String()).To(Equal(`\x1b[2Jhello` + "\tworld" + `\x0d` + "\n"))

	file, err := os.Create(t.TempDir() + "/file")
	g.Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	g.Expect(isTerminal(file)).To(BeFalse())
	g.Expect(isTerminal(&out)).To(BeFalse())
	null, err := os.Open(os.DevNull) // a device of characters, as terminals are
	g.Expect(err).NotTo(HaveOccurred())
	defer null.Close()
	g.Expect(isTerminal(null)).To(BeTrue())
}

func TestALineOfTheGreatestLengthIsNotMixedWithOthers(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	lines := NewOutput(&out, "standard output").Lines()
	_, err := lines.Write(bytes.Repeat([]byte("x"), maxLine))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out.Len()).To(BeZero())
	_, err = lines.Write([]byte("x"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out.Len()).To(Equal(maxLine + 1))
}

func TestTheEndOfWhatWasWrittenIsKept(t *testing.T) {
	g := NewWithT(t)
	var end tail
	g.Expect(end.err()).To(Succeed())
	var all strings.Builder
	for _, n := range []int{1, stderrTail - 1, 1, 100, 2 * stderrTail, 7} {
		part := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		all.WriteString(part)
		g.Expect(end.Write([]byte(part))).To(Equal(n))
		want := all.String()
		g.Expect(string(end.text)).To(Equal(want[max(0, len(want)-stderrTail):]))
	}
	g.Expect(end.err()).To(MatchError(ContainSubstring("abcdef0123456\"")))
}
