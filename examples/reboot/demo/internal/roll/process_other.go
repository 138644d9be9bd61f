//go:build !unix

package roll

import "syscall"

// attributes leaves a child in the group of its parent.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
