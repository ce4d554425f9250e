package failover

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// choose returns a connection to the first candidate that is SERVING, or else to the first one that answers. The only
// candidate is not checked: the call shows whether it works.
func (c *Conn) choose(ctx context.Context) (*link, error) {
	candidates, failed := c.book.candidates(ctx)
	c.mu.Lock()
	c.several = len(candidates) > 1
	c.mu.Unlock()
	if len(candidates) == 1 {
		return c.dial(candidates[0])
	}
	slices.SortStableFunc(candidates, c.later)
	best, v, errs := c.first(ctx, candidates, notServing)
	failed = append(failed, errs...)
	switch {
	case best == nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case best == nil:
		return nil, status.Error(codes.Unavailable, "no podconfigd answers: "+list(failed))
	case v != serving:
		c.cfg.Logger.Log(ctx, c.level(best, slog.LevelWarn), "no podconfigd is healthy; using one that answers", "to", best.String(), "error", list(failed))
	case len(failed) > 0:
		c.cfg.Logger.Log(ctx, c.level(best, slog.LevelWarn), "connected to podconfigd; others do not work", "to", best.String(), "error", list(failed))
	default:
		c.cfg.Logger.Log(ctx, c.level(best, slog.LevelInfo), "connected to podconfigd", "to", best.String())
	}
	return best, nil
}

func (c *Conn) dial(candidate Candidate) (*link, error) {
	conn, err := c.cfg.Dial(candidate)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "%s: %v", candidate, err)
	}
	return &link{Candidate: candidate, conn: conn, moved: make(chan struct{})}, nil
}

// first returns a connection to the first candidate with the best verdict, if that is worst or better, and the errors
// of those that were checked and aren't SERVING. It checks candidates until one is SERVING.
func (c *Conn) first(ctx context.Context, candidates []Candidate, worst verdict) (best *link, of verdict, errs []error) {
	of = worst + 1
	for _, candidate := range candidates {
		if ctx.Err() != nil {
			break
		}
		l, err := c.dial(candidate)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		v, err := c.check(ctx, l)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", candidate, err))
		}
		if v >= of {
			_ = l.conn.Close()
			continue
		}
		if best != nil {
			_ = best.conn.Close()
		}
		if best, of = l, v; v == serving {
			break
		}
	}
	return best, of, errs
}

const (
	// maxShown and maxShownBytes bound the text of the candidates' errors.
	maxShown      = 8
	maxShownBytes = 256
)

// list returns the errors in one line.
func list(errs []error) string {
	var out []string
	for i, err := range errs {
		if i == maxShown {
			out = append(out, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		text := err.Error()
		if len(text) > maxShownBytes {
			text = strings.ToValidUTF8(text[:maxShownBytes], "") + "…"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
