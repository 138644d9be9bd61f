package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// site is a place in a file that can be mutated: the bytes from start to end
// are replaced by the first of texts that compiles.
type site struct {
	file       string
	line       int
	enclosing  string // The function around the site, such as Queue.Add.
	nth        int    // The number of the site among the sites of the function with the same text, from 1.
	fn         *ast.FuncDecl
	start, end int
	texts      []string
	source     []byte
}

// key returns a name for the site that is made of its content, not of its
// position. So mutants and the reasons in the list of equivalents stay the same
// if lines are moved.
func (s *site) key() string {
	original, mutant := s.lines(s.texts[0])
	place := s.enclosing
	if s.nth > 1 {
		place = fmt.Sprintf("%s #%d", s.enclosing, s.nth)
	}
	return fmt.Sprintf("in %s\n- %s\n%s\n", place, original, strings.TrimSpace("+ "+mutant))
}

// lines returns the lines around the site, without the mutation and with it,
// each joined to one line. text is the replacement.
func (s *site) lines(text string) (original, mutant string) {
	first := bytes.LastIndexByte(s.source[:s.start], '\n') + 1
	last := len(s.source)
	if i := bytes.IndexByte(s.source[s.end:], '\n'); i >= 0 {
		last = s.end + i
	}
	join := func(parts ...string) string { return strings.Join(strings.Fields(strings.Join(parts, "")), " ") }
	return join(string(s.source[first:last])), join(string(s.source[first:s.start]), text, string(s.source[s.end:last]))
}

// mutated returns the file with the i-th text at the site.
func (s *site) mutated(i int) []byte {
	return slices.Concat(s.source[:s.start], []byte(s.texts[i]), s.source[s.end:])
}

// order returns the text by which draw sorts the site for a seed. It does not
// depend on other sites.
func (s *site) order(seed uint64) string {
	sum := sha256.Sum256(fmt.Append(nil, seed, "\n", s.key()))
	return string(sum[:])
}

// sitesOf returns the sites of a file in the order of the source.
func sitesOf(path string, source []byte) ([]*site, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", path, err)
	}
	f := &finder{fset: fset, path: path, source: source}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
			f.enclosing, f.fn = nameOf(fn), fn
			f.function(fn.Type, fn.Body)
		}
	}
	seen := map[string]int{}
	for _, s := range f.found {
		k := s.key()
		seen[k]++
		s.nth = seen[k]
	}
	return f.found, nil
}

func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	return fmt.Sprintf("%s.%s", receiver, fn.Name.Name)
}

// draw returns the sites in a random order, which seed determines.
func draw(sites []*site, seed uint64) []*site {
	drawn := slices.Clone(sites)
	slices.SortStableFunc(drawn, func(a, b *site) int { return strings.Compare(a.order(seed), b.order(seed)) })
	return drawn
}
