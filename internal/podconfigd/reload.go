package podconfigd

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// reloader reads the configuration again when it may have changed, and gives it to the supervisor.
type reloader struct {
	opts *Options
	sup  *supervisor
	// hup asks for a reload whatever the files; look and poll ask whether the files changed, and poll also whether what couldn't be
	// read can be now.
	hup        <-chan os.Signal
	look, poll <-chan struct{}
	settling   settling
	metrics    *reloadMetrics
	log        *slog.Logger

	// seen is what was read for the plan that was tried last. problem is why that was refused, empty if it wasn't; retry is set if
	// the reason isn't in what was read, so that it may go away by itself.
	seen    *reading
	problem string
	retry   bool
	// restless: it has been told that the files don't settle.
	restless bool
}

// run starts the sources and follows the configuration until ctx ends; then it stops them. It returns the error of a source of the
// first plan that can't work.
func (r *reloader) run(ctx context.Context) error {
	defer r.sup.stop()
	if err := r.sup.start(ctx, r.opts.plan); err != nil {
		return err
	}
	r.seen = r.opts.read
	r.metrics.succeeded()
	r.log.Info("podconfigd is up", "node", r.opts.node, "sources", len(r.opts.mergeSources(r.opts.plan)))
	tell(r.log, &sourceconfig.Plan{}, r.opts.plan)
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		var found verdict
		select {
		case <-ctx.Done():
			return nil
		case <-r.sup.wake:
			if err := r.sup.attend(); err != nil {
				return err
			}
		case <-r.sup.expired.C:
			r.sup.expire()
		case <-r.hup:
			r.log.Info("told to read the configuration again")
			r.settling.forget()
			r.reload(ctx, r.opts.reread(r.seen), true)
		case <-r.look:
			found = r.check(ctx, false)
		case <-again.C:
			found = r.check(ctx, false)
		case <-r.poll:
			found = r.check(ctx, true)
		}
		if found == unsettled {
			again.Reset(r.settling.settle)
		}
	}
}

// check looks at the files. It goes over to what they say once they have settled; or if nothing has changed and retry is set, tries
// again what didn't work.
func (r *reloader) check(ctx context.Context, retry bool) verdict {
	now := r.opts.reread(r.seen)
	found := r.settling.look(time.Now(), now.sum(), r.seen.sum())
	switch {
	case found == settled, found == unchanged && retry && (r.retry || r.sup.incomplete()):
		r.reload(ctx, now, false)
	case found == restless && !r.restless:
		r.log.Warn("the configuration files don't stop changing; what was in force stays so until they do")
	}
	r.restless = found == restless
	return found
}

// reload goes over to what was read. If it is no good, all stays as it is. It is told of if somebody has asked for it, or if there is
// anything new in it.
func (r *reloader) reload(ctx context.Context, now *reading, asked bool) {
	before, sum, own, problem := r.sup.plan.Load(), r.seen.sum(), r.seen.own, r.problem
	r.seen, r.problem, r.retry = now, "", false
	plan, err := r.opts.makePlan(now)
	if err == nil {
		err = r.sup.change(ctx, plan)
		r.retry = err != nil
	}
	if err != nil {
		r.problem = err.Error()
	}
	if asked || now.sum() != sum || r.problem != problem {
		r.metrics.total.Inc()
		if err != nil {
			r.metrics.errors.Inc()
		}
	}
	switch {
	case err == nil:
		r.metrics.succeeded()
		if asked || now.own != own || problem != "" || !sameSources(before, plan) {
			r.log.Info("the configuration was read again", "sources", len(r.opts.mergeSources(plan)))
		}
		tell(r.log, before, plan)
	case asked || r.problem != problem:
		r.log.Error("the configuration is no good; what was in force stays so", "err", err)
	}
}

// sameSources tells whether two plans are the same to the sources.
func sameSources(a, b *sourceconfig.Plan) bool {
	return slices.EqualFunc(a.Sources, b.Sources, func(a, b sourceconfig.Source) bool { return a.Fingerprint == b.Fingerprint })
}

// tell logs what of the configuration has no effect, unless it was told before.
func tell(log *slog.Logger, before, now *sourceconfig.Plan) {
	if len(now.Ignored) > 0 && !slices.Equal(before.Ignored, now.Ignored) {
		log.Warn("set in the configuration but not supported, and ignored", "fields", now.Ignored)
	}
	if len(now.Podexecd) > 0 && !slices.Equal(before.Podexecd, now.Podexecd) {
		log.Info("set in the configuration for podexecd", "fields", now.Podexecd)
	}
	told := map[string]bool{}
	for _, warning := range before.Warnings {
		told[warning] = true
	}
	for _, warning := range now.Warnings {
		if !told[warning] {
			log.Warn("look at the configuration", "warning", warning)
		}
	}
}
