//go:build !race

package leader_test

const (
	schedules = 60 // of random electors
	zombieRun = 30 // of work that outlives its leadership
)
