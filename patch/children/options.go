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
	// MaxShare is the other half of the safety limit, as a share of the owner's
	// children. A share of 1 switches the limit off. Defaults to 0.5.
	MaxShare float64
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
	isShare := o.MaxShare > 0 && o.MaxShare <= 1 // NaN is neither
	check.That(isShare, "MaxShare", o.MaxShare, "must be more than 0 and at most 1")
	_, err := labels.ValidatedSelectorFromSet(o.Mark)
	check.That(err == nil, "Mark", o.Mark, "must be labels: %w", err)
	return check.Err()
}
