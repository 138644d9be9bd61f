package children

import (
	"cmp"
	"errors"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
)

const (
	defaultMaxCount = 10
	defaultMaxShare = 0.5
)

// ErrLimit means that the safety limit refused to delete. It is terminal: nothing is
// retried until the owner or a child changes.
var ErrLimit = errors.New("safety limit")

// Options of a [Set]. Nil and zero fields mean the defaults.
type Options struct {
	// MaxCount is one half of the safety limit: nothing is deleted if more than MaxCount
	// children of an owner, and more than MaxShare of them, are no longer wanted.
	// Defaults to 10.
	MaxCount int
	// MaxShare is the other half of the safety limit, as a share of the children that
	// the owner had before the call. For example, renaming all children would delete all
	// of them. A share of 1 switches the limit off. Defaults to 0.5.
	MaxShare float64
	// MaxRecreate is how many children of an owner one call deletes because an edit
	// changes a field that the server does not let change, such as the selector of a
	// Deployment. The next reconcile creates them again. Beyond it, and by default, such a
	// child is an error that names the fields, and its other changes are sent. Defaults
	// to 0.
	MaxRecreate int
	// Mark is the set of labels that each child gets. They identify a child that has
	// lost its owner reference: an object with these labels, the name of a wanted child
	// and no controller is adopted. Defaults to none: such an object is an error.
	Mark map[string]string
}

func (o *Options) withDefaults() Options {
	set := ptr.Deref(o, Options{})
	set.MaxCount = cmp.Or(set.MaxCount, defaultMaxCount)
	set.MaxShare = cmp.Or(set.MaxShare, defaultMaxShare)
	return set
}

func (o Options) validate() error {
	check := option.Of("children.Options")
	check.That(o.MaxCount >= 0, "MaxCount", o.MaxCount, option.Negative)
	check.That(o.MaxRecreate >= 0, "MaxRecreate", o.MaxRecreate, option.Negative)
	isShare := o.MaxShare > 0 && o.MaxShare <= 1 // NaN is neither
	check.That(isShare, "MaxShare", o.MaxShare, "must be more than 0 and at most 1")
	_, err := labels.ValidatedSelectorFromSet(o.Mark)
	check.That(err == nil, "Mark", o.Mark, "must be labels: %w", err)
	return check.Err()
}
