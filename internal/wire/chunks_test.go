package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/homeostat/homeostat/internal/wire"
)

var errBroken = errors.New("broken")

// chunks is a body that returns random numbers of bytes at once, and its error
// with the last bytes or after them.
type chunks struct {
	random *rand.Rand
	left   []byte
}

func (c *chunks) Read(p []byte) (n int, err error) {
	n = min(len(p), len(c.left), 1+c.random.IntN(1<<c.random.IntN(18)))
	copy(p, c.left[:n])
	if c.left = c.left[n:]; len(c.left) == 0 && (n == 0 || c.random.IntN(2) == 0) {
		err = errBroken
	}
	return n, err
}

func (*chunks) Close() error { return nil }

// Bytes that are not an event of the kind pass through unchanged, including
// incomplete ones, for any size and any division into reads.
func TestEveryByteComesThrough(t *testing.T) {
	g := NewWithT(t)
	kind, _ := wire.KindOf(podType)
	noise := make([]byte, wire.MaxFrame+256<<10)
	for n := range noise {
		noise[n] = 0x80 | byte(n*n>>7) // every byte says that another byte of the number follows
	}
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test repeats
		var sent []byte
		for range random.IntN(30) {
			around := random.IntN(16) - 8
			size := []int{random.IntN(300), 4<<10 + around, 32<<10 + around, random.IntN(100 << 10)}[random.IntN(4)]
			if random.IntN(300) == 0 {
				size = wire.MaxFrame + random.IntN(100<<10)
			}
			at := random.IntN(100 << 10)
			sent = append(sent, framed(noise[at:at+size])...)
		}
		if len(sent) > 0 && random.IntN(2) == 0 {
			sent = sent[:random.IntN(len(sent))]
		}
		from := &chunks{random, sent}
		body := wire.Filtered(from, onlyA)
		if random.IntN(2) == 0 {
			body = wire.NewSpecs(kind, newMemory().known).Body(from)
		}
		got, err := io.ReadAll(body)
		g.Expect(err).To(MatchError(errBroken), "seed %d", seed)
		same := bytes.Equal(got, sent) // they are too many to print
		g.Expect(same).To(BeTrue(), "seed %d: %d bytes of %d", seed, len(got), len(sent))
		g.Expect(body.Close()).To(Succeed())
	}
}
