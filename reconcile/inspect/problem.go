package inspect

import (
	"cmp"

	"github.com/homeostat/homeostat/informer"
	"github.com/homeostat/homeostat/internal/parts"
)

// Problem describes something that one part of a program cannot do at present,
// while the other parts continue. See [informer.Problem] for how to report one.
type Problem = informer.Problem

// Problems returns the problems of the controllers and of their informers. The
// Check of each problem is the name that its source has set, such as
// "controller/nodes". If an informer has not set it, it is "informer/" and the
// name of the informer. Problems never waits for a controller or an informer. C
// is *reconcile.Controller.
func Problems[C interface {
	Informers() []InformerStatus
	Problems() []Problem
}](controllers ...C) []Problem {
	var problems []Problem
	for _, i := range Informers(controllers...) {
		for _, p := range i.Problems {
			p.Check = cmp.Or(p.Check, parts.InformerCheck(i.Name))
			problems = append(problems, p)
		}
	}
	for _, c := range controllers {
		problems = append(problems, c.Problems()...)
	}
	return problems
}
