// Command site makes a static web site from the Markdown documents of this
// repository.
//
//	go run . -root ../../.. -out ../../../bin/site
package main

import (
	"bytes"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// source is the prefix of links to files that are not documents.
const source = "https://github.com/homeostat/homeostat/blob/main/"

var (
	//go:embed page.html
	layout string
	//go:embed page.css
	style string
)

func main() {
	root := flag.String("root", ".", "the `folder` of the repository")
	out := flag.String("out", "bin/site", "the `folder` to write")
	flag.Parse()
	if err := build(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// document is one Markdown file and the page made of it.
type document struct {
	Path  string // the path of the file from the root, with slashes
	Title string
	Body  template.HTML
}

// URL returns the path of the page below the site's root.
func (d document) URL() string {
	folder, file := path.Split(d.Path)
	if file == "README.md" {
		return folder + "index.html"
	}
	return strings.TrimSuffix(d.Path, ".md") + ".html"
}

// build writes a page for each document of the repository, and copies the
// pictures. It returns an error if a file cannot be read or written.
func build(root, out string) error {
	paths, pictures, err := documents(root)
	if err != nil {
		return err
	}
	page, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range paths {
		d, err := read(root, p, paths)
		if err != nil {
			errs = append(errs, fmt.Errorf("building the page of %s: %w", p, err))
			continue
		}
		root := strings.Repeat("../", strings.Count(d.URL(), "/"))
		var b bytes.Buffer
		err = page.Execute(&b, map[string]any{
			"Title": d.Title, "Body": d.Body, "Up": root, "Style": template.CSS(style), "Edit": source + d.Path,
			"Guide": strings.HasPrefix(p, "docs/") && strings.Count(p, "/") == 1,
		})
		if err != nil {
			return err
		}
		file := filepath.Join(out, filepath.FromSlash(d.URL()))
		errs = append(errs, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o644))
	}
	for _, p := range pictures {
		content, err := os.ReadFile(filepath.Join(root, p))
		file := filepath.Join(out, filepath.FromSlash(p))
		errs = append(errs, err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
	}
	return errors.Join(errs...)
}

// documents returns the paths of the documents and their pictures, from the
// root.
func documents(root string) (pages, pictures []string, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".github", "bin", "internal", "testdata"}, entry.Name()) {
			return fs.SkipDir
		}
		switch path.Ext(p) {
		case ".md":
			pages = append(pages, p)
		case ".svg":
			pictures = append(pictures, p)
		}
		return nil
	})
	return pages, pictures, err
}

// read returns the document of the file p. pages are the paths of all
// documents, for links between them.
func read(root, p string, pages []string) (document, error) {
	content, err := os.ReadFile(filepath.Join(root, p))
	if err != nil {
		return document{}, err
	}
	md := goldmark.New(
		goldmark.WithExtensions(extension.GFM),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // the documents are our own
	)
	tree := md.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(&anchors{}))))
	d := document{Path: p, Title: path.Base(p)}
	err = ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && n.Level == 1 {
				d.Title = string(n.Lines().Value(content))
			}
		case *ast.Link:
			if entering {
				n.Destination = []byte(target(p, string(n.Destination), pages))
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return d, err
	}
	var b bytes.Buffer
	if err := md.Renderer().Render(&b, content, tree); err != nil {
		return d, err
	}
	wide := strings.NewReplacer("<table>", `<div class="wide"><table>`, "</table>", "</table></div>")
	d.Body = template.HTML(wide.Replace(b.String()))
	return d, nil
}

// target returns the address of a link in the document at p. It is the address
// of a page, if the link names one of pages, or of a source file. Links with a
// scheme and links to an anchor of the same document stay as they are.
func target(p, link string, pages []string) string {
	if strings.Contains(link, ":") || strings.HasPrefix(link, "#") {
		return link
	}
	file, anchor, _ := strings.Cut(link, "#")
	file = path.Join(path.Dir(p), file)
	if readme := path.Join(file, "README.md"); slices.Contains(pages, readme) {
		file = readme
	}
	if anchor != "" {
		anchor = "#" + anchor
	}
	if !slices.Contains(pages, file) {
		return source + file + anchor
	}
	return strings.Repeat("../", strings.Count(p, "/")) + document{Path: file}.URL() + anchor
}

// anchors makes the identifiers of headings as GitHub does, because links must
// work in both places.
type anchors struct{ seen map[string]int }

var dropped = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)

// Generate returns the identifier of a heading.
func (a *anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(string(value), "$1")
	slug := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	if a.seen == nil {
		a.seen = map[string]int{}
	}
	n := a.seen[slug]
	a.seen[slug]++
	if n > 0 {
		return fmt.Appendf(nil, "%s-%d", slug, n)
	}
	return []byte(slug)
}

// Put has no effect. goldmark calls it for an identifier that a heading already
// has.
func (a *anchors) Put([]byte) {}
