//go:build !unix

package e2e

import "syscall"

// attributes leaves the server in the group of the tests.
func attributes() *syscall.SysProcAttr { return nil }
