package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// write writes a module to dir, a folder that must be empty or not exist. It
// first writes the files to a temporary folder, calls complete with that
// folder, and then moves its content to dir. If write fails, it leaves dir
// unchanged.
func write(dir string, files map[string][]byte, complete func(folder string) error) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	exists := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("folder %s is not empty (it contains %s): choose a new folder with --dir", dir, entries[0].Name())
	}
	parent := filepath.Dir(dir)
	if exists {
		parent = dir // the process may not be allowed to write to the parent of dir
	}
	folder, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := os.Chmod(folder, 0o755); err != nil { //nolint:gosec // the usual mode of a folder
		return err
	}
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if err := complete(folder); err != nil {
		return err
	}
	if exists {
		return moveInto(dir, folder)
	}
	return os.Rename(folder, dir)
}

// moveInto moves the entries of one folder, source, into another, dir. If it
// fails, it deletes the entries that it has already moved, so dir is as it was
// before.
func moveInto(dir, source string) error {
	entries, err := os.ReadDir(source)
	if err != nil {
		return err
	}
	for i, entry := range entries {
		if err := os.Rename(filepath.Join(source, entry.Name()), filepath.Join(dir, entry.Name())); err != nil {
			for _, moved := range entries[:i] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, moved.Name())))
			}
			return err
		}
	}
	return nil
}

// tidy completes go.mod and go.sum in a folder with "go mod tidy". It copies
// the go command's output to out.
func tidy(ctx context.Context, folder string, out io.Writer) error {
	command := goCommand(ctx, folder, "mod", "tidy")
	command.Stdout, command.Stderr = out, out
	command.Env = append(command.Environ(), "GOWORK=off") // the module is in no workspace yet
	if err := command.Run(); err != nil {
		return fmt.Errorf("running go mod tidy (the new module was discarded): %w", errors.Join(err, ctx.Err()))
	}
	return nil
}
