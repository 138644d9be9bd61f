//go:build race

package leader_test

const (
	schedules = 10 // of random electors
	zombieRun = 5  // of work that outlives its leadership
)
