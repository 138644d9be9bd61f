package roll

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The durations of a machine's steps.
const (
	shutdownTime   = 300 * time.Millisecond // the time from the request until the power is off
	offTime        = 1200 * time.Millisecond
	offSpread      = 800 * time.Millisecond
	unknownAfter   = 500 * time.Millisecond // the time without power until the node counts as Unknown
	kubeletLate    = 400 * time.Millisecond // until the kubelet reports after a boot, at least; at most twice as long
	readyLate      = 500 * time.Millisecond // from that report until the node is Ready, at least; at most twice as long
	restartPause   = 1 * time.Second        // the pause before a kubelet starts a dead agent again
	machinePoll    = 20 * time.Millisecond
	bootIDFileName = "boot_id"
	rebootFileName = "reboot"
)

// A machine simulates the machine of one node and its kubelet.
type machine struct {
	name    string
	dir     string
	cluster *cluster
	start   func(m *machine) (*process, error) // starts the agent
	say     func(format string, args ...any)

	mu    sync.Mutex // guards the fields below
	boots int
	isUp  bool
	agent *process
}

func newMachine(name, dir string, c *cluster) (*machine, error) {
	m := &machine{name: name, dir: filepath.Join(dir, name), cluster: c}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of machine %s: %w", name, err)
	}
	return m, nil
}

func (m *machine) bootIDFile() string { return filepath.Join(m.dir, bootIDFileName) }
func (m *machine) rebootFile() string { return filepath.Join(m.dir, rebootFileName) }

// run boots the machine, and boots it again after each reboot, until ctx ends.
// It returns after all of the machine's goroutines and processes have ended.
func (m *machine) run(ctx context.Context) error {
	for ctx.Err() == nil {
		bootID, err := m.powerOn()
		if err != nil {
			return err
		}
		if err := m.live(ctx, bootID); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		m.say("%s is off", m.name)
		if err := m.beOff(ctx); err != nil {
			return unlessEnded(ctx, err)
		}
	}
	return nil
}

// unlessEnded returns err, or nil if ctx has ended. An error is expected after
// the end of ctx, and does not count as a fault of the machine.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// powerOn starts a new boot. It writes the id of the boot to the boot id file,
// and returns it.
func (m *machine) powerOn() (string, error) {
	m.mu.Lock()
	m.boots++
	m.isUp = true
	bootID := fmt.Sprintf("%s-boot-%d", m.name, m.boots)
	m.mu.Unlock()
	if err := os.Remove(m.rebootFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("booting machine %s: %w", m.name, err)
	}
	if err := os.WriteFile(m.bootIDFile(), []byte(bootID+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("booting machine %s: %w", m.name, err)
	}
	return bootID, nil
}

// live runs one boot from power on to power off.
func (m *machine) live(ctx context.Context, bootID string) error {
	boot, powerOff := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { m.reportReady(boot, bootID) })
	running.Go(func() { m.keepAgent(boot) })
	running.Go(func() { m.cluster.endPods(boot, m.name) })
	err := m.awaitReboot(boot)
	if err == nil {
		m.mu.Lock()
		m.isUp = false
		m.mu.Unlock()
	}
	powerOff()
	running.Wait()
	return unlessEnded(ctx, err)
}

// awaitReboot waits until the agent requests a reboot, and then for
// shutdownTime. It returns an error if ctx ends first.
func (m *machine) awaitReboot(ctx context.Context) error {
	for {
		if _, err := os.Stat(m.rebootFile()); err == nil {
			return pause(ctx, shutdownTime)
		}
		if err := pause(ctx, machinePoll); err != nil {
			return err
		}
	}
}

// beOff keeps the machine off for a while. Meanwhile it sets the node's
// condition Ready to Unknown, as the control plane does.
func (m *machine) beOff(ctx context.Context) error {
	if err := pause(ctx, unknownAfter); err != nil {
		return err
	}
	if err := m.cluster.report(ctx, m.name, corev1.ConditionUnknown, "NodeStatusUnknown", ""); err != nil {
		return err
	}
	return pause(ctx, offTime+rand.N(offSpread)-unknownAfter)
}

// reportReady reports the boot and then Ready, each after a delay, as a kubelet
// would.
func (m *machine) reportReady(ctx context.Context, bootID string) {
	for _, step := range []struct {
		delay  time.Duration
		status corev1.ConditionStatus
		reason string
	}{
		{kubeletLate, corev1.ConditionFalse, "KubeletNotReady"},
		{readyLate, corev1.ConditionTrue, "KubeletReady"},
	} {
		if pause(ctx, step.delay+rand.N(step.delay)) != nil {
			return
		}
		for m.cluster.report(ctx, m.name, step.status, step.reason, bootID) != nil {
			if pause(ctx, restartPause) != nil {
				return
			}
		}
	}
}

// keepAgent runs the agent during one boot, and restarts it when it dies.
func (m *machine) keepAgent(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := m.start(m)
		if err != nil {
			m.say("%v", err)
		} else {
			m.mu.Lock()
			m.agent = p
			m.mu.Unlock()
			select {
			case <-ctx.Done():
				p.kill()
				return
			case <-p.done:
			}
		}
		if pause(ctx, restartPause) == nil {
			m.say("the kubelet of %s starts its agent again", m.name)
		}
	}
}

// state returns how many times the machine has booted, and whether it is up.
func (m *machine) state() (boots int, isUp bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boots, m.isUp
}

// killAgent kills only the agent, and reports whether there was one.
func (m *machine) killAgent() bool {
	m.mu.Lock()
	p, isUp := m.agent, m.isUp
	m.mu.Unlock()
	if !isUp || p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		p.kill()
		return true
	}
}
