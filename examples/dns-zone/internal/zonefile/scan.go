package zonefile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// A line is one line of the file.
type line struct {
	text []byte // the line, with its line end
	// key is the key of the record, if it is one of ours.
	key    types.NamespacedName
	isOurs bool
}

// zone is a parsed zone file.
type zone struct {
	lines []line
	// soa, start and end are the position of the serial:
	// lines[soa].text[start:end].
	soa, start, end int
	serial          uint32
}

// tag matches the end of each line of ours.
var tag = regexp.MustCompile(` ; managed-by=dns-zone ([a-z0-9.-]+)/([a-z0-9.-]+)\s*$`)

// A token is a word of a record: lines[line].text[start:end].
type token struct{ line, start, end int }

// A scanner parses a file. A record in parentheses can span several lines.
type scanner struct {
	zone      zone
	record    []token // words of the current record
	named     bool    // the record begins with the name of its owner
	afterOurs bool    // the previous record was one of ours
	depth     int
	found     bool // the SOA record has been found
}

// scan parses a file. An error about a line contains the number of the line.
func scan(text []byte) (*zone, error) {
	s, number := &scanner{}, 0
	for text := range bytes.Lines(text) {
		number++
		if err := s.line(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	switch {
	case s.depth > 0:
		return nil, errors.New("a parenthesis is not closed")
	case !s.found:
		return nil, errors.New("there is no SOA record")
	}
	return &s.zone, nil
}

func (s *scanner) line(text []byte) error {
	number, top := len(s.zone.lines), s.depth == 0
	if top {
		s.record, s.named = s.record[:0], !bytes.ContainsAny(text[:1], " \t")
	}
	for i := 0; i < len(text); {
		end, err := s.word(number, text, i)
		if err != nil {
			return err
		}
		i = end
	}
	l := line{text: text}
	if match := tag.FindSubmatch(text); match != nil && top && s.depth == 0 && len(s.record) > 0 && s.named {
		l.isOurs, l.key = true, types.NamespacedName{Namespace: string(match[1]), Name: string(match[2])}
	}
	s.zone.lines = append(s.zone.lines, l)
	if s.depth > 0 || len(s.record) == 0 {
		return nil
	}
	if s.afterOurs && !s.named {
		return errors.New("this record has no owner name and follows a record that dns-zone wrote: " +
			"put the owner name in front of it")
	}
	if text[0] != '$' { // a directive does not set the owner
		s.afterOurs = l.isOurs
	}
	return s.start()
}

// word reads the word at position i of text, or skips the blank, parenthesis or
// comment there. It returns the position after the word or the skipped text.
func (s *scanner) word(number int, text []byte, i int) (int, error) {
	switch text[i] {
	case ' ', '\t', '\r', '\n':
		return i + 1, nil
	case ';':
		return len(text), nil
	case '(':
		s.depth++
		return i + 1, nil
	case ')':
		s.depth--
		if s.depth < 0 {
			return 0, errors.New("a parenthesis is closed but was not opened")
		}
		return i + 1, nil
	}
	begin, quoted := i, false
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && bytes.IndexByte([]byte(" \t\r\n;()"), c) >= 0:
			s.record = append(s.record, token{number, begin, i})
			return i, nil
		}
	}
	if quoted {
		return 0, errors.New("a quoted string is not closed")
	}
	s.record = append(s.record, token{number, begin, len(text)})
	return len(text), nil
}

// start examines a complete record. If it is the SOA record, start records the
// position of the serial.
func (s *scanner) start() error {
	index := s.soa()
	switch {
	case index < 0:
		return nil
	case s.found:
		return errors.New("there is a second SOA record")
	case len(s.record) <= index+3:
		return errors.New("the SOA record has no serial")
	}
	t := s.record[index+3]
	serial, err := strconv.ParseUint(string(s.text(t)), 10, 32)
	if err != nil {
		return fmt.Errorf("reading the serial: %w", err)
	}
	s.found, s.zone.soa, s.zone.start, s.zone.end, s.zone.serial = true, t.line, t.start, t.end, uint32(serial)
	return nil
}

// soa returns the index of the word SOA in the current record, or -1 if the
// record has another type. Before the word SOA there may be the name of the
// owner, a TTL and the class IN.
func (s *scanner) soa() int {
	for i, t := range s.record {
		switch word := bytes.ToUpper(s.text(t)); {
		case i == 0 && s.named:
		case string(word) == "SOA":
			return i
		case string(word) == "IN", word[0] >= '0' && word[0] <= '9':
		default:
			return -1
		}
	}
	return -1
}

func (s *scanner) text(t token) []byte { return s.zone.lines[t.line].text[t.start:t.end] }
