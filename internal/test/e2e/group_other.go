//go:build !unix

package e2e

import "syscall"

// attributes returns nil on systems without process groups.
func attributes() *syscall.SysProcAttr { return nil }
