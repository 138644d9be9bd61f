package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// finder collects the mutation sites of a file.
type finder struct {
	fset      *token.FileSet
	path      string
	source    []byte
	enclosing string
	fn        *ast.FuncDecl
	found     []*site
	zeros     map[string]bool // variables of the function that are always zero
}

// swaps maps operators to their replacements.
var swaps = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
	token.ADD: "-", token.SUB: "+", token.INC: "--", token.DEC: "++",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=",
}

// literals maps constants to their replacements.
var literals = map[string]string{"0": "1", "1": "0", "true": "false", "false": "true"}

// function finds the sites in a function's body. It calls itself for a function
// literal in the body, because a return statement in the literal returns the
// results of the literal and not of the outer function.
func (f *finder) function(typ *ast.FuncType, body ast.Node) {
	f.zeros = zerosOf(body)
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.function(n.Type, n.Body)
			f.zeros = zerosOf(body)
			return false
		case *ast.ReturnStmt:
			f.results(typ, n)
		case ast.Stmt:
			f.statement(n)
		case ast.Expr:
			f.expression(n)
		}
		return true
	})
}

func (f *finder) statement(n ast.Stmt) {
	switch n := n.(type) {
	case *ast.IfStmt:
		f.negate(n.Cond)
		if n.Else != nil {
			f.replace(n.Body.End(), n.Else.End(), "")
		}
	case *ast.SwitchStmt:
		for _, c := range n.Body.List {
			if n.Tag == nil {
				f.negate(c.(*ast.CaseClause).List...)
			}
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && !logs(call) {
			f.replace(n.Pos(), n.End(), "", f.blank(call.Args))
		}
	case *ast.DeferStmt:
		f.replace(n.Pos(), n.End(), "", f.blank(n.Call.Args))
	case *ast.BranchStmt:
		if n.Tok == token.CONTINUE || n.Tok == token.BREAK {
			f.replace(n.Pos(), n.End(), "")
		}
	case *ast.IncDecStmt:
		f.replace(n.TokPos, n.End(), swaps[n.Tok])
	case *ast.AssignStmt:
		f.assignment(n)
	}
}

// assignment adds a mutation that removes an assignment to a field, an element
// or the target of a pointer. The mutant still computes the value. It also adds
// a mutation that swaps the operators += and -=.
func (f *finder) assignment(n *ast.AssignStmt) {
	if swapped, ok := swaps[n.Tok]; ok {
		f.replace(n.TokPos, n.TokPos+token.Pos(len(swapped)), swapped)
	}
	local := func(e ast.Expr) bool { _, ok := e.(*ast.Ident); return ok }
	if n.Tok != token.DEFINE && !slices.ContainsFunc(n.Lhs, local) {
		f.replace(n.Pos(), n.End(), f.blank(n.Rhs), "")
	}
}

func (f *finder) expression(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if swapped, ok := swaps[n.Op]; ok && !isText(n.X) && !isText(n.Y) {
			f.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), swapped)
		}
	case *ast.BasicLit:
		f.literal(n, n.Value)
	case *ast.Ident:
		f.literal(n, n.Name)
	}
}

func (f *finder) literal(n ast.Expr, text string) {
	if swapped, ok := literals[text]; ok {
		f.replace(n.Pos(), n.End(), swapped)
	}
}

// results adds mutations that make a returned value zero, one for each value.
// It skips values that are obviously zero, and literals such as true, which
// have another mutation. If one call returns several values, it adds a single
// mutation that makes all of them zero.
func (f *finder) results(typ *ast.FuncType, n *ast.ReturnStmt) {
	var types []string
	if typ.Results != nil {
		for _, field := range typ.Results.List {
			for range max(1, len(field.Names)) {
				types = append(types, f.text(field.Type))
			}
		}
	}
	if len(n.Results) == 1 && len(types) > 1 {
		f.replace(n.Results[0].Pos(), n.Results[0].End(), "*new("+strings.Join(types, "), *new(")+")")
		return
	}
	for i, result := range n.Results {
		text := f.text(result)
		zero := f.zeros[text] || text == "nil" || text == `""` || strings.HasSuffix(text, "{}")
		if literals[text] == "" && !zero {
			f.replace(result.Pos(), result.End(), "*new("+types[i]+")")
		}
	}
}

// zerosOf returns the names of the variables in body that are always zero,
// because they are declared without a value and only returned.
func zerosOf(body ast.Node) map[string]bool {
	uses, declared := map[string]int{}, map[string]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			uses[n.Name]++
		case *ast.ReturnStmt:
			for _, result := range n.Results {
				if id, ok := result.(*ast.Ident); ok {
					uses[id.Name]--
				}
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				declared[name.Name] = n.Values == nil
			}
		}
		return true
	})
	for name := range declared {
		if uses[name] > 1 {
			delete(declared, name)
		}
	}
	return declared
}

// negate adds one mutation for each condition, which negates it. It skips
// comparisons by == or !=, which have their own mutation.
func (f *finder) negate(conditions ...ast.Expr) {
	for _, c := range conditions {
		if b, ok := c.(*ast.BinaryExpr); !ok || b.Op != token.EQL && b.Op != token.NEQ {
			f.replace(c.Pos(), c.End(), "!("+f.text(c)+")")
		}
	}
}

// blank returns a statement that evaluates the expressions and discards their
// values.
func (f *finder) blank(list []ast.Expr) string {
	var left, right []string
	for _, e := range list {
		left, right = append(left, "_"), append(right, f.text(e))
	}
	if len(list) == 0 {
		return ""
	}
	return strings.Join(left, ", ") + " = " + strings.Join(right, ", ")
}

func (f *finder) replace(begin, limit token.Pos, texts ...string) {
	start, end := f.fset.Position(begin), f.fset.Position(limit)
	f.found = append(f.found, &site{
		file: f.path, line: start.Line, enclosing: f.enclosing, fn: f.fn, start: start.Offset, end: end.Offset,
		texts: slices.Compact(texts), source: f.source,
	})
}

func (f *finder) text(n ast.Node) string {
	return string(f.source[f.fset.Position(n.Pos()).Offset:f.fset.Position(n.End()).Offset])
}

func isText(e ast.Expr) bool {
	literal, ok := e.(*ast.BasicLit)
	return ok && literal.Kind == token.STRING
}

// logs reports whether a call writes to a log. Tests need not detect mutations
// of such a call.
func logs(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Info" && method.Sel.Name != "Error" {
		return false
	}
	receiver := method.X
	for {
		switch r := receiver.(type) {
		case *ast.CallExpr:
			receiver = r.Fun
		case *ast.SelectorExpr:
			if strings.HasPrefix(strings.ToLower(r.Sel.Name), "log") {
				return true
			}
			receiver = r.X
		case *ast.Ident:
			return strings.HasPrefix(strings.ToLower(r.Name), "log") || r.Name == "klog"
		default:
			return false
		}
	}
}
