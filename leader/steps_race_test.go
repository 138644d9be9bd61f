//go:build race

package leader_test

const (
	steps     = 100_000 // of random shards
	schedules = 10      // of random electors
	zombieRun = 5       // of work that outlives its leadership
)
