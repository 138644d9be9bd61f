package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A dataDir is the folder that outlives the control plane's processes. It
// contains etcd's data, certificates, ports and logs.
type dataDir struct {
	path      string
	temporary bool
	lock      *os.File
	ports     ports
}

// openDataDir locks the folder, or a new temporary folder if path is empty, and
// creates missing files in it.
func openDataDir(path string, apiServerPort int) (*dataDir, error) {
	d := &dataDir{path: path, temporary: path == ""}
	if err := d.create(); err != nil {
		return nil, err
	}
	if err := d.complete(apiServerPort); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *dataDir) create() (err error) {
	if d.temporary {
		if d.path, err = os.MkdirTemp("", "controlplane-"); err != nil {
			return fmt.Errorf("creating a temporary data directory: %w", err)
		}
	}
	if d.path, err = filepath.Abs(d.path); err != nil {
		return fmt.Errorf("finding the data directory: %w", err)
	}
	if err = os.MkdirAll(d.file("logs"), 0o700); err != nil {
		return fmt.Errorf("creating the data directory %s: %w", d.path, err)
	}
	if d.lock, err = os.OpenFile(d.file("lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return fmt.Errorf("writing to the data directory %s: %w", d.path, err)
	}
	if err = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = d.lock.Close() // Nothing was written.
		return fmt.Errorf("locking the data directory %s: another control plane uses it: %w", d.path, err)
	}
	return nil
}

func (d *dataDir) complete(apiServerPort int) error {
	if _, err := os.Stat(d.pki(caCert)); errors.Is(err, os.ErrNotExist) {
		if err := writePKI(d.file("pki"), time.Now()); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("looking for certificates: %w", err)
	}
	if err := d.assignPorts(apiServerPort); err != nil {
		return err
	}
	for _, user := range []string{adminName, managerName, schedulerName} {
		k, err := d.kubeconfig(user)
		if err != nil {
			return err
		}
		if err := k.write(d.file(user + ".kubeconfig")); err != nil {
			return err
		}
	}
	return nil
}

// assignPorts chooses the ports of the previous start. It chooses free ports at
// the first start, and if another port is requested.
func (d *dataDir) assignPorts(apiServerPort int) error {
	text, err := os.ReadFile(d.file("ports.json"))
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &d.ports); err != nil {
			return fmt.Errorf("reading %s: remove it to get new ports: %w", d.file("ports.json"), err)
		}
		if apiServerPort == 0 || apiServerPort == d.ports.APIServer {
			return d.ports.free()
		}
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("reading the last ports: %w", err)
	}
	if d.ports, err = choosePorts(apiServerPort); err != nil {
		return err
	}
	if text, err = json.Marshal(d.ports); err != nil {
		return fmt.Errorf("encoding the ports: %w", err)
	}
	if err := os.WriteFile(d.file("ports.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the ports: %w", err)
	}
	return nil
}

// close releases the lock and removes a temporary folder.
func (d *dataDir) close() error {
	err := d.lock.Close()
	if d.temporary {
		err = errors.Join(err, os.RemoveAll(d.path))
	}
	if err != nil {
		return fmt.Errorf("releasing the data directory: %w", err)
	}
	return nil
}

func (d *dataDir) file(name string) string { return filepath.Join(d.path, name) }

func (d *dataDir) pki(name string) string { return filepath.Join(d.path, "pki", name) }

func (d *dataDir) log(component string) string {
	return filepath.Join(d.path, "logs", component+".log")
}

func (d *dataDir) server() string { return "https://" + address(d.ports.APIServer) }
