package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// record contains the figures of an operator, as a line of the file beside the
// page.
type record struct {
	Operator, Version string
	Date              string  // the day of the measurement
	Load              float64 // the load average of the machine at the end; the measured program itself adds about 1
	Rounds            int
	Rests, Changing   string             `json:",omitempty"` // durations, if they differ from the defaults
	Figures           map[string]figures // the median of each figure, by variant
	Remark            string             `json:",omitempty"` // what the page says about a special measurement
}

// results returns the name of the file with the records. It is the name of the
// page with the suffix .jsonl.
func (l *laboratory) results() string {
	return strings.TrimSuffix(l.page, filepath.Ext(l.page)) + ".jsonl"
}

// records returns the records in the file beside the page, by the name of the
// operator. If the file does not exist, the map is empty.
func (l *laboratory) records() (map[string]record, error) {
	byOperator := map[string]record{}
	text, err := os.ReadFile(l.results())
	if errors.Is(err, fs.ErrNotExist) {
		return byOperator, nil
	}
	if err != nil {
		return nil, err
	}
	for n, line := range bytes.Split(bytes.TrimSpace(text), []byte("\n")) {
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("reading line %d of %s: %w", n+1, l.results(), err)
		}
		byOperator[r.Operator] = r
	}
	return byOperator, nil
}

// keep writes the figures of an operator to the file beside the page, in place
// of its earlier figures. The figures of other operators stay. If there is no
// page, keep does nothing.
func (l *laboratory) keep(o *operator, figures map[string]figures) error {
	if l.page == "" {
		return nil
	}
	byOperator, err := l.records()
	if err != nil {
		return err
	}
	r := record{
		Operator: o.Name, Version: o.Version, Date: time.Now().UTC().Format(time.DateOnly), Load: loadAverage(),
		Rounds: l.rounds, Figures: figures,
	}
	if l.rest != rests {
		r.Rests = l.rest.String()
	}
	if l.changing != changing {
		r.Changing = l.changing.String()
	}
	byOperator[o.Name] = r
	var b bytes.Buffer
	for _, o := range operators {
		r, ok := byOperator[o.Name]
		if !ok {
			continue
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(l.results(), b.Bytes(), 0o644)
}

// loadAverage returns the load average of the last five minutes, or 0 if the
// system does not report it.
func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	var one, five float64
	if _, err := fmt.Sscan(string(text), &one, &five); err != nil {
		return 0
	}
	return five
}
