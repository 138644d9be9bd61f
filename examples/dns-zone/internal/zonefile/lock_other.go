//go:build !unix

package zonefile

import (
	"context"
	"errors"
)

func lock(context.Context, string) (unlock func(), err error) {
	return nil, errors.New("file locks are supported only on Unix systems")
}
