package podconfigd

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/podstream/podstream/internal/mergesvc/metrics"
	"github.com/podstream/podstream/internal/sourceconfig"
)

// missingTime is the interval at which the files are checked while a source lacks one: kubeadm writes the kubeconfig of a node
// after the start, and its first pods wait for it.
const missingTime = time.Second

// reloader reads the configuration again when it may have changed, and passes it to the supervisor.
type reloader struct {
	opts *Options
	sup  *supervisor
	// hup requests a reload in any case. look and poll request a check whether the files changed; poll also retries
	// what couldn't be read.
	hup        <-chan os.Signal
	look, poll <-chan struct{}
	settling   settling
	leftovers  leftovers
	metrics    *metrics.Metrics
	log        *slog.Logger

	// seen is the reading of the plan that was tried last. problem is why that was refused, empty if it wasn't; retry
	// is set if the reason isn't in what was read, so that it may go away by itself.
	seen    *reading
	problem string
	retry   bool
	// restless: it was logged that the files keep changing.
	restless bool
}

// run starts the sources and follows the configuration until ctx ends; then it stops them. It returns the error of a
// source of the first plan that can't work.
func (r *reloader) run(ctx context.Context) error {
	defer r.sup.stop()
	if err := r.sup.start(ctx, r.opts.plan); err != nil {
		return err
	}
	r.leftovers.remove(r.opts.plan)
	r.seen = r.opts.read
	r.metrics.Reloaded.SetToCurrentTime()
	r.log.Info("podconfigd is up", "node", r.opts.node, "sources", len(r.opts.mergeSources(r.opts.plan)))
	logIneffective(r.log, &sourceconfig.Plan{}, r.opts.plan)
	again := time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	for {
		var found verdict
		if r.lacksFile() {
			again.Reset(missingTime)
		}
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
			r.log.Info("SIGHUP: reading the configuration again")
			r.settling.reset()
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

// lacksFile reports whether a source can't be made, as a file that it names is missing or invalid.
func (r *reloader) lacksFile() bool {
	return slices.ContainsFunc(r.sup.plan.Load().Sources, func(s sourceconfig.Source) bool { return s.Problem != nil })
}

// check reads the files. If they have changed and settled, it reloads. If nothing has changed and retry is set, it
// retries what failed.
func (r *reloader) check(ctx context.Context, retry bool) verdict {
	now := r.opts.reread(r.seen)
	found := r.settling.look(time.Now(), now.sum(), r.seen.sum())
	switch {
	case found == settled, found == unchanged && retry && (r.retry || r.sup.incomplete()):
		r.reload(ctx, now, false)
	case found == restless && !r.restless:
		r.log.Warn("the configuration files keep changing; the current configuration stays in force until they settle")
	}
	r.restless = found == restless
	return found
}

// reload changes to what was read. If that has an error, nothing changes. It is logged and counted if asked is set,
// or if anything is new.
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
		r.metrics.Reloads.Inc()
		if err != nil {
			r.metrics.ReloadErrors.Inc()
		}
	}
	switch {
	case err == nil:
		r.leftovers.remove(plan)
		r.metrics.Reloaded.SetToCurrentTime()
		if asked || now.own != own || problem != "" || !sameSources(before, plan) {
			r.log.Info("the configuration was read again", "sources", len(r.opts.mergeSources(plan)))
		}
		logIneffective(r.log, before, plan)
	case asked || r.problem != problem:
		r.log.Error("the configuration has errors; the current one stays in force", "error", err)
	}
}

// sameSources reports whether two plans have the same sources.
func sameSources(a, b *sourceconfig.Plan) bool {
	return slices.EqualFunc(a.Sources, b.Sources, func(a, b sourceconfig.Source) bool { return a.Fingerprint == b.Fingerprint })
}

// logIneffective logs which of the configuration has no effect, unless that was logged before.
func logIneffective(log *slog.Logger, before, now *sourceconfig.Plan) {
	if len(now.Ignored) > 0 && !slices.Equal(before.Ignored, now.Ignored) {
		log.Warn("set in the configuration but not supported, and ignored", "fields", now.Ignored)
	}
	if len(now.Podexecd) > 0 && !slices.Equal(before.Podexecd, now.Podexecd) {
		log.Info("set in the configuration for podexecd", "fields", now.Podexecd)
	}
	reported := map[string]bool{}
	for _, warning := range before.Warnings {
		reported[warning] = true
	}
	for _, warning := range now.Warnings {
		if !reported[warning] {
			log.Warn("the configuration has a warning", "warning", warning)
		}
	}
}
