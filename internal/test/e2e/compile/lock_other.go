//go:build !unix

package compile

import "os"

// tryLock does not lock. On these systems, only one process at a time may
// build.
func tryLock(*os.File) error { return nil }
