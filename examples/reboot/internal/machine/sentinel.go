package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Sentinel is the path of a file with which packages of the host request a
// reboot, such as /var/run/reboot-required.
type Sentinel string

// Request returns the value of reboot-needed for the file, or the empty string
// if the file does not exist. The value contains the file's modification time.
// So a file that is created again after a reboot is a new request.
func (s Sentinel) Request() (string, error) {
	info, err := os.Stat(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the file that requests a reboot: %w", err)
	}
	return filepath.Base(string(s)) + " " + info.ModTime().UTC().Format(time.RFC3339), nil
}

// Mirror creates file, with the modification time of s, if s exists, and
// removes file if s does not exist. It is for a program that must not see the
// other files in the directory of s, such as the sockets in /run.
func (s Sentinel) Mirror(file string) error {
	info, err := os.Stat(string(s))
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("mirroring the file that requests a reboot: %w", err)
	}
	if info == nil {
		return nil
	}
	// The modification time is set before the file gets its name, because the
	// time is part of the request.
	temporary, err := os.CreateTemp(filepath.Dir(file), ".mirror-")
	if err != nil {
		return fmt.Errorf("mirroring the file that requests a reboot: %w", err)
	}
	err = errors.Join(temporary.Chmod(0o644), temporary.Close(), os.Chtimes(temporary.Name(), time.Time{}, info.ModTime()),
		os.Rename(temporary.Name(), file))
	if err != nil {
		return fmt.Errorf("mirroring the file that requests a reboot: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
