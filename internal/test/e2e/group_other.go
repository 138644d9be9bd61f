//go:build !unix

package e2e

import "syscall"

// attributes leaves the server in the process group of the tests.
func attributes() *syscall.SysProcAttr { return nil }
