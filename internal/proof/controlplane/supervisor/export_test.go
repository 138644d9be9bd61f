package supervisor

import (
	"context"
	"time"
)

// WritePKI is writePKI.
func WritePKI(dir string, now time.Time) error { return writePKI(dir, now) }

// ChoosePorts returns the chosen ports, the API server's first.
func ChoosePorts(apiServer int) ([]int, error) {
	p, err := choosePorts(apiServer)
	return []int{p.APIServer, p.Etcd, p.EtcdPeer, p.Scheduler}, err
}

// Tail is tail.
func Tail(path string) string { return tail(path) }

// Until is until.
func Until(ctx context.Context, first int, parent func() int) { waitForParent(ctx, first, parent) }

// A DataDir is a dataDir that is open.
type DataDir struct{ d *dataDir }

// OpenDataDir is openDataDir.
func OpenDataDir(path string, port int) (*DataDir, error) {
	d, err := openDataDir(path, port)
	return &DataDir{d}, err
}

// Path is where it is.
func (d *DataDir) Path() string { return d.d.path }

// Server is the API server's URL.
func (d *DataDir) Server() string { return d.d.server() }

// Close is close.
func (d *DataDir) Close() error { return d.d.close() }
