package apisim

import (
	"encoding/json"
	"slices"
	"strconv"
)

// encode returns the same bytes as json.Marshal for a decoded object, in a
// third of the time. Stored objects are encoded at every write.
func encode(obj object) ([]byte, error) { return appendValue(make([]byte, 0, 1024), obj) }

func appendValue(b []byte, v any) ([]byte, error) {
	switch t := v.(type) {
	case object:
		if t != nil {
			return appendObject(b, t)
		}
	case []any:
		if t != nil {
			return appendList(b, t)
		}
	case string:
		return appendString(b, t)
	case int64:
		return strconv.AppendInt(b, t, 10), nil
	case bool:
		return strconv.AppendBool(b, t), nil
	}
	encoded, err := json.Marshal(v)
	return append(b, encoded...), err
}

func appendObject(b []byte, o object) ([]byte, error) {
	var buffer [16]string
	fields := buffer[:0]
	for field := range o {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	b = append(b, '{')
	for i, field := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, field); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ':'), o[field]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendList(b []byte, list []any) ([]byte, error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendString appends s as JSON. It calls json.Marshal for strings that need
// escaping.
func appendString(b []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, err := json.Marshal(s)
			return append(b, quoted...), err
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), nil
}
