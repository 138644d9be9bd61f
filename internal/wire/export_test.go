package wire

import (
	"io"
	"reflect"
)

// Body returns the body of a watch in protobuf as its reader sees it.
func (s *Specs) Body(of io.ReadCloser) io.ReadCloser { return newBody(of, s, nil) }

// Filtered returns the body of a watch in protobuf without the objects that
// keep does not want.
func Filtered(of io.ReadCloser, keep Keep) io.ReadCloser { return newBody(of, nil, keep) }

// FilteredList returns the body of a list in protobuf without the objects that
// keep does not want.
func FilteredList(list []byte, keep Keep) []byte {
	return keep.(interface{ filterList(list []byte) []byte }).filterList(list)
}

// FilteredPage returns the body of a list in protobuf without the objects that
// keep does not want.
func FilteredPage(of io.ReadCloser, keep Keep) io.ReadCloser { return keep.list(of) }

// Untaken returns the number of decoded objects that have not been taken.
func (s *Specs) Untaken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.decoded)
}

func Copyable(t reflect.Type) bool { return copyable(t, cborFlag) }

const MaxFrame = maxFrame

const Ahead = decodeAheadLimit

// Wants reports whether keep wants the object of an event.
func Wants(keep Keep, event []byte) bool { return keep.wants(event) }
