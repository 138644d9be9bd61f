//go:build !unix

package roll

import "syscall"

// attributes leaves a child in its parent's process group.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
