package machine

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

var errOff = errors.New("the machine is off")

// Simulated is a machine that turns off when it is told to reboot, and boots
// when PowerOn is called. It is safe for concurrent use.
type Simulated struct {
	name string

	mu       sync.Mutex // guards the fields below
	boots    int
	isOff    bool
	refuse   error
	onReboot func(bootID string)
}

// NewSimulated returns a machine in its first boot. onReboot, which may be nil,
// is called with the id of the ended boot each time Reboot turns the machine
// off. Crash does not call it.
func NewSimulated(name string, onReboot func(bootID string)) *Simulated {
	return &Simulated{name: name, boots: 1, onReboot: onReboot}
}

// BootID returns the id of the running boot. It returns an error while the
// machine is off.
func (s *Simulated) BootID(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOff {
		return "", errOff
	}
	return s.bootID(), nil
}

func (s *Simulated) bootID() string { return fmt.Sprintf("%s-boot-%d", s.name, s.boots) }

// Reboot turns the machine off if bootID is the id of the running boot. It
// returns an error if it is not, or if the machine refuses.
func (s *Simulated) Reboot(_ context.Context, bootID string) error {
	s.mu.Lock()
	err := s.refuse
	switch {
	case s.isOff:
		err = errOff
	case s.bootID() != bootID:
		err = ErrOtherBoot
	}
	if err == nil {
		s.isOff = true
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", s.name, err)
	}
	if s.onReboot != nil {
		s.onReboot(bootID)
	}
	return nil
}

// Crash turns the machine off without a request.
func (s *Simulated) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isOff = true
}

// PowerOn boots the machine if it is off, and returns the id of the running
// boot.
func (s *Simulated) PowerOn() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isOff {
		s.isOff = false
		s.boots++
	}
	return s.bootID()
}

// Refuse makes Reboot fail with err. A nil err lets it succeed again.
func (s *Simulated) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Off reports whether the machine is off.
func (s *Simulated) Off() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isOff
}

var (
	_ Machine = &Host{}
	_ Machine = &Simulated{}
)
