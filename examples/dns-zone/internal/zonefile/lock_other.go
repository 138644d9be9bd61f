//go:build !unix

package zonefile

import "errors"

func lock(string) (unlock func(), err error) {
	return nil, errors.New("file locks are supported only on Unix systems")
}
