package podconfigd

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// Extra is a source, or several, that a main adds to those of podconfigd.
type Extra interface {
	// AddFlags adds its flags to podconfigd's.
	AddFlags(fs *pflag.FlagSet)
	// Sources are the names that it feeds, once the flags are parsed, or what is wrong with these. They stand behind
	// podconfigd's own in the order of priority.
	Sources() ([]merge.Source, error)
	// Run feeds its sources until ctx ends, and then returns nil; any error ends podconfigd.
	Run(ctx context.Context, hub Hub) error
}

// Hub is where an Extra's sets go.
type Hub struct {
	// Apply merges a set. What it changes is published when Apply returns.
	Apply func(manifest.Set)
	// Configure makes these the configured sources, in order of priority. What it changes is published when Configure returns. The next
	// reload makes those of the configuration and of the Extras the configured ones again.
	Configure func([]merge.Source)
	// Published is the revision that was published last, and the instance that counts it.
	Published func() (instance string, revision uint64)
}

// Program is podconfigd with some further sources; without any it is podconfigd as it is shipped.
func Program(extras ...Extra) daemon.Program[*Options] {
	return daemon.Program[*Options]{
		Name: "podconfigd",
		Parse: func(args []string, stdout io.Writer) (*Options, error) {
			return parse(args, stdout, extras)
		},
		Serve: func(ctx context.Context, opts *Options, stderr io.Writer) error {
			return serve(ctx, opts, stderr, extras)
		},
	}
}
