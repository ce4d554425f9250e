package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon/process"
)

// Program is the common part of a daemon's main.
type Program[Options any] struct {
	// Name is the binary's name, for messages.
	Name string
	// Parse parses the flags, and the files that they name. Help and version go to stdout; pflag.ErrHelp is no
	// failure.
	Parse func(args []string, stdout io.Writer) (Options, error)
	// Serve runs until ctx ends, and logs to stderr.
	Serve func(ctx context.Context, opts Options, stderr io.Writer) error
}

// Main runs the program until SIGINT or SIGTERM, and ends the process with its exit code. A second signal kills it.
func (p Program[Options]) Main() {
	process.Main(func(ctx context.Context) int { return p.Run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}

// Run is Main without the process. It returns the exit code: 2 for an error in the flags or the configuration, 1 for
// any other failure.
func (p Program[Options]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := p.Parse(args, stdout)
	if errors.Is(err, pflag.ErrHelp) {
		return 0
	}
	if err != nil {
		// One error per line: files may have several.
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(stderr, "%s: %s\n", p.Name, line)
		}
		return 2
	}
	if err := p.Serve(ctx, opts, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return 1
	}
	return 0
}
