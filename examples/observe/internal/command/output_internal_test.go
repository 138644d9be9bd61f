package command

import (
	"bytes"
	"os"
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
