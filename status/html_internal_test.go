package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestWhatIsAddedToThePageIsEscaped(t *testing.T) {
	for hostile, escaped := range map[string]string{
		`<script>alert("x")</script>`: "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;",
		`" onmouseover="alert(1)`:     "&#34; onmouseover=&#34;alert(1)",
		`' onmouseover='alert(1)`:     "&#39; onmouseover=&#39;alert(1)",
		"&lt;":                        "&amp;lt;",
		"</style><b>":                 "&lt;/style&gt;&lt;b&gt;",
		"100%s %d %!":                 "100%s %d %!",
		"not \xff UTF-8":              "not \uFFFD UTF-8",
	} {
		g := NewWithT(t)
		var m markup
		m.add(`<p title="%s">%s</p>`, hostile, hostile)
		m.cell("label", hostile)
		m.badge("good", hostile)
		m.fact(hostile, hostile)
		m.causes([]causeReport{{Trigger: hostile, Name: hostile}})
		for _, raw := range []string{"<script", "<b>", `" on`, "' on", "\xff"} {
			g.Expect(m.buf.String()).NotTo(ContainSubstring(raw))
		}
		g.Expect(m.buf.String()).To(HavePrefix(`<p title="` + escaped + `">` + escaped + `</p>`))
	}
}

// Only constants of the source convert to literal implicitly.
func TestOnlyTheSourceIsAddedUnescaped(t *testing.T) {
	g := NewWithT(t)
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0) //nolint:staticcheck // no types are needed
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(unquoted.FindString(`<a title="%s" href=%s>`)).NotTo(BeEmpty(), "the rule itself works")
	formats := 0
	for name, file := range packages["status"].Files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if to, ok := call.Fun.(*ast.Ident); ok {
				g.Expect(to.Name).NotTo(Equal("literal"), "%s converts to a literal", name)
			}
			if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "add" && len(call.Args) > 0 {
				formats++
				g.Expect(unquoted.FindString(sourceOf(call.Args[0]))).To(BeEmpty(), "%s: an attribute needs quotes", name)
			}
			return true
		})
	}
	g.Expect(formats).To(BeNumerically(">", 20))
}

// unquoted matches a verb in a tag that is not in a quoted attribute.
var unquoted = regexp.MustCompile(`<[^<>"]*(?:"[^"]*"[^<>"]*)*%[^%]`)

func sourceOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return sourceOf(e.X) + sourceOf(e.Y)
	case *ast.BasicLit:
		return strings.NewReplacer("\\\"", "\"", "`", "", "\\n", "\n").Replace(strings.Trim(e.Value, `"`))
	default:
		return ""
	}
}
