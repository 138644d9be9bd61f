package stacks

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// managed reports whether the program may have a manager of controller-runtime.
// If it returns false, Syncing need not take a profile of all goroutines, which
// stops the world. Most programs are linked without controller-runtime.
//
//nolint:gochecknoglobals // read once
var managed = sync.OnceValue(func() bool { return linked(starting) })

// linked reports whether the function may be linked into this process. The
// table of functions in the executable has the name of each function, and a
// zero after it. linked returns true if it cannot read the executable.
func linked(function string) bool {
	path, err := os.Executable()
	if err != nil {
		return true
	}
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	has, err := contains(file, append([]byte(function), 0))
	return has || err != nil
}

// contains reports whether text occurs in r. It keeps one megabyte in memory.
func contains(r io.Reader, text []byte) (bool, error) {
	buf, overlap := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, buf[overlap:])
		window := buf[:overlap+n]
		if bytes.Contains(window, text) {
			return true, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		overlap = copy(buf, window[len(window)-len(text)+1:])
	}
}
