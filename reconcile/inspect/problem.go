package inspect

import (
	"cmp"

	"github.com/homeostat/homeostat/informer"
)

// Problem is something that one member of a program cannot do, although the
// others go on. See [informer.Problem] for how to report one.
type Problem = informer.Problem

// Problems returns those of the controllers and of their informers, each with the
// name of its check. It never waits for either. C is *reconcile.Controller.
func Problems[C interface {
	Informers() []InformerStatus
	Problems() []Problem
}](controllers ...C) []Problem {
	var all []Problem
	for _, i := range Informers(controllers...) {
		for _, p := range i.Problems {
			p.Check = cmp.Or(p.Check, "informer/"+i.Name)
			all = append(all, p)
		}
	}
	for _, c := range controllers {
		all = append(all, c.Problems()...)
	}
	return all
}
