//go:build !race

package model_test

const (
	defaultSteps  = 100_000
	defaultWorlds = 5
)
