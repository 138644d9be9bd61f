package children

import (
	"cmp"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/patch"
)

const (
	defaultMaxCount = 10
	defaultMaxShare = 0.5
	defaultParallel = 10
)

var (
	// ErrLimit means that the safety limit refused to delete children. If it is
	// the only error, it is terminal: there is no retry until the owner or a
	// child changes.
	ErrLimit = errors.New("the safety limit refuses to delete the children")
	// ErrForeign means that an object with the name of a wanted child belongs
	// to another owner, or has no owner. The error is a [patch.ForeignError],
	// which names the object and its owner.
	ErrForeign = patch.ErrForeign
)

// Options configures a [Set]. Nil and zero fields mean the defaults.
type Options struct {
	// ByLabel connects children with their owner by labels with the owner's
	// kind, name and UID, and by an annotation with its key, instead of an
	// owner reference. A namespaced owner can then have children in other
	// namespaces and cluster-scoped children. The garbage collector does not
	// delete them; [Set.DeleteOrphans] does, even if the owner was deleted with
	// the request to orphan its children (kubectl delete --cascade=orphan).
	ByLabel bool
	// Origin names the cluster that has the owners, if the children are in a
	// different cluster. Each child gets it as the label
	// homeostat.dev/owner-origin, and children of owners with a different
	// Origin, or without one, are neither adopted nor deleted. For example, if
	// two management clusters keep objects in the same workload cluster, each
	// of them needs an Origin of its own: its API server does not have the
	// owners of the other cluster, and would say of all of them that they do
	// not exist. Let the informer select the label as well; otherwise
	// reconcile.Owned also adds the keys of the owners of other clusters.
	// Origin must be empty without ByLabel. Defaults to owners in the cluster
	// of the children.
	Origin string
	// Parallel is the maximum number of requests that one call has under way.
	// In one call of Ensure, the calls of Child.Edit do not overlap. Defaults
	// to 10.
	Parallel int
	// MaxCount and MaxShare are the safety limit for deletions. If more than
	// MaxCount children of an owner are no longer wanted, and they are more
	// than MaxShare of its children, none of them is deleted, and the error is
	// [ErrLimit]. The deletions are allowed nevertheless if the owner's spec
	// has changed since this Set last saw the owner with exactly the wanted
	// children, or if the owner has the [ConfirmAnnotation]. Defaults to 10.
	MaxCount int
	// MaxShare is the share above which deletions are refused; see MaxCount. It
	// is a share of the children that the owner had before the call or, after a
	// refusal, before the call that was first refused. For example, of 40
	// children one call may delete 20, but not 21. So a mistake that renames
	// all of the 40 does not delete the old ones. A share of 1 switches the
	// limit off. Defaults to 0.5.
	MaxShare float64
	// MaxRecreate is how many children of an owner one call may delete because
	// an edit changes a field that the server does not let change, such as the
	// selector of a Deployment. The next reconcile creates them again. Children
	// that are still being deleted because of a finalizer count as well. For
	// each further child, Ensure sends the other changes and returns an error
	// that names the fields. It does the same for a child that was created
	// again and still does not have the wanted values, for example because an
	// admission webhook changes them: the child is not deleted again for these
	// values, until it has had them, or a person has deleted it. A restart of
	// the program forgets this. Defaults to 0.
	MaxRecreate int
	// Mark is a set of labels that each child gets. They identify a child that
	// has lost its owner: an object without an owner is adopted if it has these
	// labels and the name of a wanted child. Defaults to no labels. An object
	// without an owner that has the name of a wanted child is then refused with
	// [ErrForeign].
	Mark map[string]string
	// Adopt reports whether an object without an owner that has the name of a
	// wanted child becomes a child. It is called for objects that do not have
	// the labels of Mark. The object is shared; do not modify it. Defaults to
	// adopting no such object.
	Adopt func(object metav1.Object) bool
}

func (o *Options) withDefaults() Options {
	set := ptr.Deref(o, Options{})
	set.Parallel = cmp.Or(set.Parallel, defaultParallel)
	set.MaxCount = cmp.Or(set.MaxCount, defaultMaxCount)
	set.MaxShare = cmp.Or(set.MaxShare, defaultMaxShare)
	return set
}

func (o Options) validate() error {
	check := option.Of("children.Options")
	check.That(o.Parallel > 0, "Parallel", o.Parallel, option.Negative)
	check.That(o.MaxCount >= 0, "MaxCount", o.MaxCount, option.Negative)
	check.That(o.MaxRecreate >= 0, "MaxRecreate", o.MaxRecreate, option.Negative)
	isShare := o.MaxShare > 0 && o.MaxShare <= 1 // NaN is neither
	check.That(isShare, "MaxShare", o.MaxShare, "must be more than 0 and at most 1")
	check.That(o.Origin == "" || o.ByLabel, "Origin", o.Origin, "must be empty without ByLabel")
	problems := validation.IsValidLabelValue(o.Origin)
	check.That(len(problems) == 0, "Origin", o.Origin, "must be the value of a label: %s", strings.Join(problems, ", "))
	_, err := labels.ValidatedSelectorFromSet(o.Mark)
	check.That(err == nil, "Mark", o.Mark, "must be labels: %w", err)
	return check.Err()
}

// adopts reports whether Ensure may adopt an object that has no owner.
func (o Options) adopts(object metav1.Object) bool {
	return len(o.Mark) > 0 && labels.SelectorFromSet(o.Mark).Matches(labels.Set(object.GetLabels())) ||
		o.Adopt != nil && o.Adopt(object)
}
