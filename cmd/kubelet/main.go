// Command kubelet runs podconfigd and podexecd with the kubelet's command line and configuration, for nodes that are set up
// for the kubelet.
package main

import (
	"context"
	"os"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/launcher"
)

func main() {
	l := &launcher.Launcher{RunDir: os.Getenv("PODSTREAM_RUN_DIR"), Stdout: os.Stdout, Stderr: os.Stderr}
	process.Main(func(ctx context.Context) int { return l.Run(ctx, os.Args[1:]) })
}
