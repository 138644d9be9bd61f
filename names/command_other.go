//go:build !unix

package names

import "os/exec"

// killWithDescendants leaves the default: the command alone is killed.
func killWithDescendants(*exec.Cmd) {}
