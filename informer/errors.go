package informer

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// errNoBookmark makes the reflector list plainly instead of streaming.
var errNoBookmark = errors.New("the server has not sent the bookmark that ends a streaming list")

// A MutationError says that somebody has edited a cached object in place.
type MutationError struct {
	Kind   string
	Key    types.NamespacedName
	Fields []string // paths such as "metadata.labels.app", at most ten
}

// Error names the object and the fields, and what to do instead.
func (e *MutationError) Error() string {
	return fmt.Sprintf("the cached %s %q was edited in place (%s): edit a DeepCopy, or through package patch",
		e.Kind, strings.TrimPrefix(e.Key.String(), "/"), strings.Join(e.Fields, ", "))
}
