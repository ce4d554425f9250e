package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"
)

// diary runs a command and appends its start, each SIGTERM and its end to a file. If it can't write, it fails, because
// the checkers wouldn't see a run without a record.
func (p *program) diary(ctx context.Context, args []string) int {
	path, run := args[0], rand.Uint32()
	note := func(what string) error {
		return appendLine(path, fmt.Sprintf("%d %08x %s", time.Now().UnixNano(), run, what))
	}
	if err := note("start"); err != nil {
		return p.failed(err)
	}
	noted, done, failure := make(chan os.Signal, cap(p.signals)), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := p.signals
	p.signals = noted
	go func() {
		defer close(failure)
		for {
			select {
			case s := <-signals:
				if err := note("term"); err != nil {
					failure <- err
					cancel()
					return
				}
				select {
				case noted <- s:
				default: // the command's queue of signals is full
				}
			case <-done:
				return
			}
		}
	}()
	code := p.run(ctx, args[1:])
	close(done)
	err := <-failure
	p.signals = signals
	if err == nil {
		err = note(fmt.Sprintf("end %d", code))
	}
	if err != nil {
		return p.failed(err)
	}
	return code
}
