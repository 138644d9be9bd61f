package wire_test

import (
	"io"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/wire"
)

// silent is a body that sends its bytes and then blocks until it is closed.
type silent struct {
	sent   []byte
	closed chan struct{}
}

func (s *silent) Read(p []byte) (int, error) {
	if len(s.sent) == 0 {
		<-s.closed
		return 0, io.ErrClosedPipe
	}
	n := copy(p, s.sent)
	s.sent = s.sent[n:]
	return n, nil
}

func (s *silent) Close() error {
	close(s.closed)
	return nil
}

func bodyOf(events int) (*wire.Specs, io.ReadCloser) {
	kind, _ := wire.KindOf(podType)
	specs := wire.NewSpecs(kind, newMemory().known)
	one := protobuf(modified(pod("1", "x", "Running"))...)
	var sent []byte
	for range events {
		sent = append(sent, one...)
	}
	return specs, specs.Body(&silent{sent, make(chan struct{})})
}

func TestABodyDecodesAheadOfItsReaderUpToALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		specs, body := bodyOf(10 * wire.Ahead)
		defer body.Close()
		synctest.Wait()
		g.Expect(specs.Untaken()).To(BeZero(), "before the first Read")
		_, err := body.Read(make([]byte, 1))
		g.Expect(err).NotTo(HaveOccurred())
		synctest.Wait()
		g.Expect(specs.Untaken()).To(Equal(wire.Ahead+2), "the one that is read, those that wait, and the next one")
	})
}

// In a bubble, a goroutine that did not end would fail the test.
func TestACloseEndsTheDecodingAndTheRead(t *testing.T) {
	for _, events := range []int{0, 1, 10 * wire.Ahead} {
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			_, body := bodyOf(events)
			ended := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, io.LimitReader(body, int64(min(events, 2))))
				if events < 2 {
					_, err = io.Copy(io.Discard, body)
				}
				ended <- err
			}()
			synctest.Wait()
			g.Expect(body.Close()).To(Succeed())
			if err := <-ended; events < 2 {
				g.Expect(err).To(HaveOccurred())
			}
		})
	}
}
