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
	"github.com/podstream/podstream/internal/podctl/render"
)

// The exit codes of Run.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitError ends a command with a specific exit code.
type exitError struct {
	code int
	err  error // nil: the exit code is the result
}

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d: %v", e.code, e.err) }

func (e *exitError) Unwrap() error { return e.err }

// Config configures Run.
type Config struct {
	// Args are the command line's arguments, without the program's name.
	Args []string
	// Stdin is the content of a file named "-", and the standard input of exec. Nil means the process's own.
	Stdin io.Reader
	// Stdout receives the result, Stderr everything else. Nil discards.
	Stdout, Stderr io.Writer
	// Clock gives the times and ages that are printed, and the delays before a reconnection. Nil means the system's.
	Clock clock.Clock
	// Hostname is part of the consumer's name. Empty means the system's.
	Hostname string
	// ReconnectDelay is the first delay before watch reconnects; it doubles up to 40 times itself. Zero means 250 ms.
	ReconnectDelay time.Duration
	// Silence is how long watch and record wait for a message from podconfigd. Zero means three times their
	// --heartbeat-interval.
	Silence time.Duration
	// MaxItems and MaxItemBytes are the bounds of a list, and of the pods that a stream follows. Zero means 200,000 and 256 MiB.
	MaxItems, MaxItemBytes int
	// CompletionPatience is how long a completion waits for the daemons' answers. Zero means a second.
	CompletionPatience time.Duration
	// Getenv returns an environment variable. Nil means the process's own.
	Getenv func(name string) string
	// Version is the version that `podctl version` prints. Empty means the version of the build.
	Version string
}

// tool is shared by all commands: the configuration, with its defaults filled in, and the global flags.
type tool struct {
	Config
	podconfigd, podexecd daemon
	tls                  client.TLS
	output               render.Format
	listing              listing
	context              contextFlags
	requestTimeout       time.Duration
}

// Run runs one command until it ends or ctx ends, and returns the exit code.
func Run(ctx context.Context, cfg Config) int {
	t := newTool(cfg)
	if err := t.readEnvironment(); err != nil {
		t.note("%v", err)
		return exitUsage
	}
	root := t.command()
	// Cobra checks arguments and flags before it runs a command's hooks, so an earlier failure is a usage error.
	understood := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkIgnored(cmd); err != nil {
			return err
		}
		understood = true
		if err := t.useContext(cmd.Context(), cmd); err != nil {
			return &exitError{code: failureCode(cmd), err: err}
		}
		return nil
	}

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
		if unknown := unknownCommand(root, t.Args); unknown != nil {
			err = unknown
		}
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
		// Without a hostname the consumer is named "podctl@"; that is no reason to fail.
		cfg.Hostname, _ = os.Hostname()
	}
	if cfg.ReconnectDelay <= 0 {
		cfg.ReconnectDelay = 250 * time.Millisecond
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.Version == "" {
		cfg.Version = process.Version()
	}
	t := &tool{Config: cfg, output: render.TableFormat}
	t.podconfigd = daemon{name: "podconfigd", tls: &t.tls}
	t.podexecd = daemon{name: "podexecd", tls: &t.tls}
	return t
}

func (t *tool) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "podctl",
		Short: "Show what should run on this node, and what does",
		Long: `Podctl shows the pods that podconfigd publishes for this node, and the state of each as podexecd observes it.

PODSTREAM_RUN_DIR is the directory of both daemons' sockets; PODSTREAM_PODCONFIG_ENDPOINT and PODSTREAM_PODEXEC_ENDPOINT are the
single endpoints. They take precedence over the current context of podctl.yaml (see podctl config), and flags over all of them:
first those of single endpoints, then --context.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		// unknownCommand suggests instead: cobra's text has several lines.
		DisableSuggestions:         true,
		SuggestionsMinimumDistance: 2,
	}
	// Not by cobra's Version: its template would link text/template, which may call any method by its name, so that the linker
	// keeps all of them: 5 MB. Cobra would add -v too, which is the daemons' verbosity.
	version := root.Flags().Bool("version", false, "print the version of podctl")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*version {
			return cmd.Help()
		}
		if _, err := io.WriteString(t.Stdout, process.VersionText("podctl", t.Version)); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	root.SetArgs(t.Args)
	if t.Args == nil {
		root.SetArgs([]string{}) // nil would make cobra read the process's own arguments
	}
	root.SetOut(t.Stdout)
	root.SetErr(t.Stderr)

	flags := root.PersistentFlags()
	flags.Var(&t.podconfigd.endpoint, "podconfig-endpoint", "where podconfigd listens: a socket's path, or tcp://host:port")
	flags.Var(&t.podexecd.endpoint, "podexec-endpoint", "where podexecd listens: a socket's path, or tcp://host:port")
	addTLSFlags(flags, &t.tls)
	flags.StringVar(&t.context.name, contextFlag, "", "the `name` of a context of podctl.yaml: its endpoints and credentials; default: the current one")
	flags.StringVar(&t.context.file, configFlag, "",
		"the `path` of podctl.yaml; empty: none is read (default "+envConfig+", or ~/.config/podstream/podctl.yaml)")
	flags.VarP(&t.output, "output", "o", "the `format` to print: table, wide, json, yaml, name, jsonpath=... or custom-columns=...")
	flags.DurationVar(&t.requestTimeout, "request-timeout", 10*time.Second,
		"how long to wait for a daemon's lists; 0 waits forever. Not for watch")

	root.AddCommand(
		t.applyCommand(),
		t.attachCommand(),
		t.configCommand(),
		t.consumersCommand(),
		t.cpCommand(),
		t.deleteCommand(),
		t.describeCommand(),
		t.diffCommand(),
		t.doctorCommand(),
		t.editCommand(),
		t.eventsCommand(),
		t.execCommand(),
		t.getCommand(),
		t.imagesCommand(),
		t.volumesCommand(),
		t.logsCommand(),
		t.migrateCommand(),
		t.objectsCommand(),
		t.podsCommand(),
		t.portForwardCommand(),
		t.profileCommand(),
		t.psCommand(),
		t.recordCommand(),
		t.replayCommand(),
		t.restartCommand(),
		t.sourcesCommand(),
		t.topCommand(),
		t.versionCommand(),
		t.waitCommand(),
		t.watchCommand(),
		t.webCommand(),
	)
	for _, cmd := range root.Commands() {
		hideIgnored(cmd)
	}
	t.addCompletions(root)
	return root
}

// note prints one line for the user on Stderr.
func (t *tool) note(format string, args ...any) {
	// There is no other place to report that Stderr can't be written.
	_, _ = fmt.Fprintf(t.Stderr, "podctl: %s\n", render.Escape(fmt.Sprintf(format, args...)))
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

// listContext limits the time of a list.
func (t *tool) listContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if t.requestTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, t.requestTimeout)
}

// userAgent is podctl's name in the daemons' logs.
func (t *tool) userAgent() string { return "podctl/" + t.Version }

// consumerName is the name of this consumer at podconfigd. Over TLS it is the name in the certificate.
func (t *tool) consumerName(command string) string {
	if t.podconfigd.endpoint.address != "" {
		return ""
	}
	return command + "@" + t.Hostname
}
