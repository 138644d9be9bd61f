//go:build !race

package shard_test

const defaultSteps = 300_000 // of random shards
