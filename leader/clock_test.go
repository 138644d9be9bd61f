package leader_test

import (
	"time"

	"k8s.io/utils/clock"
)

// wrongClock is off by an offset and runs at another speed than the bubble's.
type wrongClock struct {
	clock.RealClock
	start  time.Time
	offset time.Duration
	speed  float64
}

func (c wrongClock) Now() time.Time {
	return c.start.Add(c.offset + time.Duration(float64(time.Since(c.start))*c.speed))
}

func (c wrongClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c wrongClock) NewTimer(d time.Duration) clock.Timer {
	return c.RealClock.NewTimer(time.Duration(float64(d)/c.speed) + time.Nanosecond) // never early
}
