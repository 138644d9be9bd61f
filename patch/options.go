package patch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/homeostat/homeostat/internal/option"
	"github.com/homeostat/homeostat/internal/ownwrites"
)

const (
	defaultFieldManager = "homeostat"
	maxFieldManager     = 128     // in bytes; the server has the same limit
	maxBytes            = 3 << 20 // the largest patch that a server reads
	status              = "status"
)

// Options configures a write. Nil and zero fields mean the defaults.
type Options struct {
	// Lock makes the server refuse the write if the object's resourceVersion
	// has changed since the object was read. Without it, a patch overwrites the
	// fields that it sets, even if they have changed. [Merge] and [Status] say
	// which patches are locked in any case. With or without Lock, a write never
	// changes a recreated object.
	Lock bool
	// Subresource is the subresource to write, such as "status" or "scale".
	// Defaults to the object itself.
	Subresource string
	// FieldManager is the name that the server records for the change. It has
	// at most 128 bytes. In a reconcile of package reconcile it defaults to
	// reconcile.Options.FieldManager, which is the controller's name unless it is
	// set, and otherwise to "homeostat".
	FieldManager string
	// DryRun makes the server validate and answer the write without storing it.
	// The write is not reported to the reconcile.
	DryRun bool
	// Propagation decides, for [Delete], what happens to the objects that the
	// deleted one owns. Defaults to deleting them afterwards (Background), as
	// kubectl does. This also holds for a Job: without a policy, the API server
	// would delete the Job and let its Pods run. If the object has the finalizer
	// "orphan" or "foregroundDeletion", that decides.
	Propagation metav1.DeletionPropagation
	// TakeOver lists field managers whose updates an [Applier] takes over
	// before it applies. Fields that they have set and that the configuration
	// does not have are then removed. Without TakeOver such fields stay, owned
	// by the update. Name the managers that wrote the object before the program
	// applied it, such as the controller itself with [Ensure], or the default
	// manager of controller-runtime. Finalizers and owner references stay with
	// these managers. So do fields that were set in a different version of the
	// kind. Taking over costs one more request, once for each object, and a GET
	// if the cached object has no managed fields. Defaults to no managers.
	TakeOver []string
	// Adopt lets [Ensure] write an object that another owner controls, and
	// change its controller. Without it such an object is a [ForeignError].
	Adopt bool
	// NoForce makes the server refuse an [Applier.Apply] that would take fields
	// from other field managers.
	NoForce bool
}

func (o *Options) withDefaults(ctx context.Context) Options {
	filled := ptr.Deref(o, Options{})
	filled.FieldManager = cmp.Or(filled.FieldManager, ownwrites.FieldManager(ctx), defaultFieldManager)
	return filled
}

func (o *Options) validate() error {
	check := option.Of("patch.Options")
	if len(o.FieldManager) > maxFieldManager {
		check.Wrong("FieldManager", o.FieldManager, "must have at most %d bytes", maxFieldManager)
	}
	if strings.ContainsFunc(o.FieldManager, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) {
		check.Wrong("FieldManager", o.FieldManager, "must be printable")
	}
	if strings.ContainsFunc(o.Subresource, func(r rune) bool { return r == '/' || !unicode.IsPrint(r) }) {
		check.Wrong("Subresource", o.Subresource, "must be one path segment")
	}
	if slices.Contains(o.TakeOver, "") {
		check.Wrong("TakeOver", o.TakeOver, "must not contain an empty name")
	}
	return check.Err()
}

// validateApply returns the mistakes in the options of an apply, joined.
func (o *Options) validateApply() error {
	check := option.Of("patch.Options")
	if o.Lock {
		check.Wrong("Lock", true, "must not be set: put the resourceVersion into the configuration instead")
	}
	if o.Subresource != "" && o.Subresource != status {
		check.Wrong("Subresource", o.Subresource, "must be empty or %q to apply", status)
	}
	return errors.Join(o.validate(), check.Err())
}

// validateDelete returns the mistakes in the options of a deletion, joined.
func (o *Options) validateDelete() error {
	check := option.Of("patch.Options")
	if o.Subresource != "" {
		check.Wrong("Subresource", o.Subresource, "must be empty, because Delete deletes the whole object")
	}
	return errors.Join(o.validate(), check.Err())
}

// lockIf returns o with Lock set, if needed is true and cached has a
// resourceVersion. Otherwise it returns o unchanged. Objects of a real server
// always have a resourceVersion, but objects of fakes may lack it.
func lockIf(o Options, cached metav1.Object, needed bool) Options {
	o.Lock = o.Lock || needed && cached.GetResourceVersion() != ""
	return o
}

func (o *Options) dryRun() []string {
	if o.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}
