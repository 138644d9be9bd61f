package names

import (
	"context"
	"fmt"
	"os"
)

// File lists the names in the file at path, which is read anew each time; see
// [Parse] for what it may hold. A missing file is an error, an empty one is
// not. Who writes the file should replace it as a whole (rename).
func File(path string, f *Format) UIDLister {
	return UIDFunc(func(context.Context) ([]Name, error) {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("opening the file of names: %w", err)
		}
		defer file.Close() // read only: nothing can be lost
		all, err := Parse(file, f)
		if err != nil {
			return nil, fmt.Errorf("reading names from %q: %w", path, err)
		}
		return all, nil
	})
}
