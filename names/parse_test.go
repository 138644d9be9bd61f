package names_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/names"
)

var _ = Describe("Parse", func() {
	long := strings.Repeat("x", 254)

	DescribeTable("understands",
		func(text string, f *names.Format, expected ...names.Name) {
			all, err := names.Parse(strings.NewReader(text), f)
			Expect(err).NotTo(HaveOccurred())
			Expect(slices.Equal(all, expected)).To(BeTrue(), "%+v", all)
		},
		Entry("nothing", "", nil),
		Entry("blank lines", "\n \n\t\r\n\r\n", nil),
		Entry("one name per line", "default/a\ndefault/b\n", nil, known("default/a", ""), known("default/b", "")),
		Entry("the last line without LF", "default/a\ndefault/b", nil, known("default/a", ""), known("default/b", "")),
		Entry("CR and white space around", "\tdefault/a \r\n", nil, known("default/a", "")),
		Entry("duplicates, as they are", "default/a\ndefault/a\n", nil, known("default/a", ""), known("default/a", "")),
		Entry("UIDs of some", "default/a\t"+string(uid1)+"\ndefault/b\n", nil,
			known("default/a", uid1), known("default/b", "")),
		Entry("UIDs in capitals", "default/a  ABCDEFAB-1111-1111-1111-111111111111\n", nil,
			known("default/a", "abcdefab-1111-1111-1111-111111111111")),
		Entry("names that are no DNS names", "default/system:a_B\n", nil, known("default/system:a_B", "")),
		Entry("cluster-scoped names", "a\nb "+string(uid2)+"\n", &names.Format{ClusterScoped: true},
			names.Name{Key: key("/a")}, names.Name{Key: key("/b"), UID: uid2}),
	)

	DescribeTable("has no names at all, but a reason, for",
		func(text string, f *names.Format, reason string) {
			all, err := names.Parse(strings.NewReader("default/first\n"+text), f)
			if f != nil && f.ClusterScoped {
				all, err = names.Parse(strings.NewReader("first\n"+text), f)
			}
			Expect(err).To(MatchError(And(ContainSubstring("line 2: "), ContainSubstring(reason))))
			Expect(all).To(BeNil())
		},
		Entry("a name without its namespace", "a\n", nil, `"a": must be namespace/name`),
		Entry("an empty name", "default/\n", nil, "must not be empty"),
		Entry("an empty namespace", "/a\n", nil, `namespace of "/a"`),
		Entry("a bad namespace", "Default/a\n", nil, "lowercase"),
		Entry("two slashes", "default/a/b\n", nil, "may not contain '/'"),
		Entry("a namespace where there is none", "default/a\n", &names.Format{ClusterScoped: true},
			"must not have a namespace"),
		Entry("dots", "default/..\n", nil, "may not be '..'"),
		Entry("NUL", "default/a\x00\n", nil, "printable ASCII"),
		Entry("CR within", "default/a\rdefault/b\n", nil, "printable ASCII"),
		Entry("bytes that are no text", "default/\xff\n", nil, "printable ASCII"),
		Entry("a long name", "default/"+long+"\n", nil, "at most 253"),
		Entry("a long line", "default/a "+strings.Repeat(" ", 1024)+"\n", nil, "longer than 1024"),
		Entry("an address as second column", "default/a 10.0.0.1\n", nil, "must be a UID"),
		Entry("a torn UID", "default/a 11111111-1111-1111-1111-1111\n", nil, "must be a UID"),
		Entry("a third column", "default/a "+string(uid1)+" x\n", nil, "3 columns"),
		Entry("a message", "error: no such zone\n", nil, "must be namespace/name"),
		Entry("too many", "\n", &names.Format{MaxNames: 1}, "MaxNames (1)"),
	)

	It("returns the reader's error and no names", func() {
		broken := errors.New("broken pipe")
		all, err := names.Parse(iotest.ErrReader(broken), nil)
		Expect(err).To(MatchError(broken))
		Expect(all).To(BeNil())
	})
})

// FuzzParse checks that whatever is understood is what was written: every name
// stands in the text as a whole line, and every line that is not blank is a
// name. So no text can make a name up.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "default/a\n", "default/a\r\n\r\n default/b\t" + string(uid1), "a/b/c",
		"default/a 10.0.0.1", "a", "\x00", "a/b\rc/d",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, clusterScoped bool) {
		all, err := names.Parse(strings.NewReader(text), &names.Format{ClusterScoped: clusterScoped, MaxNames: 1000})
		if err != nil {
			if all != nil {
				t.Fatalf("names %v beside the error %v", all, err)
			}
			return
		}
		var lines []string
		for line := range strings.SplitSeq(text, "\n") {
			if columns := strings.Fields(line); len(columns) > 0 {
				lines = append(lines, strings.Join(columns, " "))
			}
		}
		if len(lines) != len(all) {
			t.Fatalf("%d names of %d lines in %q", len(all), len(lines), text)
		}
		for i, name := range all {
			line := name.Key.Name
			if !clusterScoped {
				line = name.Key.String()
			}
			column, uid, _ := strings.Cut(lines[i], " ")
			if column != line || !strings.EqualFold(uid, string(name.UID)) {
				t.Fatalf("line %q became %+v", lines[i], name)
			}
		}
	})
}
