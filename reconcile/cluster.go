package reconcile

import (
	"errors"
	"fmt"
	"reflect"
)

// oneCluster names every trigger without an informer, and every one whose
// informer reads from another server than the controller's own. Informers that
// do not know their server, as those of fakes, are not compared.
func oneCluster(own source, triggers []Trigger) error {
	var faults []error
	for i, t := range triggers {
		if t == nil {
			continue // reported elsewhere
		}
		if e, ok := t.(external); ok {
			if err := e.validate(); err != nil {
				faults = append(faults, fmt.Errorf("Options.Triggers[%d]: %w", i, err))
			}
			continue
		}
		s := t.source()
		if isNil(s) {
			faults = append(faults, fmt.Errorf("Options.Triggers[%d] has no informer: make one with informer.For", i))
			continue
		}
		if isNil(own) {
			continue
		}
		if here, there := own.Status().Server, s.Status().Server; here != there && here != "" && there != "" {
			faults = append(faults, fmt.Errorf(
				"Options.Triggers[%d]: the informer of %s reads from %s, that of the controller's own %s from %s: "+
					"versions of two clusters cannot be compared; give the other cluster a controller of its own, "+
					"which writes what it finds into an object of this one",
				i, s.Name(), there, own.Name(), here))
		}
	}
	return errors.Join(faults...)
}

func isNil(s source) bool { return reflect.ValueOf(s.identity()).IsNil() }
