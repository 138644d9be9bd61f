package known

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/homeostat/homeostat/names"
)

const (
	// defaultMaxNames is the default of Format.MaxNames.
	defaultMaxNames = 1_000_000
	// maxLine is the longest line in bytes. It has room for a namespace (63), a
	// name (253), a UID (36) and much white space.
	maxLine = 1024
)

// A Format describes lines of names. Its zero value means namespace/name.
type Format struct {
	// ClusterScoped is true if the names have no namespace. Then every line
	// with a namespace is invalid. Otherwise every line without a namespace is
	// invalid.
	ClusterScoped bool
	// MaxNames limits the number of lines. More lines are an error. Defaults to
	// a million.
	MaxNames int
}

// uid matches every UID that an API server generates (RFC 9562).
var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Parse reads names, one per line. A line is namespace/name, or name for a
// cluster-scoped format, optionally followed by blanks or tabs and the UID.
// Parse ignores blank lines, white space around the columns, and CR before a
// line's end. The last line may end without LF.
//
// It returns an error for any other line (with the line's number), for too many
// lines, and for errors of r. It never returns names together with an error,
// because a caller that took an incomplete list for a complete one would treat
// existing objects as deleted.
func Parse(r io.Reader, f Format) ([]names.Name, error) {
	limit := cmp.Or(max(f.MaxNames, 0), defaultMaxNames)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var parsed []names.Name
	number := 0
	for lines.Scan() {
		if number++; number > limit {
			return nil, fmt.Errorf("line %d: there are more than %d lines", number, limit)
		}
		columns := strings.FieldsFunc(lines.Text(), isBlank) // the scanner has dropped the CR before LF
		if len(columns) == 0 {
			continue
		}
		name, err := parseLine(columns, f.ClusterScoped)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		parsed = append(parsed, name)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	return parsed, nil
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' }

func parseLine(columns []string, clusterScoped bool) (names.Name, error) {
	key, err := parseKey(columns[0], clusterScoped)
	if err != nil {
		return names.Name{}, err
	}
	switch len(columns) {
	case 1:
		return names.Name{Key: key}, nil
	case 2:
		lower := strings.ToLower(columns[1])
		if !uid.MatchString(lower) {
			return names.Name{}, fmt.Errorf("second column %q: must be a UID, such as %s", columns[1],
				"f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
		}
		return names.Name{Key: key, UID: types.UID(lower)}, nil
	default:
		return names.Name{}, fmt.Errorf("%d columns: must be the name and, optionally, its UID", len(columns))
	}
}

func parseKey(column string, clusterScoped bool) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(column, "/")
	switch {
	case clusterScoped && found:
		return types.NamespacedName{}, fmt.Errorf("name %q: must not have a namespace", column)
	case clusterScoped:
		namespace, name = "", column
	case !found:
		return types.NamespacedName{}, fmt.Errorf("name %q: must be namespace/name", column)
	default:
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return types.NamespacedName{}, fmt.Errorf("namespace of %q: %s", column, strings.Join(problems, "; "))
		}
	}
	if fault := faultOf(name); fault != "" {
		return types.NamespacedName{}, fmt.Errorf("name of %q: %s", column, fault)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// faultOf returns why name cannot be the name of an object, or the empty
// string. It rejects names that no API server accepts for any kind, and names
// that are not printable ASCII.
func faultOf(name string) string {
	switch {
	case name == "":
		return "must not be empty"
	case len(name) > validation.DNS1123SubdomainMaxLength:
		return fmt.Sprintf("must have at most %d bytes", validation.DNS1123SubdomainMaxLength)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "must be printable ASCII"
	}
	return strings.Join(content.IsPathSegmentName(name), "; ")
}
