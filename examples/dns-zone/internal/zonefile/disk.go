package zonefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// slurp returns the content of a file, and the FileInfo that identifies the
// file.
func slurp(path string) ([]byte, fs.FileInfo, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(file)
	return text, info, err
}

// store writes text to a file with the given mode, and syncs the file to disk.
func store(path string, text []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
}

// syncDirectory syncs a directory to disk, so that a rename in it is durable.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing %s: %w", path, err)
	}
	return errors.Join(directory.Sync(), directory.Close())
}
