// Package argorollouts explores the Experiment controller of Argo Rollouts,
// unmodified: the version with a bug in go.mod, the one with its fix in
// fixed.mod. The tests are the same for both:
//
//	go test .
//	go test -modfile=fixed.mod -tags fixed .
package argorollouts
