//go:build !unix

package machine

import (
	"errors"
	"syscall"
)

func kill(int, syscall.Signal) error { return errors.ErrUnsupported }
