//go:build race

package shard_test

const steps = 100_000 // of random shards
