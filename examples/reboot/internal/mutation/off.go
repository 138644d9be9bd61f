//go:build !mutate

package mutation

// Has tells whether m is switched on: never.
func Has(Mutation) bool { return false }
