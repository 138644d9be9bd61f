package command_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
)

func TestLine(t *testing.T) {
	g := NewWithT(t)
	g.Expect(command.Line(nil)).To(BeEmpty())
	g.Expect(command.Line([]string{"default", "web"})).To(Equal("default web"))
	g.Expect(command.Line([]string{"./x", "", "a b", `"`, `\`, "\x1b[31m", "a\nb", "ä", "{}"})).To(
		Equal(`./x "" "a b" "\"" "\\" "\x1b[31m" "a\nb" ä {}`))
}

func TestVisible(t *testing.T) {
	g := NewWithT(t)
	g.Expect(string(command.Visible([]byte("a\tb\n\x1b[31m\r\x00\x7f\u009bä\xff\ufffd€")))).To(
		Equal("a\tb\n" + `\x1b[31m\x0d\x00\x7f\x9b` + "ä" + `\xff` + "\ufffd€"))
}

func TestAnOutputThatIsNoTerminalIsPassedOnAsItIs(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	lines := command.NewOutput(&out, "standard output").Lines()
	_, err := lines.Write([]byte("\x1b[31mred\n\xff\x00"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lines.Close()).To(Succeed())
	g.Expect(lines.Close()).To(Succeed())
	g.Expect(out.String()).To(Equal("\x1b[31mred\n\xff\x00\n"))
}

func TestALineIsPassedOnWhenItHasEnded(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	o := command.NewOutput(&out, "standard output")
	a, b := o.Lines(), o.Lines()
	for _, part := range []struct {
		to   *command.Lines
		text string
	}{{a, "a"}, {b, "b\nb"}, {a, "a\na"}, {b, "\n"}} {
		_, err := part.to.Write([]byte(part.text))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(a.Close()).To(Succeed())
	g.Expect(b.Close()).To(Succeed())
	g.Expect(out.String()).To(Equal("b\naa\nb\na\n"))
}

func TestALineWithoutAnEndIsPassedOn(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	lines := command.NewOutput(&out, "standard output").Lines()
	for range 100 {
		_, err := lines.Write(bytes.Repeat([]byte("x"), 1000))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(out.Len()).To(BeNumerically(">", 64<<10))
	g.Expect(lines.Close()).To(Succeed())
	g.Expect(out.String()).To(Equal(strings.Repeat("x", 100_000) + "\n"))

	out.Reset()
	lines = command.NewOutput(&out, "standard output").Lines()
	_, err := lines.Write(bytes.Repeat([]byte("x"), 70_000)) // passed on whole
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(lines.Close()).To(Succeed())
	g.Expect(lines.Close()).To(Succeed())
	g.Expect(out.String()).To(Equal(strings.Repeat("x", 70_000) + "\n"))
}

func TestEnvironment(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("SECRET_TOKEN", "s")
	t.Setenv("ZONE", "z")
	g.Expect(command.Environment(nil)).To(ContainElements("SECRET_TOKEN=s", "ZONE=z", "PATH="+os.Getenv("PATH")))
	declared := command.Environment([]string{"ZONE", "MODE=fast", "UNSET_VARIABLE"})
	g.Expect(declared).To(ContainElements("ZONE=z", "MODE=fast", "PATH="+os.Getenv("PATH")))
	g.Expect(slices.Contains(declared, "SECRET_TOKEN=s")).To(BeFalse())
	g.Expect(declared).NotTo(ContainElement(HavePrefix("UNSET_VARIABLE")))
}
