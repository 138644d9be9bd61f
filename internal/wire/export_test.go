package wire

import (
	"io"
	"reflect"
)

// Body returns the body of a watch in protobuf as its reader sees it.
func (s *Specs) Body(of io.ReadCloser) io.ReadCloser { return newBody(of, s) }

// Untaken is how many objects have not been taken.
func (s *Specs) Untaken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.decoded)
}

func Copyable(t reflect.Type) bool { return copyable(t, cborFlag) }

const MaxFrame = maxFrame

const Ahead = ahead
