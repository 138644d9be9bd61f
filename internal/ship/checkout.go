package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// checkout returns a clean copy of a commit of the repository in root, so that nothing which is not committed is built.
// Call discard once it is no longer used.
//
// Errors: there is no such commit, or no git.
func checkout(ctx context.Context, root, commit string) (folder string, discard func(), err error) {
	parent, err := os.MkdirTemp("", "ship-")
	if err != nil {
		return "", nil, err
	}
	discard = func() { _ = os.RemoveAll(parent) } // leftovers are temporary files
	folder = filepath.Join(parent, "source")
	id, err := git(ctx, root, "rev-parse", "--verify", commit+"^{commit}")
	if err == nil {
		_, err = git(ctx, root, "clone", "--quiet", "--shared", "--no-checkout", ".", folder)
	}
	if err == nil {
		_, err = git(ctx, folder, "checkout", "--quiet", "--detach", id)
	}
	if err != nil {
		discard()
		return "", nil, fmt.Errorf("checking out %s: %w", commit, err)
	}
	return folder, discard, nil
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	var errors bytes.Buffer
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir, command.Stderr = folder, &errors
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(errors.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
