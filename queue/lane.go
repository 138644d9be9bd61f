package queue

import "fmt"

// A Lane says how urgent a key is. A higher lane goes first, but not
// forever: while a key waits in a lower lane, one of 8 dispatches in a row comes
// from Retrying, and one of 16 from Background.
type Lane uint8

// The lanes, the most urgent first.
const (
	// Live is for what changes now.
	Live Lane = iota
	// Retrying is for keys that come back by themselves: after a failure, or
	// because their turn asked to look again later.
	Retrying
	// Background is for what can wait: the first list, resyncs, sweeps.
	Background

	lanes = 3
)

// How long a lower lane can be passed over, whatever arrives in higher lanes.
const (
	// retryingShare bounds the ageing of lane Retrying: while a key waits there,
	// at least one of retryingShare consecutive dispatches comes from it.
	retryingShare = 8
	// backgroundShare is the same for lane Background.
	backgroundShare = 16
)

// String returns the name of the lane in lower case.
func (l Lane) String() string {
	switch l {
	case Live:
		return "live"
	case Retrying:
		return "retrying"
	case Background:
		return "background"
	default:
		return fmt.Sprintf("lane(%d)", uint8(l))
	}
}
