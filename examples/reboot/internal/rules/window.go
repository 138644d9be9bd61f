package rules

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homeostat/homeostat/examples/reboot/api"
)

// Windows are the maintenance windows of a group. Without windows a reboot may
// always begin.
type Windows []window

type window struct {
	days       []time.Weekday // the days on which the window begins; nil means all days
	start, end int            // minutes since midnight
	zone       *time.Location
}

const day = 24 * 60 // in minutes

// NewWindows parses the windows of a group. It returns the windows that can be
// parsed, and an error that names the first malformed field of each other
// window.
func NewWindows(g *api.RebootGroup) (Windows, error) {
	var windows Windows
	var errs []error
	for i, w := range g.Spec.Windows {
		parsed, err := newWindow(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("RebootGroup %q: spec.windows[%d].%w", g.Name, i, err))
			continue
		}
		windows = append(windows, parsed)
	}
	return windows, errors.Join(errs...)
}

func newWindow(w api.Window) (window, error) {
	var parsed window
	var err error
	if parsed.start, err = minute(w.Start); err != nil {
		return parsed, fmt.Errorf("start is %q: set a time such as 22:00", w.Start)
	}
	if parsed.end, err = minute(w.End); err != nil || parsed.end == parsed.start {
		return parsed, fmt.Errorf("end is %q: set a time other than the start, such as 06:00", w.End)
	}
	if parsed.zone, err = time.LoadLocation(w.TimeZone); err != nil {
		return parsed, fmt.Errorf("timeZone is %q: set a name of the IANA database, such as Europe/Berlin", w.TimeZone)
	}
	for _, name := range w.Days {
		i := slices.IndexFunc(weekdays(), func(d time.Weekday) bool { return d.String()[:3] == name })
		if i < 0 {
			return parsed, fmt.Errorf("days contains %q: set Mon, Tue, Wed, Thu, Fri, Sat or Sun", name)
		}
		parsed.days = append(parsed.days, time.Weekday(i))
	}
	return parsed, nil
}

func weekdays() []time.Weekday {
	return []time.Weekday{
		time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday, time.Saturday,
	}
}

func minute(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	return t.Hour()*60 + t.Minute(), err
}

// Open reports whether a reboot may begin at the time t.
func (w Windows) Open(t time.Time) bool {
	return len(w) == 0 || slices.ContainsFunc(w, func(x window) bool { return x.open(t) })
}

// open reports whether the window is open at the time t.
func (w window) open(t time.Time) bool {
	local := t.In(w.zone)
	now, today := local.Hour()*60+local.Minute(), local.Weekday()
	yesterday := (today + 6) % 7
	if w.start < w.end {
		return w.begins(today) && w.start <= now && now < w.end
	}
	return w.begins(today) && now >= w.start || w.begins(yesterday) && now < w.end
}

func (w window) begins(day time.Weekday) bool { return w.days == nil || slices.Contains(w.days, day) }

// Change returns the first time after start at which the windows open or close.
// It returns the zero time if there are no windows, or if none of the next 500
// beginnings and ends of single windows is such a time.
func (w Windows) Change(start time.Time) time.Time {
	const maxEdges = 500 // 32 windows have 64 edges a day
	open := w.Open(start)
	for t, i := start, 0; i < maxEdges; i++ {
		next := time.Time{}
		for _, x := range w {
			if edge := x.edge(t); next.IsZero() || edge.Before(next) {
				next = edge
			}
		}
		if next.IsZero() || w.Open(next) != open {
			return next
		}
		t = next
	}
	return time.Time{}
}

// edge returns the first time after the given one at which the window may open
// or close. At that time the window starts or ends by the local clock, or the
// local clock is changed, for example to summer time.
func (w window) edge(start time.Time) time.Time {
	local := start.In(w.zone)
	_, offset := local.Zone()
	fixed := time.FixedZone("", offset) // valid until the clock is changed
	midnight := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, fixed)
	var next time.Time
	for _, m := range []int{w.start, w.end, w.start + day, w.end + day} {
		t := midnight.Add(time.Duration(m) * time.Minute)
		if t.After(start) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if _, change := local.ZoneBounds(); !change.IsZero() && change.Before(next) {
		return change
	}
	return next
}
