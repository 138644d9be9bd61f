package wire

import (
	"bytes"
	"io"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// itemsNumber is the number of the items of any list.
const itemsNumber protowire.Number = 2

// Keep selects objects by their namespace. Lists and watches omit other objects
// before they are decoded. It is an interface because programs that do not call
// [Wanted] must not link its implementation.
type Keep interface {
	// wants reports whether the object of an event is wanted.
	wants(event []byte) bool
	// list returns the body of a list without the unwanted items.
	list(body io.ReadCloser) io.ReadCloser
}

// Wanted returns a Keep of the namespaces for which wanted returns true. wanted
// must not retain the bytes.
func Wanted(wanted func(namespace []byte) bool) Keep { return keep(wanted) }

// keep implements [Keep].
type keep func(namespace []byte) bool

// wants reports whether the object of an event is wanted. It returns true for
// bookmarks, errors, and events that differ from the expected form.
func (k keep) wants(event []byte) bool {
	f, ok := unwrap(event)
	return !ok || k.wantsObject(f.body.content)
}

// wantsObject reports whether an object is wanted. An object in which no
// namespace is found is wanted. It reads little of the object, because the
// metadata are its first field, and the namespace is the third field of the
// metadata.
func (k keep) wantsObject(object []byte) bool {
	metadata, ok := firstField(object, metadataNumber)
	if !ok {
		return true
	}
	namespace, ok := firstField(metadata, namespaceNumber)
	return !ok || k(namespace)
}

// firstField returns the content of the first field of data with the wanted
// number. It returns false if there is no such field, or if data is malformed
// before it.
func firstField(data []byte, wanted protowire.Number) (content []byte, ok bool) {
	for len(data) > 0 {
		number, content, size := nextField(data)
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

// filterList returns a list without the unwanted items. A list that differs
// from the expected form is returned unchanged.
func (k keep) filterList(list []byte) []byte {
	unknown, ok := bytes.CutPrefix(list, magic)
	if !ok {
		return list
	}
	body, ok := uniqueField(unknown, bodyNumber)
	if !ok {
		return list
	}
	parts, size, ok := k.partsOf(body.content)
	if !ok {
		return list
	}
	filtered := make([]byte, 0, len(magic)+len(unknown)-len(body.content)+size)
	filtered = append(append(filtered, magic...), unknown[:body.start]...)
	filtered = appendHead(filtered, bodyNumber, size)
	for _, part := range parts {
		filtered = append(filtered, part...)
	}
	return append(filtered, unknown[body.end:]...)
}

// partsOf returns the parts of a list without the unwanted items, and their
// total size. It returns false if the list differs from the expected form.
func (k keep) partsOf(list []byte) (parts [][]byte, size int, ok bool) {
	start, offset := 0, 0 // of the current part
	flush := func() {
		if offset > start {
			parts, size = append(parts, list[start:offset]), size+offset-start
		}
	}
	for offset < len(list) {
		number, content, size := nextField(list[offset:])
		if size < 0 {
			return nil, 0, false
		}
		if number == itemsNumber && content != nil && !k.wantsObject(content) {
			flush()
			start = offset + size
		}
		offset += size
	}
	flush()
	return parts, size, true
}

func (k keep) list(body io.ReadCloser) io.ReadCloser { return &filteredList{ReadCloser: body, keep: k} }

// pages keeps the buffers of lists for reuse. The pages of one list have
// similar sizes.
var pages sync.Pool

// filteredList reads a whole list at its first Read, before it returns a byte.
type filteredList struct {
	io.ReadCloser

	keep keep
	read sync.Once
	rest *bytes.Reader
	err  error
}

// Read implements [io.Reader].
func (l *filteredList) Read(p []byte) (int, error) {
	l.read.Do(func() {
		page, _ := pages.Get().(*bytes.Buffer)
		if page == nil {
			page = &bytes.Buffer{}
		}
		_, l.err = page.ReadFrom(l.ReadCloser)
		list := page.Bytes()
		if l.err == nil {
			list = l.keep.filterList(list)
		}
		if len(list) < page.Len() { // a copy
			page.Reset()
			pages.Put(page)
		}
		l.rest = bytes.NewReader(list)
	})
	n, err := l.rest.Read(p)
	if err == io.EOF && l.err != nil {
		err = l.err
	}
	return n, err
}
