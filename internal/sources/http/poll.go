package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
)

// poller is the state of one Run, used by one goroutine.
type poller struct {
	log     *slog.Logger
	fetcher *fetcher
	content *content
	// validator is that of the content's body. Zero: the next request isn't conditional.
	validator validator
	// conditional counts the requests in a row that were.
	conditional int
	// problem is the error that the log knows of. Empty: there is none.
	problem string
}

// poll asks once, and takes the answer over. ctx ends what is under way.
func (p *poller) poll(ctx context.Context) error {
	err := p.read(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && err.Error() != p.problem:
		p.problem = err.Error()
		p.log.Warn("Pods can't be read; those known stay", "err", err)
	case err == nil && p.problem != "":
		p.problem = ""
		p.log.Info("Pods can be read again")
	}
	return err
}

func (p *poller) read(ctx context.Context) error {
	answer, err := p.fetcher.fetch(ctx, p.condition())
	switch {
	case errors.Is(err, errBody):
		p.validator = validator{}
		return err
	case err != nil:
		return err
	case answer.unchanged:
		return nil
	}
	p.validator = validator{}
	next, err := p.content.take(answer.body)
	if err != nil {
		return fmt.Errorf("GET %s: %w", p.fetcher.location, err)
	}
	logFindings(p.log, p.content.items, next.items)
	if p.content = next; next.good {
		p.validator = answer.validator
	}
	return nil
}

// condition is the validator for the next request.
func (p *poller) condition() validator {
	if p.validator == (validator{}) || p.conditional == maxConditional {
		p.conditional = 0
		return validator{}
	}
	p.conditional++
	return p.validator
}
