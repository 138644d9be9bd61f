package patch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat/homeostat/internal/ownwrites"
)

const (
	defaultFieldManager = "homeostat"
	maxFieldManager     = 128     // bytes, as the server has it
	maxBytes            = 3 << 20 // of a patch that a server reads
	status              = "status"
)

// Options says how an edit is written. Nil and the zero value are the defaults.
type Options struct {
	// Lock refuses the write if anything has changed the object since it was read,
	// by its resourceVersion. Without it a patch wins over such changes. That it is
	// the same object, by its UID, is a condition of every write.
	Lock bool
	// Subresource is written instead of the object itself: "status", "scale" and so on.
	Subresource string
	// FieldManager is the name that the server records for the change, of at most 128
	// bytes. Defaults to the name of the controller whose reconcile this is, elsewhere
	// to "homeostat".
	FieldManager string
	// DryRun lets the server check the write and answer it without storing it.
	DryRun bool
	// Propagation is what [Delete] does to the objects that the deleted one owns.
	// Defaults to the server's policy for the kind.
	Propagation metav1.DeletionPropagation
	// NoForce lets the server refuse what [Applier.Apply] asks of fields that others own.
	NoForce bool
}

func (o *Options) withDefaults(ctx context.Context) Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.FieldManager = cmp.Or(out.FieldManager, ownwrites.FieldManager(ctx), defaultFieldManager)
	return out
}

func (o *Options) validate() error {
	var faults []error
	if len(o.FieldManager) > maxFieldManager {
		faults = append(faults, fmt.Errorf("field FieldManager: %d bytes, at most %d", len(o.FieldManager), maxFieldManager))
	}
	if !printable(o.FieldManager) {
		faults = append(faults, fmt.Errorf("field FieldManager: %q has characters that cannot be printed", o.FieldManager))
	}
	for _, r := range o.Subresource {
		if r == '/' || !unicode.IsPrint(r) {
			faults = append(faults, fmt.Errorf("field Subresource: %q is not one path segment", o.Subresource))
			break
		}
	}
	return errors.Join(faults...)
}

func printable(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func (o *Options) dryRun() []string {
	if o.DryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

func (o *Options) subresources() []string {
	if o.Subresource == "" {
		return nil
	}
	return []string{o.Subresource}
}
