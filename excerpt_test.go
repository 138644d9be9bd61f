package homeostat_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the marked snippets of the documents")

// make generate copies each snippet that names a part of a file from that file
// again. A snippet may also name a text file.
func TestRewriteSnippets(t *testing.T) {
	if !*rewrite {
		t.Skip("make generate rewrites the documents; a test run only checks them")
	}
	for _, p := range pages(t) {
		lines := strings.Split(read(t, p.path), "\n")
		for _, s := range slices.Backward(p.snippets) { // so that line numbers stay
			file, names, named := strings.Cut(s.source, "#")
			if s.source == "" || !named && !whole(file) {
				continue
			}
			want, err := excerpt(file, read(t, file), names)
			if err != nil {
				t.Errorf("%s:%d: %v", p.path, s.line, err)
				continue
			}
			var code []string
			for line := range strings.Lines(want) {
				code = append(code, strings.TrimRight(s.indent+line, " \n"))
			}
			end := s.line - 1 + strings.Count(s.code, "\n")
			lines = append(lines[:s.line-1], append(code, lines[end:]...)...)
		}
		if text := strings.Join(lines, "\n"); text != read(t, p.path) {
			if err := os.WriteFile(p.path, []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}

// whole reports whether a snippet of a file is all of it: of a text that is
// made from measurements, such as docs/benchmarks/costs.txt.
func whole(file string) bool { return strings.HasSuffix(file, ".txt") }

// excerpt returns the parts of a file that names, separated by commas, name: a
// region in any file, and in a Go file a declaration with its comment, or the
// body of an Example. Of a text file it returns all.
func excerpt(file, text, names string) (string, error) {
	if whole(file) {
		return text, nil
	}
	var parts []string
	for name := range strings.SplitSeq(names, ",") {
		part, ok := region(text, name)
		if !ok && strings.HasSuffix(file, ".go") {
			var err error
			if part, ok, err = declaration(file, text, name); err != nil {
				return "", err
			}
		}
		if !ok {
			return "", fmt.Errorf("%s has neither a declaration nor a region %s (// region %[2]s … // endregion)", file, name)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n"), nil
}

// region returns the lines between "// region name" or "# region name" and the
// next endregion.
func region(text, name string) (string, bool) {
	begin := regexp.MustCompile(`(?m)^[ \t]*(//|#) region ` + regexp.QuoteMeta(name) + `\n`).FindStringIndex(text)
	if begin == nil {
		return "", false
	}
	end := regexp.MustCompile(`(?m)^[ \t]*(//|#) endregion$`).FindStringIndex(text[begin[1]:])
	if end == nil {
		return "", false
	}
	return dedent(strings.Split(strings.Trim(text[begin[1]:begin[1]+end[0]], "\n"), "\n")), true
}

func declaration(file, text, name string) (string, bool, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", false, fmt.Errorf("reading declarations: %w", err)
	}
	at := func(p token.Pos) int { return set.Position(p).Offset }
	for _, d := range parsed.Decls {
		begin, end := at(d.Pos()), at(d.End())
		switch d := d.(type) {
		case *ast.FuncDecl:
			if functionName(d) != name {
				continue
			}
			if strings.HasPrefix(name, "Example") {
				body := text[at(d.Body.Lbrace)+1 : at(d.Body.Rbrace)] // with its output
				return dedent(strings.Split(strings.Trim(body, "\n"), "\n")), true, nil
			}
			if d.Doc != nil {
				begin = at(d.Doc.Pos())
			}
		case *ast.GenDecl:
			if len(d.Specs) == 0 || !declares(d.Specs[0], name) {
				continue
			}
			if d.Doc != nil {
				begin = at(d.Doc.Pos())
			}
		}
		return text[begin:end] + "\n", true, nil
	}
	return "", false, nil
}

// functionName returns F, or T.M for a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if ident, ok := receiver.(*ast.Ident); ok {
		return ident.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

func declares(s ast.Spec, name string) bool {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.Name == name
	case *ast.ValueSpec:
		return s.Names[0].Name == name
	}
	return false
}

// dedent takes the indentation of the first line from all lines.
func dedent(lines []string) string {
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], "\t "))]
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimPrefix(line, indent) + "\n")
	}
	return text.String()
}
