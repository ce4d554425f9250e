// Command kubelet takes a kubelet's command line, and starts podconfigd and podexecd with it.
package main

import (
	"context"
	"os"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/launcher"
)

func main() {
	process.Main(func(ctx context.Context) int { return launcher.Run(ctx, os.Args[1:], os.Stdout, os.Stderr) })
}
