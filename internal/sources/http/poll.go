package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/podstream/podstream/internal/sources/fault"
)

// poller is the state of one Run, used by one goroutine.
type poller struct {
	log     *slog.Logger
	fetcher *fetcher
	content *content
	// validator is the validator of the content's body. Zero: the next request isn't conditional.
	validator validator
	// conditional counts the conditional requests in a row.
	conditional int
	// soon is set if the last response is used only when the next one, which is due soon, says the same. If that
	// differs too, it isn't set again at once, and restless is set once that was logged.
	soon, restless bool
	// problem is the error that was logged. Empty: there is none.
	problem string
}

// poll makes one request, and takes over the response.
func (p *poller) poll(ctx context.Context) error {
	err := p.read(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && fault.Problem(err) != p.problem:
		p.problem = fault.Problem(err)
		p.log.Warn("Pods can't be read; those known stay", "error", err)
	case err == nil && p.problem != "":
		p.problem = ""
		p.log.Info("Pods can be read again")
	}
	return err
}

func (p *poller) read(ctx context.Context) error {
	second := p.soon
	p.soon = false
	answer, err := p.fetcher.fetch(ctx, p.condition())
	switch {
	case errors.Is(err, errBody):
		p.validator = ""
		return err
	case err != nil:
		return err
	case answer.unchanged:
		return nil
	}
	p.validator = ""
	next, err := p.content.take(answer.body)
	logFindings(p.log, p.content.items, next.items)
	p.soon = next != p.content && next.isPending() && !second
	p.content = next
	if err != nil {
		return fmt.Errorf("GET %s: %w", p.fetcher.location, err)
	}
	switch {
	case next.good:
		p.validator, p.restless = answer.validator, false
	case !next.isPending():
		p.restless = false
	case second && !p.restless:
		p.restless = true
		p.log.Warn("Each response differs; what one of them leaves out or changes stays until two in a row are equal")
	}
	return nil
}

// condition returns the validator for the next request.
func (p *poller) condition() validator {
	if p.validator == "" || p.conditional == maxConditional {
		p.conditional = 0
		return ""
	}
	p.conditional++
	return p.validator
}
