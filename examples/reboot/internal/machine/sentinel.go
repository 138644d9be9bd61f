package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Sentinel is a file by which the packages of the host ask for a reboot, such as
// /var/run/reboot-required.
type Sentinel string

// Request returns the request that the file makes, or "" when there is no file. The
// time in it tells a file that has outlived a reboot from one that was made since.
func (s Sentinel) Request() (string, error) {
	info, err := os.Stat(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for the file that asks for a reboot: %w", err)
	}
	return filepath.Base(string(s)) + " " + info.ModTime().UTC().Format(time.RFC3339), nil
}

// Mirror keeps a file, with the time of s, while s exists: for a program that
// must not see other files in the directory of s, such as the sockets in /run.
func (s Sentinel) Mirror(file string) error {
	info, err := os.Stat(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("mirroring the file that asks for a reboot: %w", err)
	}
	if info == nil {
		return nil
	}
	// The time comes before the name: without it, it would be another request.
	made, err := os.CreateTemp(filepath.Dir(file), ".mirror-")
	if err != nil {
		return fmt.Errorf("mirroring the file that asks for a reboot: %w", err)
	}
	err = errors.Join(made.Chmod(0o644), made.Close(), os.Chtimes(made.Name(), time.Time{}, info.ModTime()),
		os.Rename(made.Name(), file))
	if err != nil {
		return fmt.Errorf("mirroring the file that asks for a reboot: %w", errors.Join(err, os.Remove(made.Name())))
	}
	return nil
}
