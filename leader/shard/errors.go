package shard

import (
	"errors"

	"github.com/homeostat/homeostat/leader/internal/record"
)

var (
	// ErrMoved is the cause with which the context of a slot ends when the slot
	// is assigned to another replica. It is owned until the function returns.
	ErrMoved error = record.Draining("the slot moves to another replica")
	// ErrConfig means that this replica's Options.Slots or Options.By differ
	// from those of the other replicas.
	ErrConfig = errors.New("the replicas divide the keys differently")
)
