package inspect

import (
	"cmp"

	"github.com/homeostat/homeostat/informer"
)

// Problem describes something that one part of a program cannot do while the
// other parts continue. See [informer.Problem] for how to report one.
type Problem = informer.Problem

// Problems returns the problems of the controllers and of their informers. Each
// problem has the name of its check. Problems never waits for a controller or
// an informer. C is *reconcile.Controller.
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
