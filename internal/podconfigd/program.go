package podconfigd

import (
	"context"
	"io"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/mergesvc/merge"
)

// Extra is one or more sources that a main adds to those of podconfigd.
type Extra interface {
	// AddFlags adds its flags to podconfigd's.
	AddFlags(fs *pflag.FlagSet)
	// Sources returns the names of its sources, once the flags are parsed, or an error in the flags. They follow
	// podconfigd's own in the order of priority.
	Sources() ([]merge.Source, error)
	// Run feeds its sources until ctx ends, and then returns nil; any error ends podconfigd.
	Run(ctx context.Context, hub Hub) error
}

// Hub takes an Extra's sets.
type Hub struct {
	// Apply merges a set. The resulting revision is published when Apply returns.
	Apply func(manifest.Set)
	// Configure replaces the configured sources. They are in order of priority. The resulting revision is published
	// when Configure returns. The next reload configures those of the configuration and of the Extras again.
	Configure func([]merge.Source)
	// Published returns the revision that was published last, and its instance.
	Published func() (instance string, revision uint64)
}

// Program returns podconfigd with some further sources; without any it is podconfigd as it is shipped.
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
