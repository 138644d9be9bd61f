//go:build race

package zoo_test

func init() { raced = true }
