package intern

// Nearly all words of an object are zero, and nearly all words of two states of
// it are the same. So values are walked by words, and only the fields that have
// a part in the others are looked at. Words of lazy values are not read.

// A span is the fields that have a part in a word, in the words that they share
// with others, and so on: fields of different spans share no word.
type span struct {
	first, end uint16 // fields
	next       uint16 // the first word behind them
}

// addWords makes the spans of the fields, which are complete.
func (p *plan) addWords() {
	words := int(p.size / wordSize)
	if p.whole = p.plain || p.lazy || p.size%wordSize != 0 || words >= 1<<16 || len(p.fields) >= 1<<16; p.whole {
		p.words = []span{{end: uint16(len(p.fields)), next: 1}}
		return
	}
	p.words = make([]span, words)
	for n := range p.words {
		p.words[n].next = uint16(n + 1)
	}
	for first := 0; first < len(p.fields); {
		end := first
		behind := p.fields[first].offset / wordSize
		from := behind
		for end < len(p.fields) && (end == first || p.fields[end].offset < behind*wordSize) {
			behind = (p.fields[end].offset + p.fields[end].size + wordSize - 1) / wordSize
			end++
		}
		for n := from; n < behind; n++ {
			p.words[n] = span{uint16(first), uint16(end), uint16(behind)}
		}
		first = end
	}
}

// fieldsAt returns the fields that have a part in word n, and the word behind
// them.
func (p *plan) fieldsAt(n int) (fields []field, next int) {
	w := p.words[n]
	return p.fields[w.first:w.end], int(w.next)
}

// differs returns the first word from n on that is not the same in a and b, or
// not zero if b is nil.
func (p *plan) differs(a, b place, n int) int {
	if b == nil {
		return p.filled(a, n)
	}
	if !p.whole {
		for n < len(p.words) && wordAt(a, n) == wordAt(b, n) {
			n++
		}
	}
	return n
}

// filled returns the first word from n on that is not zero.
func (p *plan) filled(a place, n int) int {
	if !p.whole {
		for n < len(p.words) && wordAt(a, n) == 0 {
			n++
		}
	}
	return n
}
