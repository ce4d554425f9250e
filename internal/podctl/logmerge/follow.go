package logmerge

import (
	"context"
	"slices"
	"sync"
)

// Follow prints the lines of all logs as they come, until the logs end. The streams must end with ctx. The error is that of
// Out; cancel is called then, and must end ctx.
func Follow(ctx context.Context, cancel context.CancelFunc, cfg Config) error {
	type item struct {
		log int
		entry
		err error // the log has ended
	}
	items := make(chan item)
	var readers sync.WaitGroup
	logs := slices.Clone(cfg.Logs)
	for i, log := range logs {
		readers.Go(func() {
			l := &lines{stream: log.Stream}
			for {
				e, err := l.next()
				select {
				case items <- item{i, e, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
	defer readers.Wait()
	for left := len(logs); left > 0; {
		select {
		case <-ctx.Done():
			return nil
		case i := <-items:
			switch {
			case i.err != nil:
				left--
				if err := failure(i.err); err != nil && ctx.Err() == nil {
					cfg.Failed(logs[i.log], err)
				}
			case i.defaulted != nil:
				cfg.chosen(&logs[i.log], i.defaulted)
			default:
				if err := cfg.print(logs[i.log], i.line); err != nil {
					cancel()
					return err
				}
			}
		}
	}
	return nil
}
