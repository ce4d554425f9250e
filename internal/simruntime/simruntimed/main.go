// Command simruntimed serves the simulated container runtime on a Unix socket. It is for trials of podexecd without
// root and without a real runtime. Its containers end when it ends.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/grpcserver"
	"github.com/podstream/podstream/internal/simruntime"
)

func main() {
	program.Main()
}

var program = daemon.Program[*options]{Name: "simruntimed", Parse: parse, Serve: serve}

type options struct {
	listen string
	debug  bool
	cfg    simruntime.Config
}

func parse(args []string, stdout io.Writer) (*options, error) {
	var o options
	flags := pflag.NewFlagSet("simruntimed", pflag.ContinueOnError)
	flags.SetOutput(stdout)
	flags.StringVar(&o.listen, "listen", "unix:///run/podstream/simruntimed.sock", "where to serve CRI, as unix:///path")
	flags.StringVar(&o.cfg.StateDir, "state-dir", "", "the directory that ImageFsInfo reports as the image file system; nothing is written there (default: the directory for temporary files)")
	flags.StringVar(&o.cfg.ContainersDir, "containers-dir", "", "the directory that ImageFsInfo reports as the file system of containers (default: it reports none, as containerd)")
	flags.StringArrayVar(&o.cfg.Images, "image", nil, `an image that can be pulled, or a prefix of images that ends in "/"; repeatable (default: sim/ and localhost/)`)
	flags.BoolVar(&o.cfg.NoEvents, "no-events", false, "serve no container events, as containerd 1.6 does")
	flags.BoolVar(&o.debug, "debug", false, "log every call")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return &o, nil
}

func serve(ctx context.Context, opts *options, stderr io.Writer) error {
	level := slog.LevelInfo
	if opts.debug {
		level = slog.LevelDebug
	}
	opts.cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if opts.cfg.StateDir != "" {
		if err := os.MkdirAll(opts.cfg.StateDir, 0o755); err != nil {
			return fmt.Errorf("create the state directory: %w", err)
		}
	}
	listeners, err := grpcserver.Listen([]string{opts.listen})
	if err != nil {
		return err
	}
	server := simruntime.New(opts.cfg)
	defer server.Close()
	opts.cfg.Logger.Info("simruntimed is up", "listen", opts.listen)
	err = server.Serve(ctx, listeners[0])
	opts.cfg.Logger.Info("simruntimed is down")
	return err
}
