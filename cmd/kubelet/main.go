// Command kubelet takes a kubelet's command line, and runs podconfigd and podexecd with it.
package main

import (
	"context"
	"os"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/launcher"
)

func main() {
	l := &launcher.Launcher{Sockets: os.Getenv("PODSTREAM_RUN_DIR"), Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}
	process.Main(func(ctx context.Context) int { return l.Run(ctx, os.Args[1:]) })
}
