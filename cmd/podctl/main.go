// Command podctl shows what podconfigd wants to run on this node and what podexecd does run.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/podstream/podstream/internal/podctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return podctl.Run(ctx, podctl.Config{Args: args, Stdout: stdout, Stderr: stderr})
}
