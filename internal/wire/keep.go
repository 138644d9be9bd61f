package wire

import (
	"bytes"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/watch"
)

// itemsNumber is the number of the items of any list.
const itemsNumber protowire.Number = 2

// Keep leaves the objects of some namespaces out of lists and watches, before they are
// decoded. It is an interface so that programs without [Wanted] do not link what
// implements it.
type Keep interface {
	// wants reports whether the object of an event is wanted.
	wants(event []byte) bool
	// list returns the body of a list without the items that are not wanted.
	list(of io.ReadCloser) io.ReadCloser
}

// Wanted returns a Keep of the namespaces that wanted reports true for. wanted must not
// retain the bytes.
func Wanted(wanted func(namespace []byte) bool) Keep { return keep(wanted) }

// keep implements [Keep].
type keep func(namespace []byte) bool

// wants reports whether the object of an event is wanted. Bookmarks, errors, and what
// is not exactly as expected are.
func (k keep) wants(event []byte) bool {
	t, ok := only(event, typeNumber)
	switch watch.EventType(t.content) {
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return true
	}
	object, ok2 := only(event, objectNumber)
	if !ok || !ok2 {
		return true
	}
	raw, ok := only(object.content, rawNumber)
	if !ok {
		return true
	}
	unknown, ok := bytes.CutPrefix(raw.content, magic)
	if !ok {
		return true
	}
	body, ok := only(unknown, bodyNumber)
	return !ok || k.wantsObject(body.content)
}

// wantsObject reports whether an object is wanted. The metadata come first, and there
// the namespace is the third field: little of the object is read.
func (k keep) wantsObject(object []byte) bool {
	metadata, ok := first(object, metadataNumber)
	if !ok {
		return true
	}
	namespace, ok := first(metadata, namespaceNumber)
	return !ok || k(namespace)
}

// first returns the content of the first part of data with that number.
func first(data []byte, wanted protowire.Number) (content []byte, ok bool) {
	for len(data) > 0 {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return nil, false
		}
		if number == wanted && kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(data[tag:])
			return content, true
		}
		data = data[tag+size:]
	}
	return nil, false
}

// ofList returns a list without the items that are not wanted. What is not exactly as
// expected stays as it is.
func (k keep) ofList(list []byte) []byte {
	unknown, ok := bytes.CutPrefix(list, magic)
	if !ok {
		return list
	}
	body, ok := only(unknown, bodyNumber)
	if !ok {
		return list
	}
	kept := make([]byte, 0, 1<<10)
	for data := body.content; len(data) > 0; {
		number, kind, tag := protowire.ConsumeTag(data)
		if tag < 0 {
			return list
		}
		size := protowire.ConsumeFieldValue(number, kind, data[tag:])
		if size < 0 {
			return list
		}
		wanted := true
		if number == itemsNumber && kind == protowire.BytesType {
			item, _ := protowire.ConsumeBytes(data[tag:])
			wanted = k.wantsObject(item)
		}
		if wanted {
			kept = append(kept, data[:tag+size]...)
		}
		data = data[tag+size:]
	}
	to := make([]byte, 0, len(magic)+len(unknown)-len(body.content)+len(kept))
	to = append(append(to, magic...), unknown[:body.start]...)
	to = append(appendHead(to, bodyNumber, len(kept)), kept...)
	return append(to, unknown[body.end:]...)
}

func (k keep) list(of io.ReadCloser) io.ReadCloser { return &filteredList{ReadCloser: of, keep: k} }

// filteredList reads a whole list, at its first Read, before it passes on a byte.
type filteredList struct {
	io.ReadCloser

	keep keep
	once sync.Once
	left *bytes.Reader
	err  error
}

// Read implements [io.Reader].
func (l *filteredList) Read(p []byte) (int, error) {
	l.once.Do(func() {
		var list []byte
		if list, l.err = io.ReadAll(l.ReadCloser); l.err == nil {
			list = l.keep.ofList(list)
		}
		l.left = bytes.NewReader(list)
	})
	n, err := l.left.Read(p)
	if err == io.EOF && l.err != nil {
		err = l.err
	}
	return n, err
}
