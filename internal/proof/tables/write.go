package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// write returns the page with the measurements of a day.
func (m *measured) write(page, day string) (string, error) {
	if len(m.bugs) > 0 {
		var err error
		if page, err = replaceBetween(page, "zoo", func(string) string { return m.zooTable(day) }); err != nil {
			return "", err
		}
	}
	left := maps.Clone(m.explored)
	for _, mark := range []string{"examples", "cases"} {
		var err error
		page, err = replaceBetween(page, mark, func(old string) string {
			lines := strings.Split(old, "\n")
			for i, line := range lines {
				cells := strings.Split(line, " | ")
				title := strings.TrimPrefix(cells[0], "| ")
				if x, ok := m.explored[title]; ok && len(cells) > 1 {
					lines[i] = x.row(title, day)
					delete(left, title)
				}
			}
			return strings.Join(lines, "\n")
		})
		if err != nil {
			return "", err
		}
	}
	for title := range left {
		return "", fmt.Errorf("the page has no row for %q", title)
	}
	return page, nil
}

// replaceBetween replaces the text between the two comments with the given mark
// by the result of replace, and returns the page.
func replaceBetween(page, mark string, replace func(old string) string) (string, error) {
	begin, end := "<!-- begin of the measured "+mark+" -->\n", "<!-- end of the measured "+mark+" -->"
	head, rest, begins := strings.Cut(page, begin)
	old, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return "", fmt.Errorf("the page has no comments around the measured %s", mark)
	}
	return head + begin + replace(old) + end + tail, nil
}

const zooHead = `| class | bug | found by | on Homeostat | steps | runs | time |
|---|---|---|---|--:|--:|--:|
`

func (m *measured) zooTable(day string) string {
	var b strings.Builder
	b.WriteString(zooHead)
	for _, row := range byClass(m.bugs) {
		b.WriteString(row + "\n")
	}
	fmt.Fprintf(&b, "\nMeasured on %s, in processor time, at a load of %s.", day,
		span(m.loads, func(l float64) string { return strconv.Itoa(int(math.Round(l))) }))
	if len(m.twins) > 0 {
		runs := 0
		for _, x := range m.twins {
			runs += x.runs
		}
		count := func(value func(exploration) int) string {
			return span(m.twins, func(x exploration) string { return strconv.Itoa(value(x)) })
		}
		fmt.Fprintf(&b, " None of the %s runs of the %d twins fails: %s for each, with %s single faults.", group(runs),
			len(m.twins), count(func(x exploration) int { return x.runs }), count(func(x exploration) int { return x.planned }))
	}
	b.WriteString("\n")
	return b.String()
}

// byClass groups rows by their class, which is in their first cell.
func byClass(rows []string) (sorted []string) {
	class := func(row string) string { return strings.SplitN(row, " | ", 2)[0] }
	for i, row := range rows {
		if slices.ContainsFunc(rows[:i], func(r string) bool { return class(r) == class(row) }) {
			continue
		}
		for _, r := range rows[i:] {
			if class(r) == class(row) {
				sorted = append(sorted, r)
			}
		}
	}
	return sorted
}

// span returns the smallest and the largest of values as text, such as "3 to
// 7". word formats a value.
func span[T any](values []T, word func(T) string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = word(v)
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	if len(words) == 0 || words[0] == words[len(words)-1] {
		return strings.Join(words[:min(len(words), 1)], "")
	}
	return words[0] + " to " + words[len(words)-1]
}

// row returns the line of an exploration in a table of explorations.
func (x exploration) row(title, day string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %s | %s | %s | %s s | %.0f ms | %.0f | %s |", title, x.calls, x.writes,
		x.events, group(x.planned), group(x.pairs), group(x.runs), seconds(x.seconds), 1000*x.seconds/float64(x.runs),
		x.load, day)
}

func seconds(s float64) string {
	if s < 10 {
		return strconv.FormatFloat(s, 'f', 1, 64)
	}
	return strconv.FormatFloat(s, 'f', 0, 64)
}

// group writes a number with a comma before each three digits.
func group(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
