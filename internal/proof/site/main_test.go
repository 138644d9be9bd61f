package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link and picture of every page leads to a page and a heading, or a
// file, of the site, to a file of the repository, or elsewhere.
func TestLinksOfTheSiteLeadSomewhere(t *testing.T) {
	const root = "../../.."
	out := t.TempDir()
	if err := build(root, out); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	err := fs.WalkDir(os.DirFS(out), ".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(out, p))
		pages[p] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`<(?:a (?:class="name" )?href|img src)="([^"]*)"`)
	checked := 0
	for p, text := range pages {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(match[1], "#")
			if repository, ok := strings.CutPrefix(file, source); ok {
				if _, err := os.Stat(filepath.Join(root, repository)); err != nil {
					t.Errorf("%s: %v", p, err)
				}
				continue
			}
			if strings.Contains(file, ":") {
				continue
			}
			checked++
			at := path.Join(path.Dir(p), file)
			if file == "" {
				at = p
			}
			to, ok := pages[at]
			if !ok {
				t.Errorf("%s links to %s, which is no page", p, match[1])
			} else if anchor != "" && !strings.Contains(to, `id="`+anchor+`"`) {
				t.Errorf("%s links to %s, which has no such heading", p, match[1])
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d links: the test does not find them", checked)
	}
}
