// Package overlay builds the tests of a package from modified sources.
package overlay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrBuild is the error for a package that does not compile.
var ErrBuild = errors.New("the package does not compile")

// Files maps absolute paths to the contents of files.
type Files map[string][]byte

// Edit replaces one text of a file.
type Edit struct {
	File     string // the path of the file, relative to the root that Apply gets
	Old, New string
}

// Apply returns the edited files below root, without changing the files on
// disk.
//
// It returns an error if a file cannot be read, or if an old text does not
// occur exactly once in its file.
func Apply(root string, edits ...Edit) (Files, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("finding the root: %w", err)
	}
	files := Files{}
	for _, e := range edits {
		path := filepath.Join(root, e.File)
		source, err := files[path], error(nil)
		if source == nil {
			source, err = os.ReadFile(path)
		}
		if err != nil {
			return nil, fmt.Errorf("reading a file to edit: %w", err)
		}
		if n := strings.Count(string(source), e.Old); n != 1 {
			return nil, fmt.Errorf("editing %s: the old text occurs %d times, want once:\n%s", e.File, n, e.Old)
		}
		files[path] = []byte(strings.Replace(string(source), e.Old, e.New, 1))
	}
	return files, nil
}

// Build compiles the tests of the package in dir, with files in place of the
// ones on disk. It returns the path of the program, in a folder below temp.
//
// It returns [ErrBuild] with the output of the go command if that command
// fails, usually because the package does not compile.
func Build(ctx context.Context, temp, dir string, files Files, flags ...string) (string, error) {
	folder, err := os.MkdirTemp(temp, "build")
	if err != nil {
		return "", fmt.Errorf("making a folder for the overlay: %w", err)
	}
	replace := map[string]string{}
	for path, content := range files {
		replace[path] = filepath.Join(folder, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(replace[path], content, 0o600); err != nil {
			return "", fmt.Errorf("writing the overlay: %w", err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("listing the overlay: %w", err)
	}
	overlay, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "test")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", fmt.Errorf("writing the list of the overlay: %w", err)
	}
	arguments := append([]string{"test", "-c", "-vet=off", "-ldflags=-s", "-overlay", overlay, "-o", program}, flags...)
	command := exec.CommandContext(ctx, "go", append(arguments, ".")...)
	command.Dir = dir
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s: %w: %w\n%s", dir, ErrBuild, err, output)
	}
	return program, nil
}
