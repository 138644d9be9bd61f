package queue

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// kept says how a version is kept in a word.
type kept uint8

const (
	apart    kept = iota // it is not
	asText               // its bytes, the first one lowest
	asNumber             // what FormatUint prints the same
)

const wordSize = 8

// fold keeps a version in a word, if it can. Short ones are taken as they are,
// since that is faster than to read a number.
func fold(version string) (word uint64, how kept) {
	if n := len(version); n <= wordSize && (n == 0 || version[n-1] != 0) {
		return bytesOf(version), asText
	}
	if n, ok := number(version); ok {
		return n, asNumber
	}
	return 0, apart
}

// unfold returns the version that fold has kept, or else the text.
func unfold(word uint64, how kept, text string) string {
	switch how {
	case asText:
		var all [wordSize]byte
		binary.LittleEndian.PutUint64(all[:], word)
		return string(bytes.TrimRight(all[:], "\x00"))
	case asNumber:
		return strconv.FormatUint(word, 10)
	default:
		return text
	}
}

// bytesOf returns the bytes of a text of at most eight, by two halves that may
// overlap.
func bytesOf(text string) (word uint64) {
	const half = wordSize / 2
	if n := len(text); n >= half {
		last := text[n-half:]
		return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			(uint64(last[0])|uint64(last[1])<<8|uint64(last[2])<<16|uint64(last[3])<<24)<<(8*(n-half))
	}
	for i := range len(text) {
		word |= uint64(text[i]) << (8 * i)
	}
	return word
}

// number reads a version that FormatUint would print the same.
func number(version string) (uint64, bool) {
	const safe = 19 // digits that never overflow
	if version == "" || len(version) > safe || version[0] == '0' && len(version) > 1 {
		return 0, false
	}
	var n uint64
	for i := range len(version) {
		digit := version[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + uint64(digit)
	}
	return n, true
}
