//go:build !unix

package roll

import "syscall"

// attributes returns the attributes of a child in its parent's process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
