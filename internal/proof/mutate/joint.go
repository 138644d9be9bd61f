package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/homeostat/homeostat/internal/test/overlay"
)

// numberVariable is the environment variable that chooses the mutant of a test
// program, by its number. 0 means no mutant.
const numberVariable = "MUTANT"

// variableTemplate is the template of a Go file that reads the environment
// variable numberVariable into the variable mutant. Its parameter is the
// package's name.
const variableTemplate = `package %s

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + numberVariable + `"))
`

// mutant is a site with one of its replacement texts.
type mutant struct {
	*site
	number int // The number of the mutant, from 1.
	text   int // The index of the site's text.
}

// overlay returns an overlay in which the mutant's file has only this mutation.
func (m *mutant) overlay() overlay.Files { return overlay.Files{m.file: m.mutated(m.text)} }

// copyOf is a mutant's copy of its function in a joint file.
type copyOf struct {
	*mutant
	first, last int // The first and the last line of the copy in the joint file.
}

// joint returns a file that contains several mutants of itself. Each mutant is
// a copy of a function. The function calls that copy, instead of running its
// own body, if the environment variable has the mutant's number.
func joint(mutants []*mutant) ([]byte, []copyOf) {
	source := mutants[0].source
	byFunction := map[*ast.FuncDecl][]*mutant{}
	for _, m := range mutants {
		byFunction[m.fn] = append(byFunction[m.fn], m)
	}
	byPlace := func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) }
	var file, tail bytes.Buffer
	var copies []copyOf
	written := token.Pos(1)
	for _, fn := range slices.SortedFunc(maps.Keys(byFunction), byPlace) {
		head := headOf(fn, source)
		file.Write(source[written-1 : fn.Pos()-1])
		_, _ = fmt.Fprintf(&file, "%s { switch mutant { ", head.signature(fn.Name.Name))
		written = fn.Body.Lbrace + 1
		for _, m := range byFunction[fn] {
			name := fmt.Sprintf("mutant%d%s", m.number, fn.Name)
			_, _ = fmt.Fprintf(&file, "case %d: %s; ", m.number, head.call(name))
			first := bytes.Count(tail.Bytes(), []byte("\n")) + 1
			_, _ = fmt.Fprintf(&tail, "%s %s%s%s\n", head.signature(name),
				source[fn.Body.Pos()-1:m.start], m.texts[m.text], source[m.end:fn.Body.End()-1])
			copies = append(copies, copyOf{m, first, bytes.Count(tail.Bytes(), []byte("\n"))})
		}
		file.WriteString("}; ")
	}
	file.Write(source[written-1:])
	file.WriteString("\n")
	lineCount := bytes.Count(file.Bytes(), []byte("\n"))
	for i := range copies {
		copies[i].first += lineCount
		copies[i].last += lineCount
	}
	return slices.Concat(file.Bytes(), tail.Bytes()), copies
}

// head contains the parts of a function's signature, in which each parameter
// has a name, and the parts of a call with these names as arguments.
type head struct{ receiver, types, parameters, results, target, typeArguments, arguments string }

func headOf(fn *ast.FuncDecl, source []byte) *head {
	h := &head{}
	if fn.Recv != nil {
		list, name := named(fn.Recv, "mutantOf", source)
		h.receiver, h.target = "("+list+") ", name+"."
	}
	if fn.Type.TypeParams != nil {
		list, names := named(fn.Type.TypeParams, "MutantType", source)
		h.types, h.typeArguments = "["+list+"]", "["+names+"]"
	}
	h.parameters, h.arguments = named(fn.Type.Params, "mutantParameter", source)
	if fn.Type.Results != nil {
		h.results = textOf(fn.Type.Results, source)
	}
	return h
}

func (h *head) signature(name string) string {
	return fmt.Sprintf("func %s%s%s(%s) %s", h.receiver, name, h.types, h.parameters, h.results)
}

// call returns a statement that returns the results of the function with this
// name.
func (h *head) call(name string) string {
	call := fmt.Sprintf("%s%s%s(%s)", h.target, name, h.typeArguments, h.arguments)
	if h.results == "" {
		return call + "; return"
	}
	return "return " + call
}

// named returns a list of parameters in which each has a name, and the list of
// these names as the arguments of a call. It makes names that begin with
// unnamed for parameters without a name.
func named(list *ast.FieldList, unnamed string, source []byte) (parameters, arguments string) {
	var declared, names []string
	for _, field := range list.List {
		ids := field.Names
		if ids == nil {
			ids = []*ast.Ident{{Name: "_"}}
		}
		for _, id := range ids {
			name := id.Name
			if name == "_" {
				name = unnamed + strconv.Itoa(len(names))
			}
			declared = append(declared, name+" "+textOf(field.Type, source))
			if _, ok := field.Type.(*ast.Ellipsis); ok {
				name += "..."
			}
			names = append(names, name)
		}
	}
	return strings.Join(declared, ", "), strings.Join(names, ", ")
}

// textOf returns the source of a node of a file that was parsed alone, so that
// positions are offsets from 1.
func textOf(n ast.Node, source []byte) string { return string(source[n.Pos()-1 : n.End()-1]) }

// broken matches the places of the compiler's errors. Paths may belong to the
// overlay, whose file names begin with a number.
var broken = regexp.MustCompile(`(?m)^(?:\S*/)?(?:\d+_)?(\S+\.go):(\d+):`)

// compile builds the tests of the package with the wanted number of mutants, in
// the order of the draw. A mutant that does not compile gets the next text of
// its site. After the last text, the next site replaces it.
func (t *trial) compile(ctx context.Context, drawn []*site) (files overlay.Files, program string, err error) {
	for numbers := 1; ; {
		for ; len(t.mutants) < t.options.mutants && len(drawn) > 0; numbers++ {
			t.mutants = append(t.mutants, &mutant{site: drawn[0], number: numbers})
			drawn = drawn[1:]
		}
		var copies map[string][]copyOf
		files, copies = t.joint()
		// With -e the compiler reports all errors, and not only the first ten.
		program, err = overlay.Build(ctx, t.temp, t.pkg.Dir, files, "-gcflags=-e")
		if !errors.Is(err, overlay.ErrBuild) {
			return files, program, err
		}
		bad := blamed(err.Error(), copies)
		if len(bad) == 0 {
			return nil, "", err
		}
		t.mutants = slices.DeleteFunc(t.mutants, func(m *mutant) bool {
			if bad[m] {
				m.text++
			}
			return m.text == len(m.texts)
		})
	}
}

// blamed returns the mutants in which a compiler found errors.
func blamed(errs string, copies map[string][]copyOf) map[*mutant]bool {
	bad := map[*mutant]bool{}
	for _, m := range broken.FindAllStringSubmatch(errs, -1) {
		line, _ := strconv.Atoi(m[2])
		for _, c := range copies[m[1]] {
			if c.first <= line && line <= c.last {
				bad[c.mutant] = true
			}
		}
	}
	return bad
}

// joint returns the files of the package with all mutants, and the copies in
// each file by its name.
func (t *trial) joint() (overlay.Files, map[string][]copyOf) {
	files := overlay.Files{filepath.Join(t.pkg.Dir, "mutant_number.go"): fmt.Appendf(nil, variableTemplate, t.pkg.Name)}
	byFile, copies := map[string][]*mutant{}, map[string][]copyOf{}
	for _, m := range t.mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for path, mutants := range byFile {
		files[path], copies[filepath.Base(path)] = joint(mutants)
	}
	return files, copies
}
