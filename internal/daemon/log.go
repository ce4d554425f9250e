package daemon

import (
	"fmt"
	"io"
	"log/slog"
)

// DebugVerbosity is the -v from which on debug messages are logged.
const DebugVerbosity = 4

// Logger is the daemon's log. It fails on an unknown format.
func (f *Flags) Logger(w io.Writer) (*slog.Logger, error) {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	if f.Verbosity >= DebugVerbosity {
		options.Level = slog.LevelDebug
	}
	switch f.LogFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", f.LogFormat)
	}
}
