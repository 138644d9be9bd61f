package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/homeostat/homeostat/examples/observe/internal/command"
)

// logger writes to out. Text is for people in front of a terminal: an error is
// one line with its object and its reason.
func (s *settings) logger(out io.Writer) logr.Logger {
	level := slog.Level(-s.verbosity)
	if s.logFormat == "json" {
		return logr.FromSlogHandler(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
	}
	return logr.FromSlogHandler(&terse{out: out, level: level})
}

// terse is a slog.Handler. The attributes of every reconcile (attempt, causes, kind)
// are shown from verbosity 1 on.
type terse struct {
	out   io.Writer
	level slog.Level
	attrs []slog.Attr
}

func (h *terse) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }
func (h *terse) WithGroup(string) slog.Handler                { return h }

func (h *terse) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.attrs = append(slices.Clip(h.attrs), attrs...)
	return &with
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
	_, err := h.out.Write(fmt.Appendf(nil, "%s%s\n", prefix, oneLine(line)))
	return err
}

// oneLine keeps text from the cluster from looking like other lines.
func oneLine(text string) string {
	return strings.ReplaceAll(string(command.Visible([]byte(strings.TrimSpace(text)))), "\n", "; ")
}
