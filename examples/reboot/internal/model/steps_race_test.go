//go:build race

package model_test

// Under the race detector each step takes ten times as long.
const (
	defaultSteps  = 5_000
	defaultWorlds = 1
)
