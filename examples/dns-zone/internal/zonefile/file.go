package zonefile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// DefaultTTL is the default TTL of the records, in seconds.
const DefaultTTL = 60

// A File is a zone file. It is safe for concurrent use, including by several
// processes.
type File struct {
	// Path is the path of the file. Two more files are in the same directory:
	// the lock file .<name>.lock and, during a write, the new contents as
	// .<name>.new.
	Path string
	// Origin is the domain of the records, with a dot at its end.
	Origin string
	// TTL is the time to live in seconds. Defaults to [DefaultTTL].
	TTL int
	// Skeleton is the path of a file from which a missing zone file is made.
	// Without it, a missing zone file is an error.
	Skeleton string

	mu     sync.Mutex // guards the file and the fields below
	wrote  bool
	serial uint32 // the serial that was last written
}

// errMoved is the error of write if another process has replaced the file since
// it was read. Set then tries again, up to the number of attempts.
var errMoved = errors.New("another process keeps changing the file")

const attempts = 5

// Keys returns the keys that have records, sorted and without duplicates. It
// returns an error if the file cannot be locked, read or parsed, or if ctx ends
// while another process holds the lock.
func (f *File) Keys(ctx context.Context) ([]types.NamespacedName, error) {
	var keys []types.NamespacedName
	err := f.locked(ctx, func() error {
		read, err := f.read()
		if err != nil {
			return err
		}
		for _, l := range read.zone.lines {
			if l.isOurs {
				keys = append(keys, l.key)
			}
		}
		return nil
	})
	slices.SortFunc(keys, compare)
	return slices.Compact(keys), err
}

// Set replaces the records of a key with one record for each address, in this
// order. An empty list removes the records. Set reports whether it has changed
// the records.
//
// It returns an error if ctx ends before Set begins to read and write the file,
// for example while another process holds the lock. It also returns an error if
// the file cannot be read, parsed, locked or written, or if another process
// keeps changing it. After an error, the records are unchanged, except if only
// the sync of the directory has failed: the file is replaced, but a crash of
// the machine may undo that. An error of the parser names the line.
func (f *File) Set(ctx context.Context, key types.NamespacedName, addresses []netip.Addr) (changed bool, err error) {
	var want [][]byte
	for _, address := range addresses {
		want = append(want, record(key, f.Origin, cmp.Or(f.TTL, DefaultTTL), address))
	}
	err = f.locked(ctx, func() error {
		err := errMoved
		for i := 0; i < attempts && errors.Is(err, errMoved); i++ {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			changed, err = f.set(key, want)
		}
		return err
	})
	return changed && err == nil, err
}

func (f *File) set(key types.NamespacedName, want [][]byte) (changed bool, err error) {
	read, err := f.read()
	if err != nil || !read.zone.set(key, want) {
		return false, err
	}
	return true, f.write(read)
}

// locked calls change while it holds the lock of the file, so no other dns-zone
// changes the file. It does not wait for another process after the end of ctx,
// but it always waits for calls of this File that began earlier. An editor does
// not take the lock: see errMoved.
func (f *File) locked(ctx context.Context, change func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	unlock, err := lock(ctx, f.siblingPath("lock"))
	if err != nil {
		return fmt.Errorf("locking %s: %w", f.Path, err)
	}
	defer unlock()
	return change()
}

func (f *File) siblingPath(suffix string) string {
	return filepath.Join(filepath.Dir(f.Path), "."+filepath.Base(f.Path)+"."+suffix)
}

// contents are a parsed file and its identity.
type contents struct {
	zone *zone
	info fs.FileInfo // nil if there was no file
}

// read reads the file. If the file is missing and there is a skeleton, it first
// makes the file from the skeleton.
func (f *File) read() (contents, error) {
	text, info, err := slurp(f.Path)
	if errors.Is(err, fs.ErrNotExist) && f.Skeleton != "" {
		if err := f.begin(); err != nil {
			return contents{}, err
		}
		text, info, err = slurp(f.Path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return contents{}, fmt.Errorf("reading the zone file: %w: create the file, or set --skeleton", err)
	}
	if err != nil {
		return contents{}, fmt.Errorf("reading the zone file: %w", err)
	}
	z, err := scan(text)
	if err != nil {
		return contents{}, fmt.Errorf("reading the zone file %s: %w", f.Path, err)
	}
	return contents{z, info}, nil
}

// begin creates a missing zone file as a copy of the skeleton.
func (f *File) begin() error {
	text, err := os.ReadFile(f.Skeleton)
	if err != nil {
		return fmt.Errorf("reading the skeleton of the zone file: %w", err)
	}
	z, err := scan(text)
	if err != nil {
		return fmt.Errorf("reading the skeleton of the zone file, %s: %w", f.Skeleton, err)
	}
	z.serial-- // the skeleton's serial is the first one
	return f.write(contents{z, nil})
}

// write replaces the file with the contents c and the next serial. It fails
// with errMoved if another process has replaced the file since c was read.
func (f *File) write(c contents) error {
	serial := c.zone.serial
	if f.wrote && int32(serial-f.serial) < 0 { // an editor has restored an older serial, by the order of RFC 1982
		serial = f.serial
	}
	serial++
	mode := fs.FileMode(0o644)
	if c.info != nil {
		mode = c.info.Mode().Perm()
	}
	if err := store(f.siblingPath("new"), c.zone.text(serial), mode); err != nil {
		return fmt.Errorf("writing the zone file: %w", err)
	}
	present, err := os.Stat(f.Path)
	if c.info == nil && err == nil || c.info != nil && (err != nil || !sameFile(c.info, present)) {
		return fmt.Errorf("writing the zone file %s: %w", f.Path, errMoved)
	}
	if err := os.Rename(f.siblingPath("new"), f.Path); err != nil {
		return fmt.Errorf("writing the zone file: %w", err)
	}
	f.wrote, f.serial = true, serial
	return syncDirectory(filepath.Dir(f.Path))
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
