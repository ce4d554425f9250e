package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// DebugVerbosity is the lowest -v that logs debug messages.
const DebugVerbosity = 4

// Logger returns the daemon's log, whose verbosity SetVerbosity changes. It fails on an unknown format.
func (f *Flags) Logger(w io.Writer) (*slog.Logger, error) {
	f.level = &slog.LevelVar{}
	f.level.Set(levelOf(f.Verbosity))
	options := &slog.HandlerOptions{Level: f.level}
	switch f.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", f.LogFormat)
	}
}

// SetVerbosity sets the log's -v. Logger must have been called.
func (f *Flags) SetVerbosity(verbosity string) error {
	v, err := strconv.Atoi(strings.TrimSpace(verbosity))
	if err != nil {
		return fmt.Errorf("a verbosity is a number: %w", err)
	}
	f.level.Set(levelOf(v))
	return nil
}

func levelOf(verbosity int) slog.Level {
	if verbosity >= DebugVerbosity {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
