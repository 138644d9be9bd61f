//go:build !race

package leader_test

const (
	steps     = 1_000_000 // of random shards
	schedules = 60        // of random electors
	zombieRun = 30        // of work that outlives its leadership
)
