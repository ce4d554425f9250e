package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/daemon/process"
)

// The exit codes of Run.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends a command with an exit code of its own.
type exitError struct {
	code int
	err  error // nil: the code is the answer
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

func (e *exitError) Unwrap() error { return e.err }

// Config is what Run needs to know.
type Config struct {
	// Args are the command line's arguments, without the program's name.
	Args []string
	// Stdin is what a file named "-" stands for, and what exec passes on. Nil: the process's own.
	Stdin io.Reader
	// Stdout takes the answer, Stderr everything else. Nil discards.
	Stdout, Stderr io.Writer
	// Clock tells the time of the lines that watch prints, of ages, and waits before a reconnection. Nil: the system's.
	Clock clock.Clock
	// Hostname goes into the consumer's name. Empty: the system's.
	Hostname string
	// ReconnectDelay is the first wait before watch reconnects; it doubles up to 40 times itself. Zero: 250 ms.
	ReconnectDelay time.Duration
	// Silence is how long watch and record wait for a sign of life from podconfigd. Zero: three times their --heartbeat-interval.
	Silence time.Duration
	// Version is what `podctl version` tells. Empty: what the build recorded.
	Version string
}

// tool holds what all commands share: the configuration, with its defaults filled in, and the global flags.
type tool struct {
	Config
	podconfigd, podexecd daemon
	tls                  client.TLS
	output               output
	requestTimeout       time.Duration
}

// Run runs one command to its end, or until ctx is done, and returns the exit code.
func Run(ctx context.Context, cfg Config) int {
	t := newTool(cfg)
	root := t.command()
	// Cobra checks arguments and flags before it runs a command's hooks, so whatever fails earlier is wrong usage.
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }

	cmd, err := root.ExecuteContextC(ctx)
	code := exitFailed
	if own, ok := errors.AsType[*exitError](err); ok {
		code, err = own.code, own.err
	} else if err == nil {
		code = exitOK
	}
	switch {
	case err == nil:
	case !understood:
		t.note("%v; run '%s --help' for usage", err, cmd.CommandPath())
		return exitUsage
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || status.Code(err) == codes.Canceled):
		t.note("interrupted")
	default:
		t.noteErrors(err)
	}
	return code
}

func newTool(cfg Config) *tool {
	if cfg.Stdin == nil {
		cfg.Stdin = os.Stdin
	}
	if cfg.Stdout == nil {
		cfg.Stdout = io.Discard
	}
	if cfg.Stderr == nil {
		cfg.Stderr = io.Discard
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Hostname == "" {
		// Without a hostname the consumer is just called "podctl@"; that is no reason to show nothing.
		cfg.Hostname, _ = os.Hostname()
	}
	if cfg.ReconnectDelay <= 0 {
		cfg.ReconnectDelay = 250 * time.Millisecond
	}
	if cfg.Version == "" {
		cfg.Version = process.Version()
	}
	t := &tool{Config: cfg, output: outputTable}
	t.podconfigd = daemon{name: "podconfigd", endpoint: endpoint{path: "/run/podstream/podconfigd.sock"}, tls: &t.tls}
	t.podexecd = daemon{name: "podexecd", endpoint: endpoint{path: "/run/podstream/podexecd.sock"}, tls: &t.tls}
	return t
}

func (t *tool) command() *cobra.Command {
	root := &cobra.Command{
		Use:           "podctl",
		Short:         "Show what should run on this node, and what does",
		Long:          "Podctl shows the pods that podconfigd publishes for this node and what podexecd has made of them.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       t.Version,
	}
	root.SetVersionTemplate(process.VersionText("podctl", "{{.Version}}"))
	root.Flags().Bool("version", false, "print the version of podctl") // cobra would add -v too, which is the daemons' verbosity
	root.SetArgs(t.Args)
	if t.Args == nil {
		root.SetArgs([]string{}) // nil would make cobra read the process's own arguments
	}
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)

	flags := root.PersistentFlags()
	flags.Var(&t.podconfigd.endpoint, "podconfig-endpoint", "where podconfigd listens: unix:///path or tcp://host:port")
	flags.Var(&t.podexecd.endpoint, "podexec-endpoint", "where podexecd listens: unix:///path or tcp://host:port")
	addTLSFlags(flags, &t.tls)
	flags.VarP(&t.output, "output", "o", "the `format` to print: table, wide, json or yaml")
	flags.DurationVar(&t.requestTimeout, "request-timeout", 10*time.Second,
		"how long to wait for a daemon's lists; 0 waits forever. Not for watch")

	root.AddCommand(t.watchCommand(), t.podsCommand(), t.describeCommand(), t.eventsCommand(), t.logsCommand(), t.execCommand(),
		t.sourcesCommand(), t.objectsCommand(), t.consumersCommand(), t.diffCommand(), t.doctorCommand(), t.recordCommand(), t.replayCommand(),
		t.versionCommand())
	for _, cmd := range root.Commands() {
		hideIgnored(cmd)
	}
	return root
}

// note prints one line for people on Stderr.
func (t *tool) note(format string, args ...any) {
	// There is nobody left to tell that Stderr can't be written.
	_, _ = fmt.Fprintf(t.Stderr, "podctl: %s\n", escapeText(fmt.Sprintf(format, args...)))
}

// noteErrors prints one line for each of the errors that were joined to err.
func (t *tool) noteErrors(err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			t.noteErrors(e)
		}
		return
	}
	t.note("%v", err)
}

// listContext bounds the time that a list may take.
func (t *tool) listContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.requestTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, t.requestTimeout)
}

// userAgent is how podctl presents itself in the daemons' logs.
func (t *tool) userAgent() string { return "podctl/" + t.Version }

// consumerName is what podconfigd calls this consumer. Over TLS a consumer goes by the name in its certificate.
func (t *tool) consumerName(command string) string {
	if t.podconfigd.endpoint.address != "" {
		return ""
	}
	return command + "@" + t.Hostname
}
