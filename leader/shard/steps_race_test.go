//go:build race

package shard_test

const defaultSteps = 50_000 // of random shards
