//go:build unix

package zonefile_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
)

// An editor saves after the file was read, and before it is replaced. A pipe in
// place of the file lets the test do so in between: it is not read to its end
// before the test closes it.
func TestAnEditorsSaveIsNotOverwritten(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db.example.com")
	g.Expect(syscall.Mkfifo(path, 0o644)).To(Succeed())
	f := &zonefile.File{Path: path, Origin: "example.com."}
	type outcome struct {
		changed bool
		err     error
	}
	ended := make(chan outcome, 1)
	go func() {
		changed, err := set(t, f, "web", "10.0.0.1")
		ended <- outcome{changed, err}
	}()
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the other side reads
	g.Expect(err).NotTo(HaveOccurred())
	_, err = pipe.WriteString(skeleton)
	g.Expect(err).NotTo(HaveOccurred())
	saved := with("50") + "theirs A 192.0.2.7\n"
	g.Expect(os.WriteFile(path+"~", []byte(saved), 0o600)).To(Succeed())
	g.Expect(os.Rename(path+"~", path)).To(Succeed())
	g.Expect(pipe.Close()).To(Succeed())
	g.Expect(<-ended).To(Equal(outcome{changed: true}))
	g.Expect(text(t, f)).To(Equal(with("51") + "theirs A 192.0.2.7\n" + web))
}

// An editor creates the file while it is made from the skeleton, which is a
// pipe for the same reason.
func TestAFileThatAnEditorCreatesIsNotOverwritten(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	f := &zonefile.File{Path: filepath.Join(dir, "db"), Skeleton: filepath.Join(dir, "skeleton"), Origin: "example.com."}
	g.Expect(syscall.Mkfifo(f.Skeleton, 0o644)).To(Succeed())
	ended := make(chan error, 1)
	go func() {
		_, err := f.Keys(t.Context())
		ended <- err
	}()
	pipe, err := os.OpenFile(f.Skeleton, os.O_WRONLY, 0) // returns when the other side reads
	g.Expect(err).NotTo(HaveOccurred())
	_, err = pipe.WriteString(skeleton)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(f.Path, []byte(skeleton+web), 0o600)).To(Succeed())
	g.Expect(pipe.Close()).To(Succeed())
	g.Expect(<-ended).To(MatchError(ContainSubstring("another process")))
	g.Expect(text(t, f)).To(Equal(skeleton + web))
	g.Expect(f.Keys(t.Context())).To(ConsistOf(key("web")))
}

// The lock is held from the read to the write: the file is a pipe, so the test
// looks in between.
func TestTheFileIsLockedWhileItChanges(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "db")
	g.Expect(syscall.Mkfifo(path, 0o644)).To(Succeed())
	ended := make(chan error, 1)
	go func() {
		_, err := (&zonefile.File{Path: path, Origin: "example.com."}).Keys(t.Context())
		ended <- err
	}()
	pipe, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when the other side reads
	g.Expect(err).NotTo(HaveOccurred())
	other, err := os.Open(filepath.Join(filepath.Dir(path), ".db.lock"))
	g.Expect(err).NotTo(HaveOccurred())
	defer other.Close()
	lock := func() error { return syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	g.Expect(lock()).To(MatchError(syscall.EWOULDBLOCK))
	_, err = pipe.WriteString(skeleton)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pipe.Close()).To(Succeed())
	g.Expect(<-ended).To(Succeed())
	g.Expect(lock()).To(Succeed())
}

// A process that hangs while it has the lock must not keep this one from ending.
func TestTheWaitForTheLockEndsWithTheContext(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	path := filepath.Join(filepath.Dir(f.Path), "."+filepath.Base(f.Path)+".lock")
	open := func() *os.File {
		opened, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		g.Expect(err).NotTo(HaveOccurred())
		return opened
	}
	hung := open()
	g.Expect(syscall.Flock(int(hung.Fd()), syscall.LOCK_EX)).To(Succeed())
	lost := errors.New("the leadership is lost")
	for name, call := range map[string]func(ctx context.Context) error{
		"Set": func(ctx context.Context) error {
			_, err := f.Set(ctx, key("web"), []netip.Addr{netip.MustParseAddr("10.0.0.1")})
			return err
		},
		"Keys": func(ctx context.Context) error {
			_, err := f.Keys(ctx)
			return err
		},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		cancel(lost)
		g.Eventually(ended).WithTimeout(time.Minute).Should(Receive(And(MatchError(lost),
			MatchError(ContainSubstring("another process holds the lock")))), name)
	}
	g.Expect(text(t, f)).To(Equal(skeleton))

	ended := make(chan error, 1)
	go func() {
		_, err := set(t, f, "web", "10.0.0.1")
		ended <- err
	}()
	g.Expect(hung.Close()).To(Succeed())
	g.Expect(<-ended).To(Succeed(), "it goes on when the lock is free")
	g.Expect(text(t, f)).To(Equal(with("42") + web))
	other := open()
	defer other.Close()
	g.Expect(syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)).To(Succeed(), "no call has kept the lock")
}

// Each of the ways in which editors save is noticed.
func TestASaveIsNoticed(t *testing.T) {
	moment := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		save func(path string) error
		same bool
	}{
		"no save": {func(string) error { return nil }, true},
		"a longer text": {func(path string) error {
			return saveAt(path, moment, "longer text")
		}, false},
		"a text of that length": {func(path string) error {
			return saveAt(path, moment.Add(time.Millisecond), "other")
		}, false},
		"another file of that length and time": {func(path string) error {
			if err := saveAt(path+"~", moment, "other"); err != nil {
				return err
			}
			return os.Rename(path+"~", path)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), "db")
			g.Expect(saveAt(path, moment, "first")).To(Succeed())
			before, err := os.Stat(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.save(path)).To(Succeed())
			after, err := os.Stat(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(zonefile.Same(before, after)).To(Equal(c.same))
		})
	}
}

// saveAt writes a file as if that were at some moment.
func saveAt(path string, at time.Time, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, at, at)
}
