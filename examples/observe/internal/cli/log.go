package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
	"github.com/homeostat/homeostat/operator"
)

// logger returns a logger that writes to w. The text format is for people at a
// terminal: an error is one line with its object and its reason. Messages of
// level 8 and more are left out at every verbosity, because client-go logs the
// bodies of requests and answers there, such as Secrets.
func (s *settings) logger(w io.Writer) logr.Logger {
	if s.logFormat == "json" {
		return operator.Logger(w, true, s.verbosity)
	}
	return logr.FromSlogHandler(&terse{output: w, level: slog.Level(-min(s.verbosity, 7))})
}

// terse is a slog.Handler for people. It hides attributes that say little to a
// user (logger, controller, kind, attempt and causes), unless the verbosity is
// at least 1.
type terse struct {
	output io.Writer
	level  slog.Level
	attrs  []slog.Attr
}

func (h *terse) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *terse) WithGroup(string) slog.Handler                { return h }

func (h *terse) WithAttrs(attrs []slog.Attr) slog.Handler {
	derived := *h
	derived.attrs = append(slices.Clip(h.attrs), attrs...)
	return &derived
}

func (h *terse) Handle(_ context.Context, r slog.Record) error {
	var namespace, name, reason string
	var rest strings.Builder
	show := func(a slog.Attr) bool {
		switch value := a.Value.String(); a.Key {
		case "namespace":
			namespace = value
		case "name":
			name = value
		case "err":
			reason = value
		case "url": // of a request; client-go logs it from level 6 on
			if address, err := url.Parse(value); err == nil {
				fmt.Fprintf(&rest, " %s=%s", a.Key, address.Redacted())
			}
		case "logger", "controller", "kind", "attempt", "causes":
			if h.level < slog.LevelInfo {
				fmt.Fprintf(&rest, " %s=%s", a.Key, value)
			}
		default:
			fmt.Fprintf(&rest, " %s=%s", a.Key, value)
		}
		return true
	}
	for _, a := range h.attrs {
		show(a)
	}
	r.Attrs(show)
	line := r.Message + rest.String()
	if reason != "" {
		line = reason + " (" + line + ")"
	}
	if name != "" {
		line = strings.TrimPrefix(namespace+"/"+name, "/") + ": " + line
	}
	prefix := "observe: "
	if r.Level >= slog.LevelError {
		prefix = "error: "
	}
	_, err := h.output.Write(fmt.Appendf(nil, "%s%s\n", prefix, oneLine(line)))
	return err
}

// oneLine returns text as a single line without control characters, so that
// text from the cluster cannot look like other log lines.
func oneLine(text string) string {
	return strings.ReplaceAll(string(command.Visible([]byte(strings.TrimSpace(text)))), "\n", "; ")
}
