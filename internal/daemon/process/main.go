package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main calls run and ends the process with the exit code that it returns. The first SIGINT or SIGTERM ends run's context. The
// second has its default effect: a run that hangs on its way out doesn't need a kill -9.
func Main(run func(ctx context.Context) (code int)) {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	// In this order: once ctx has ended, the second signal counts.
	context.AfterFunc(signaled, func() { stop(); cancel() })
	os.Exit(run(ctx))
}
