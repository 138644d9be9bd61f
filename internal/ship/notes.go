package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// notes prints the section of CHANGELOG.md about a version, or the unreleased one while that is missing.
func notes(s settings, out io.Writer) error {
	text, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section := ""
	for _, name := range []string{strings.TrimPrefix(s.tag, "v"), "Unreleased"} {
		if section = sectionOf(string(text), name); section != "" {
			break
		}
	}
	if section == "" {
		return fmt.Errorf("finding the notes of %s: CHANGELOG.md has no section about it, and none for unreleased changes",
			s.tag)
	}
	_, err = fmt.Fprintf(out, "# %s\n\n%s\n", s.tag, section)
	return err
}

// sectionOf returns the text between the heading "## [name]" and the next one.
func sectionOf(text, name string) string {
	var section strings.Builder
	within := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			within = strings.HasPrefix(line, "## ["+name+"]")
			continue
		}
		if within {
			section.WriteString(line)
		}
	}
	return strings.TrimSpace(section.String())
}
