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
	// defaultMaxNames is the limit of the zero [Format].
	defaultMaxNames = 1_000_000
	// maxLine is the longest line in bytes: a namespace (63), a name (253), a
	// UID (36) and much white space.
	maxLine = 1024
)

// A Format describes lines of names. Its zero value means namespace/name.
type Format struct {
	// ClusterScoped means that a line holds a name without a namespace. A name of
	// the other form is malformed.
	ClusterScoped bool
	// MaxNames bounds the number of lines: more are an error. Defaults to a
	// million.
	MaxNames int
}

// uid is the form of every UID that an API server gives out (RFC 9562).
var uid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Parse reads names, one per line: namespace/name, or name alone if the format
// says so, then optionally blanks or tabs and the UID. Blank lines, white space
// around the columns and CR before a line's end are ignored, and the last
// line may end without LF.
//
// Errors: any other line (with its number), too many lines, and the errors of r.
// There are no names then: an invalid line may be the name of a live object.
func Parse(r io.Reader, f Format) ([]names.Name, error) {
	limit := cmp.Or(max(f.MaxNames, 0), defaultMaxNames)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var all []names.Name
	number := 0
	for lines.Scan() {
		if number++; number > limit {
			return nil, fmt.Errorf("line %d: more lines than MaxNames (%d)", number, limit)
		}
		columns := strings.FieldsFunc(lines.Text(), isBlank) // the scanner has dropped the CR before LF
		if len(columns) == 0 {
			continue
		}
		name, err := parseLine(columns, f.ClusterScoped)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		all = append(all, name)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return nil, fmt.Errorf("after line %d: %w", number, err)
	}
	return all, nil
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
		if why := validation.IsDNS1123Label(namespace); len(why) > 0 {
			return types.NamespacedName{}, fmt.Errorf("namespace of %q: %s", column, strings.Join(why, "; "))
		}
	}
	if why := faultOf(name); why != "" {
		return types.NamespacedName{}, fmt.Errorf("name of %q: %s", column, why)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

// faultOf returns the fault of an object's name: one that no API server accepts
// for any kind, or that is not printable ASCII.
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
