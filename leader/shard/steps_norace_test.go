//go:build !race

package shard_test

const steps = 1_000_000 // of random shards
