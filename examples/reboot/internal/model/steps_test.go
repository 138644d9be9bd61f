//go:build !race

package model_test

const (
	defaultSteps  = 40_000 // make check takes 100,000 steps and five worlds
	defaultWorlds = 2
)
