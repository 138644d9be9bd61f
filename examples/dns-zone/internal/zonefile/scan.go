package zonefile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
)

// A line is a line of the file.
type line struct {
	text []byte // with its end
	// key is whose record it is, if it is one of ours.
	key  types.NamespacedName
	ours bool
}

// zone is a parsed file.
type zone struct {
	lines []line
	// The serial stands in lines[soa].text[from:to].
	soa, from, to int
	serial        uint32
}

// tag ends each line of ours.
var tag = regexp.MustCompile(` ; managed-by=dns-zone ([a-z0-9.-]+)/([a-z0-9.-]+)\s*$`)

// A token is a word of a record: lines[line].text[from:to].
type token struct{ line, from, to int }

// A scanner reads a file. Records go over several lines in parentheses.
type scanner struct {
	zone   zone
	record []token // of the record that is being read
	named  bool    // it begins with the name of its owner
	after  bool    // the record before was one of ours
	depth  int
	found  bool // the SOA record
}

// scan reads a file. Errors name the line.
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
		next, err := s.word(number, text, i)
		if err != nil {
			return err
		}
		i = next
	}
	l := line{text: text}
	if match := tag.FindSubmatch(text); match != nil && top && s.depth == 0 && len(s.record) > 0 && s.named {
		l.ours, l.key = true, types.NamespacedName{Namespace: string(match[1]), Name: string(match[2])}
	}
	s.zone.lines = append(s.zone.lines, l)
	if s.depth > 0 || len(s.record) == 0 {
		return nil
	}
	if s.after && !s.named {
		return errors.New("it has no name and follows a record of ours: give it the name that it is about")
	}
	if text[0] != '$' { // a directive names no owner
		s.after = l.ours
	}
	return s.start()
}

// word reads one word, or passes one other character over, and returns where to
// go on.
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
			return 0, errors.New("a parenthesis is closed that is not open")
		}
		return i + 1, nil
	}
	from, quoted := i, false
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && bytes.IndexByte([]byte(" \t\r\n;()"), c) >= 0:
			s.record = append(s.record, token{number, from, i})
			return i, nil
		}
	}
	if quoted {
		return 0, errors.New("a quoted string has no end")
	}
	s.record = append(s.record, token{number, from, len(text)})
	return len(text), nil
}

// start looks at a record that is complete: the SOA record has the serial.
func (s *scanner) start() error {
	at := s.soa()
	switch {
	case at < 0:
		return nil
	case s.found:
		return errors.New("there is a second SOA record")
	case len(s.record) <= at+3:
		return errors.New("the SOA record has no serial")
	}
	t := s.record[at+3]
	serial, err := strconv.ParseUint(string(s.text(t)), 10, 32)
	if err != nil {
		return fmt.Errorf("reading the serial: %w", err)
	}
	s.found, s.zone.soa, s.zone.from, s.zone.to, s.zone.serial = true, t.line, t.from, t.to, uint32(serial)
	return nil
}

// soa returns where the record says that it is an SOA record: after its owner,
// and perhaps a class and a TTL; or -1.
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

func (s *scanner) text(t token) []byte { return s.zone.lines[t.line].text[t.from:t.to] }
