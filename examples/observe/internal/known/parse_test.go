package known_test

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/homeostat/homeostat/examples/observe/internal/known"
	"github.com/homeostat/homeostat/names"
)

const (
	uid1 types.UID = "11111111-1111-1111-1111-111111111111"
	uid2 types.UID = "22222222-2222-2222-2222-222222222222"
)

// name is namespace/name, or a name alone.
func name(text string, uid types.UID) names.Name {
	namespace, name, found := strings.Cut(text, "/")
	if !found {
		namespace, name = "", text
	}
	return names.Name{Key: types.NamespacedName{Namespace: namespace, Name: name}, UID: uid}
}

func TestParseUnderstands(t *testing.T) {
	for what, c := range map[string]struct {
		text string
		f    known.Format
		want []names.Name
	}{
		"nothing":                   {"", known.Format{}, nil},
		"blank lines":               {"\n \n\t\r\n\r\n", known.Format{}, nil},
		"one name per line":         {"default/a\ndefault/b\n", known.Format{}, []names.Name{name("default/a", ""), name("default/b", "")}},
		"the last line without LF":  {"default/a\ndefault/b", known.Format{}, []names.Name{name("default/a", ""), name("default/b", "")}},
		"CR and white space around": {"\tdefault/a \r\n", known.Format{}, []names.Name{name("default/a", "")}},
		"duplicates, as they are":   {"default/a\ndefault/a\n", known.Format{}, []names.Name{name("default/a", ""), name("default/a", "")}},
		"UIDs of some": {
			"default/a\t" + string(uid1) + "\ndefault/b\n",
			known.Format{},
			[]names.Name{name("default/a", uid1), name("default/b", "")},
		},
		"UIDs in capitals": {
			"default/a  ABCDEFAB-1111-1111-1111-111111111111\n",
			known.Format{},
			[]names.Name{name("default/a", "abcdefab-1111-1111-1111-111111111111")},
		},
		"names that are no DNS names": {"default/system:a_B\n", known.Format{}, []names.Name{name("default/system:a_B", "")}},
		"cluster-scoped names": {
			"a\nb " + string(uid2) + "\n",
			known.Format{ClusterScoped: true},
			[]names.Name{name("a", ""), name("b", uid2)},
		},
	} {
		t.Run(what, func(t *testing.T) {
			NewWithT(t).Expect(known.Parse(strings.NewReader(c.text), c.f)).To(Equal(c.want))
		})
	}
}

func TestParseHasNoNamesButAReason(t *testing.T) {
	scoped, long := known.Format{ClusterScoped: true}, strings.Repeat("x", 254)
	for what, c := range map[string]struct {
		text string
		f    known.Format
		says string
	}{
		"a name without its namespace":    {"a\n", known.Format{}, `"a": must be namespace/name`},
		"an empty name":                   {"default/\n", known.Format{}, "must not be empty"},
		"an empty namespace":              {"/a\n", known.Format{}, `namespace of "/a"`},
		"a bad namespace":                 {"Default/a\n", known.Format{}, "lowercase"},
		"two slashes":                     {"default/a/b\n", known.Format{}, "may not contain '/'"},
		"a namespace where there is none": {"default/a\n", scoped, "must not have a namespace"},
		"dots":                            {"default/..\n", known.Format{}, "may not be '..'"},
		"NUL":                             {"default/a\x00\n", known.Format{}, "printable ASCII"},
		"CR within":                       {"default/a\rdefault/b\n", known.Format{}, "printable ASCII"},
		"bytes that are no text":          {"default/\xff\n", known.Format{}, "printable ASCII"},
		"a long name":                     {"default/" + long + "\n", known.Format{}, "at most 253"},
		"a long line":                     {"default/a " + strings.Repeat(" ", 1024) + "\n", known.Format{}, "longer than 1024"},
		"an address as second column":     {"default/a 10.0.0.1\n", known.Format{}, "must be a UID"},
		"a torn UID":                      {"default/a 11111111-1111-1111-1111-1111\n", known.Format{}, "must be a UID"},
		"a third column":                  {"default/a " + string(uid1) + " x\n", known.Format{}, "3 columns"},
		"a message":                       {"error: no such zone\n", known.Format{}, "must be namespace/name"},
		"too many":                        {"\n", known.Format{MaxNames: 1}, "more than 1 lines"},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			first := "default/first\n"
			if c.f.ClusterScoped {
				first = "first\n"
			}
			all, err := known.Parse(strings.NewReader(first+c.text), c.f)
			g.Expect(err).To(MatchError(And(ContainSubstring("line 2: "), ContainSubstring(c.says))))
			g.Expect(all).To(BeNil())
		})
	}
}

func TestParseReturnsTheReadersErrorAndNoNames(t *testing.T) {
	g := NewWithT(t)
	broken := errors.New("broken pipe")
	all, err := known.Parse(iotest.ErrReader(broken), known.Format{})
	g.Expect(err).To(MatchError(broken))
	g.Expect(all).To(BeNil())
}

// FuzzParse checks that every name is in the text as a whole line, and every
// line that is not blank is a name. So no text can make up a name.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "default/a\n", "default/a\r\n\r\n default/b\t" + string(uid1), "a/b/c",
		"default/a 10.0.0.1", "a", "\x00", "a/b\rc/d",
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, clusterScoped bool) {
		all, err := known.Parse(strings.NewReader(text), known.Format{ClusterScoped: clusterScoped, MaxNames: 1000})
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
