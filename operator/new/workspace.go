package main

import (
	"context"
	"os/exec"
	"strings"
)

// foreignWorkspace returns the go.work file that applies in the folder of a new
// module and does not list the module, or the empty string. The go command
// refuses to build such a module, for example with "directory prefix . does not
// contain modules listed in go.work".
func foreignWorkspace(ctx context.Context, folder string) string {
	out, err := goCommand(ctx, folder, "env", "GOWORK").Output()
	file := strings.TrimSpace(string(out))
	if err != nil || file == "" || file == "off" {
		return ""
	}
	if goCommand(ctx, folder, "list", ".").Run() == nil {
		return ""
	}
	return file
}

// goCommand returns the go command with these arguments in a folder.
func goCommand(ctx context.Context, folder string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	return command
}
