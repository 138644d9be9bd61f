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
