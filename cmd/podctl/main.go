// Command podctl shows the pods that podconfigd wants to run on this node, and those that podexecd runs.
package main

import (
	"context"
	"os"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/podctl"
)

func main() {
	process.Main(func(ctx context.Context) int {
		return podctl.Run(ctx, podctl.Config{Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})
	})
}
