//go:build race

package zoo_test

func init() { raced, toFind = true, 6*toFind }
