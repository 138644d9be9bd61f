package zonefile_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/examples/dns-zone/internal/zonefile"
)

// The environment of a test process that writes until it is killed.
const writerEnv = "ZONEFILE_TEST_WRITES"

const (
	kills   = 30
	perKill = 3 // changes that are seen before each kill
	records = 200
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		panic(write(path))
	}
	m.Run()
}

// write changes records forever.
func write(path string) error {
	f := &zonefile.File{Path: path, Origin: "example.com."}
	for i := 0; ; i++ {
		address := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		if _, err := f.Set(context.Background(), key(fmt.Sprint("s", i%records)), []netip.Addr{address}); err != nil {
			return err
		}
	}
}

// whole checks that a file is the skeleton with whole lines of ours, and
// returns its serial.
var whole = func() func(string) (uint32, error) {
	head, tail, _ := strings.Cut(skeleton, "41 ;")
	lines := regexp.MustCompile(`^(s\d+\.shop\.example\.com\. 60 IN A 10\.0\.\d+\.\d+ ; managed-by=dns-zone shop/s\d+\n)*$`)
	return func(text string) (uint32, error) {
		rest, ok := strings.CutPrefix(text, head)
		number, rest, found := strings.Cut(rest, " ;")
		ours, alike := strings.CutPrefix(rest, tail)
		serial, err := strconv.ParseUint(number, 10, 32)
		if !ok || !found || !alike || err != nil || !lines.MatchString(ours) {
			return 0, fmt.Errorf("torn: %d bytes:\n%s", len(text), text)
		}
		return uint32(serial), nil
	}
}()

// Two processes change the file, one of them is killed all the time: every
// reader sees it whole, every serial is used for one content only.
func TestTheFileIsNeverTornUnderKill9(t *testing.T) {
	g := NewWithT(t)
	f := file(t, skeleton)
	start := func() *exec.Cmd {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		c.Env, c.Stderr = append(os.Environ(), writerEnv+"="+f.Path), os.Stderr
		g.Expect(c.Start()).To(Succeed())
		return c
	}
	seen, newest := map[uint32]string{}, uint32(0)
	look := func() (changed bool) {
		now := text(t, f)
		serial, err := whole(now)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(serial).To(BeNumerically(">=", newest))
		if before, ok := seen[serial]; ok {
			g.Expect(now).To(Equal(before), "serial %d", serial)
		}
		seen[serial], changed, newest = now, serial > newest, serial
		return changed
	}
	look()
	other := start()
	for range kills {
		victim := start()
		last := time.Now()
		for changes := 0; changes < perKill; {
			if time.Since(last) > time.Minute {
				t.Fatal("no process has written for a minute")
			}
			if look() {
				changes++
				last = time.Now()
			}
		}
		g.Expect(victim.Process.Kill()).To(Succeed())
		g.Expect(victim.Wait()).To(HaveOccurred())
		look()
	}
	g.Expect(other.Process.Kill()).To(Succeed())
	_ = other.Wait() // it was killed
	g.Expect(f.Keys(t.Context())).NotTo(BeEmpty())
	t.Logf("%d kills, %d changes", kills, newest-41)
}
