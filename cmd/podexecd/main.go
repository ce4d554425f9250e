// Command podexecd runs the pods that podconfigd publishes. It drives a container runtime over CRI and serves the
// pods' statuses.
package main

import (
	"context"
	"io"
	"log/slog"

	"k8s.io/klog/v2"

	"github.com/podstream/podstream/internal/daemon"
	"github.com/podstream/podstream/internal/execsvc/setup/foreign"
	"github.com/podstream/podstream/internal/podexecd"
)

func main() {
	foreign.Main()
	program := podexecd.Program()
	serve := program.Serve
	program.Serve = func(ctx context.Context, opts *podexecd.Options, stderr io.Writer) error {
		// The CRI client logs each failed call through klog, and returns the error too. It is logged once, except
		// when debugging.
		klog.SetSlogLogger(slog.New(slog.DiscardHandler))
		if opts.Verbosity >= daemon.DebugVerbosity {
			log, err := opts.Logger(stderr)
			if err != nil {
				return err
			}
			klog.SetSlogLogger(log.With("from", "klog"))
		}
		return serve(ctx, opts, stderr)
	}
	program.Main()
}
