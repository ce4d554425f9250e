package process

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Main calls run and ends the process with the exit code that it returns. The first SIGINT or SIGTERM cancels run's
// context. The second has its default effect, so that a run that hangs while ending can be stopped without kill -9.
func Main(run func(ctx context.Context) (code int)) {
	signaled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	// In this order: after ctx has ended, the second signal has its default effect.
	context.AfterFunc(signaled, func() { stop(); cancel() })
	os.Exit(run(ctx))
}
