package wire

import (
	"bytes"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
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
	f, ok := unwrap(event)
	return !ok || k.wantsObject(f.body.content)
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
		number, content, size := next(data)
		if size < 0 {
			return nil, false
		}
		if number == wanted && content != nil {
			return content, true
		}
		data = data[size:]
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
	parts, size, ok := k.partsOf(body.content)
	if !ok {
		return list
	}
	to := make([]byte, 0, len(magic)+len(unknown)-len(body.content)+size)
	to = append(append(to, magic...), unknown[:body.start]...)
	to = appendHead(to, bodyNumber, size)
	for _, part := range parts {
		to = append(to, part...)
	}
	return append(to, unknown[body.end:]...)
}

// partsOf returns the parts of a list without the items that are not wanted, and their size. It reports false if the
// list is not as expected.
func (k keep) partsOf(list []byte) (parts [][]byte, size int, ok bool) {
	begin, at := 0, 0 // of the part that is going on
	end := func() {
		if at > begin {
			parts, size = append(parts, list[begin:at]), size+at-begin
		}
	}
	for at < len(list) {
		number, content, size := next(list[at:])
		if size < 0 {
			return nil, 0, false
		}
		if number == itemsNumber && content != nil && !k.wantsObject(content) {
			end()
			begin = at + size
		}
		at += size
	}
	end()
	return parts, size, true
}

func (k keep) list(of io.ReadCloser) io.ReadCloser { return &filteredList{ReadCloser: of, keep: k} }

// pages has buffers of lists: each page is as large as the one before.
var pages sync.Pool

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
		page, _ := pages.Get().(*bytes.Buffer)
		if page == nil {
			page = &bytes.Buffer{}
		}
		_, l.err = page.ReadFrom(l.ReadCloser)
		list := page.Bytes()
		if l.err == nil {
			list = l.keep.ofList(list)
		}
		if len(list) < page.Len() { // a copy
			page.Reset()
			pages.Put(page)
		}
		l.left = bytes.NewReader(list)
	})
	n, err := l.left.Read(p)
	if err == io.EOF && l.err != nil {
		err = l.err
	}
	return n, err
}
