package podconfigd

import (
	"context"
	"log/slog"
	"os"
	"slices"

	"github.com/podstream/podstream/internal/sourceconfig"
)

// reloader reads the configuration again when it may have changed, and gives it to the supervisor.
type reloader struct {
	opts *Options
	sup  *supervisor
	// hup asks for a reload whatever the files; look asks whether the files changed.
	hup  <-chan os.Signal
	look <-chan struct{}
	// seen is the digest of the files that were read last, good or not.
	seen    digest
	metrics *reloadMetrics
	log     *slog.Logger
}

// run starts the sources and follows the configuration until ctx ends; then it stops them. It returns the error of a source of the
// first plan that can't work.
func (r *reloader) run(ctx context.Context) error {
	defer r.sup.stop()
	if err := r.sup.start(ctx, r.opts.plan); err != nil {
		return err
	}
	r.seen = r.opts.planOf
	r.metrics.succeeded()
	tell(r.log, &sourceconfig.Plan{}, r.opts.plan)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-r.sup.failed:
			return err
		case <-r.hup:
			r.log.Info("told to read the configuration again")
			r.reload(ctx, true)
		case <-r.look:
			r.reload(ctx, false)
		}
	}
}

// reload reads the files, and goes over to what they say if they are others than before, or if it must. If they are no good, all stays
// as it is.
func (r *reloader) reload(ctx context.Context, must bool) {
	files, now, err := r.opts.readConfig()
	if now == r.seen && !must {
		return
	}
	r.seen = now
	r.metrics.total.Inc()
	before := r.sup.plan.Load()
	var plan *sourceconfig.Plan
	if err == nil {
		plan, err = r.opts.makePlan(files)
	}
	if err == nil {
		err = r.sup.change(ctx, plan)
	}
	if err != nil {
		r.metrics.errors.Inc()
		r.log.Error("the configuration is no good; what was in force stays so", "err", err)
		return
	}
	r.metrics.succeeded()
	r.log.Info("the configuration was read again", "sources", len(r.opts.mergeSources(plan)))
	tell(r.log, before, plan)
}

// tell logs what of the configuration has no effect, unless it was told before.
func tell(log *slog.Logger, before, now *sourceconfig.Plan) {
	if len(now.Ignored) > 0 && !slices.Equal(before.Ignored, now.Ignored) {
		log.Warn("set in the configuration but not supported, and ignored", "fields", now.Ignored)
	}
	for _, warning := range now.Warnings {
		if !slices.Contains(before.Warnings, warning) {
			log.Warn("look at the configuration", "warning", warning)
		}
	}
}
