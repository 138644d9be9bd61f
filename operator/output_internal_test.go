package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

// stalling is a writer whose writes return after stall.
type stalling struct {
	bytes.Buffer
	stall time.Duration
}

func (s *stalling) Write(line []byte) (int, error) {
	if s.stall > 0 {
		<-time.After(s.stall)
	}
	return s.Buffer.Write(line)
}

func TestOutputDropsLinesThatCannotBeWritten(t *testing.T) {
	for name, asJSON := range map[string]bool{"text": false, "json": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				w := &stalling{}
				o := newOutput(w)
				if asJSON {
					o.asJSON()
				}
				say := func(text string) (took time.Duration) {
					began := time.Now()
					line := []byte(text + "\n")
					_, err := o.Write(line)
					g.Expect(err).NotTo(HaveOccurred())
					clear(line) // as a caller that uses it again does
					return time.Since(began)
				}
				g.Expect(say("a")).To(BeZero())
				w.stall = linePatience / 2
				g.Expect(say("slow")).To(Equal(linePatience / 2))
				g.Expect(o.problems()).To(BeEmpty())
				w.stall = time.Minute
				g.Expect(say("late")).To(Equal(linePatience))
				for n := range 3 {
					g.Expect(say(fmt.Sprint("lost ", n))).To(BeZero())
				}
				g.Expect(o.problems()).To(HaveLen(1))
				g.Expect(o.problems()[0].String()).To(ContainSubstring("lines of the log are lost, 3 so far"))
				<-time.After(time.Minute)
				synctest.Wait()
				g.Expect(o.problems()).To(BeEmpty())
				w.stall = 0
				g.Expect(say("b")).To(BeZero())
				g.Expect(say("c")).To(BeZero())

				lines := strings.Split(strings.TrimSpace(w.String()), "\n")
				g.Expect(lines).To(HaveLen(6))
				g.Expect(append(lines[:3:3], lines[4:]...)).To(Equal([]string{"a", "slow", "late", "b", "c"}))
				if !asJSON {
					g.Expect(lines[3]).To(Equal("3 lines were lost, because standard error took no line for 1m1s"))
					return
				}
				var record map[string]any
				g.Expect(json.Unmarshal([]byte(lines[3]), &record)).To(Succeed())
				g.Expect(record).To(And(HaveKeyWithValue("lines", 3.0), HaveKeyWithValue("for", "1m1s")))
			})
		})
	}
}

// A node under pressure takes no line for some seconds while a program ends.
func TestTheLastLineOfAProgramIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		stall time.Duration
		want  []string
		took  time.Duration
	}{
		"for some seconds": {
			2 * time.Second, []string{"late", "1 lines were lost, because standard error took no line for 2s", "why"}, 3 * time.Second,
		},
		"without end": {time.Hour, []string{"late"}, lastPatience},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, w := NewWithT(t), &stalling{stall: c.stall}
				o := newOutput(w)
				say := func(text string) {
					_, err := o.Write([]byte(text + "\n"))
					g.Expect(err).NotTo(HaveOccurred())
				}
				say("late")
				say("lost")
				began := time.Now()
				o.last()
				say("why")
				g.Expect(time.Since(began)).To(Equal(c.took))
				<-time.After(2 * time.Hour)
				synctest.Wait()
				g.Expect(strings.Split(strings.TrimSpace(w.String()), "\n")).To(Equal(c.want))
			})
		})
	}
}
