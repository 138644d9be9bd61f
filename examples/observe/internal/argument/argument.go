// Package argument makes the arguments of a program from an object. Each
// template makes one argument:
//
//	list, err := argument.Parse("jsonpath", []string{"{.spec.clusterIP}"}, false)
//	arguments, err := list.Of(object)
package argument

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"
)

// maxSize is the size limit of an argument in bytes. The kernel has the same
// limit.
const maxSize = 128 << 10

var errTooLong = fmt.Errorf("the argument is longer than %d bytes: give the object to the command with --stdin",
	maxSize)

// A Format is a template language, such as jsonpath.
type Format string

// These are the formats. Names that end with -file are for templates in files.
const (
	JSONPath       Format = "jsonpath"
	JSONPathAsJSON Format = "jsonpath-as-json" // all results, as a JSON array
	GoTemplate     Format = "go-template"
)

// Formats returns the values of --output that select a format, without the
// older names that [Parse] accepts, too.
func Formats() []string {
	return []string{"jsonpath", "jsonpath-as-json", "go-template", "jsonpath-file", "go-template-file"}
}

// List is a list of templates, each of which makes one argument. It is safe for
// concurrent use.
type List []execute

type execute func(output *limited, object map[string]any) error

// Parse parses templates. The format is one of [Formats], or one of the older
// names gotemplate, template and templatefile. strict determines what happens
// if an object lacks a field that a template uses. If strict is true, List.Of
// returns an error for such an object. Otherwise the field is empty in the
// argument. An index beyond the end of a list is an error in either case.
func Parse(format string, texts []string, strict bool) (List, error) {
	language, inFile, err := parseFormat(format)
	if err != nil {
		return nil, err
	}
	list := make(List, len(texts))
	for i, text := range texts {
		if inFile {
			content, err := os.ReadFile(text)
			if err != nil {
				return nil, fmt.Errorf("reading a template file: %w", err)
			}
			text = strings.TrimSuffix(string(content), "\n")
		}
		if list[i], err = parseOne(language, text, strict); err != nil {
			return nil, fmt.Errorf("template %q: %w", text, err)
		}
	}
	return list, nil
}

func parseFormat(name string) (language Format, inFile bool, err error) {
	switch name {
	case "jsonpath", "jsonpath-file":
		return JSONPath, name == "jsonpath-file", nil
	case "jsonpath-as-json":
		return JSONPathAsJSON, false, nil
	case "go-template", "gotemplate", "template":
		return GoTemplate, false, nil
	case "go-template-file", "templatefile":
		return GoTemplate, true, nil
	default:
		return "", false, fmt.Errorf("%q is not a template format: must be one of %s", name,
			strings.Join(Formats(), ", "))
	}
}

func parseOne(language Format, text string, strict bool) (execute, error) {
	if language == GoTemplate {
		return parseGo(text, strict)
	}
	if _, err := jsonpath.Parse("template", text); err != nil {
		return nil, err
	}
	return func(output *limited, object map[string]any) error {
		path := jsonpath.New("template").AllowMissingKeys(!strict) // a JSONPath holds the state of one execution
		path.EnableJSONOutput(language == JSONPathAsJSON)
		if err := path.Parse(text); err != nil {
			return err
		}
		return path.Execute(output, object)
	}, nil
}

// parseGo parses a template. If strict is true, executing the template fails if
// a key is missing. Otherwise a missing key is empty in the output, and not
// "<no value>".
func parseGo(text string, strict bool) (execute, error) {
	missing := "missingkey=default"
	if strict {
		missing = "missingkey=error"
	}
	parsed, err := template.New("template").Option(missing).Funcs(template.FuncMap{shownAs: shown}).Parse(text)
	if err != nil {
		return nil, err
	}
	for _, t := range parsed.Templates() {
		showAll(t.Root)
	}
	return func(output *limited, object map[string]any) error { return parsed.Execute(output, object) }, nil
}

// Of returns the arguments for an object, which must be decoded from its JSON.
// If a template cannot be executed, or if its output contains a NUL, the error
// has the number of the template.
func (l List) Of(object map[string]any) ([]string, error) {
	arguments := make([]string, len(l))
	for i, run := range l {
		var output limited
		if err := run(&output, object); err != nil {
			return nil, fmt.Errorf("template %d of %d: %w", i+1, len(l), err)
		}
		if strings.ContainsRune(output.buffer.String(), 0) {
			return nil, fmt.Errorf("template %d of %d: %w", i+1, len(l), errors.New("the argument contains a NUL"))
		}
		arguments[i] = output.buffer.String()
	}
	return arguments, nil
}

// limited is a buffer that holds at most maxSize bytes, because a template can
// produce endless output.
type limited struct{ buffer bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.buffer.Len()+len(p) > maxSize {
		return 0, errTooLong
	}
	return l.buffer.Write(p)
}
